import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { connect } from '@parlance/client';
import { events } from '@parlance/client/contract';
import { afterEach, expect, it } from 'vitest';
import WebSocket from 'ws';
import { isFull } from '../../../scripts/extent.js';
import { createCuttingProxy } from '../kit/cutting-proxy.js';
import { eventContract } from '../kit/event-contract.js';
import { type NodeProcess, startNode } from '../kit/programs.js';
import type { Totals } from './events-node.js';

/** Events in durable sessions, whose processes are killed. `EVENT_KILLS=100` kills as many. */

const KILLS = Number(process.env['EVENT_KILLS'] ?? (isFull ? 20 : 5));
/** From each end, between two kills. */
const EVENTS = 30;

const folder = mkdtempSync(join(tmpdir(), 'parlance-events-'));
let node: NodeProcess<'durable/events-node'> | undefined;
afterEach(async () => {
  await node?.process.kill();
  rmSync(folder, { recursive: true, force: true });
});

async function replace(): Promise<NodeProcess<'durable/events-node'>> {
  await node?.process.kill();
  node = await startNode('durable/events-node', { url: join(folder, 'parlance.db') });
  return node;
}

it(`are handled once, from both ends, while processes are killed ${KILLS} times`, {
  timeout: 300_000 + KILLS * 10_000,
}, async () => {
  await replace();
  await using front = await createCuttingProxy(() => node?.port ?? 0);
  /** The numbers that the client has handled. */
  const heard: number[] = [];
  const session = await connect(`ws://127.0.0.1:${front.port}/session`, {
    WebSocket,
    waitForServer: true,
    token: 'ann',
    reconnect: { minDelayMs: 5, maxDelayMs: 50, connectWithinMs: 60_000 },
    modules: [events(eventContract, { counted: (number) => void heard.push(number) })],
  });
  const { id } = session;
  const totals = async () => (await session.request<Totals>('')).json();
  const emitted: Promise<void>[] = [];
  let sent = 0;
  for (let kill = 0; kill < KILLS; kill++) {
    const telling = node?.process.call('tell', EVENTS).catch(() => {});
    for (let i = 0; i < EVENTS; i++) {
      sent++;
      emitted.push(session.emit('counted', sent), session.emit('saved', { id: sent }));
      // Some are written before it, and some while it happens.
      if (i % 10 === 0) await pause(Math.random() * 10);
    }
    await replace();
    await telling;
  }
  // Each is acknowledged: it was handled.
  await Promise.all(emitted);
  const numbers = Array.from({ length: sent }, (_, i) => i + 1);
  const { counted, saved, told } = await totals();
  expect(counted.toSorted((a, b) => a - b)).toEqual(numbers);
  expect(saved.toSorted((a, b) => a - b)).toEqual(numbers);
  // The events that the server has recorded as told, and nothing else.
  await expect.poll(() => heard.length).toBeGreaterThanOrEqual(told);
  await node?.process.call('tell', 1);
  await expect.poll(() => heard).toContain(told + 1);
  expect(heard.toSorted((a, b) => a - b)).toEqual(Array.from({ length: told + 1 }, (_, i) => i + 1));
  expect(session.id).toBe(id);
  await session.close();
});
