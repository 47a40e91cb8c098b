import { setTimeout as pause } from 'node:timers/promises';
import type { Logger, Throttled } from '@parlance/client';
import { afterEach, describe, expect, it } from 'vitest';
import { createPeers } from '../kit/peers.js';

/** Clients that send as much as they may. */

const peers = createPeers();
afterEach(() => peers[Symbol.asyncDispose]());

function createLog(): Logger & { readonly lines: Readonly<Record<string, unknown>>[] } {
  const lines: Readonly<Record<string, unknown>>[] = [];
  const log = (fields: Readonly<Record<string, unknown>>) => void lines.push(fields);
  return { lines, debug: log, info: log, warn: log, error: log };
}

describe('a client that is throttled', () => {
  async function setUp(messagesPerMinute: number) {
    const log = createLog();
    const events: [string, Throttled][] = [];
    const heard: string[] = [];
    const { server, url } = await peers.serve({
      limits: { messagesPerMinute },
      logger: log,
      async onSession(session) {
        session.on('throttled', (event) => events.push(['server', event]));
        for await (const message of session) heard.push(message.text);
      },
    });
    const session = await peers.dial(url);
    session.on('throttled', (event) => events.push(['client', event]));
    const linesOf = () => log.lines.filter(({ event }) => event === 'session.throttled');
    return { server, session, heard, events, linesOf };
  }

  it('learns it from an event, a log line, stats() and its own calls, and so does the server', async () => {
    const { server, session, heard, events, linesOf } = await setUp(600);
    const [served] = [...server.sessions.values()];
    let sent = 0;
    let isOver = false;
    const sending = (async () => {
      while (!isOver) {
        await session.send(`message ${sent++}`);
        if (sent % 100 === 0) await pause(0);
      }
    })();
    await expect.poll(() => events.length).toBe(2);
    await expect.poll(() => heard.length).toBeGreaterThan(620);
    // Between two messages neither is blocked for a moment.
    const blocked = () => [session.stats().blockedOnRate, served?.stats().peerBlockedOnRate];
    await expect.poll(blocked).toEqual([true, true]);
    // Its calls wait, so that only a few messages do.
    expect(sent - heard.length).toBeLessThan(30);
    const event = { limit: 'messagesPerMinute', rate: 600 };
    expect(Object.fromEntries(events)).toEqual({ client: event, server: event });
    expect(linesOf()).toEqual([{ event: 'session.throttled', session: session.id, ...event }]);
    isOver = true;
    await sending;
    await session.flush();
    expect(heard).toEqual(Array.from({ length: sent }, (_, i) => `message ${i}`));
  });

  it('was not one with 50 messages a second for as long as it likes', async () => {
    // A minute at the default rate, of which the burst is used up first.
    const { session, events, heard } = await setUp(6_000);
    for (let i = 0; i < 5_950; i++) await session.send('burst');
    for (let i = 0; i < 100; i++) {
      await session.send('cursor');
      await pause(20);
    }
    await expect.poll(() => heard.length).toBe(6_050);
    expect([events, session.stats().blockedOnRate]).toEqual([[], false]);
  });
});
