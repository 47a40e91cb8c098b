import { setTimeout as pause } from 'node:timers/promises';
import { connect, type Session } from '@parlance/client';
import { afterEach, describe, expect, it } from 'vitest';
import WebSocket from 'ws';
import { redisMissing } from '../../../packages/server/src/engine/testing/redis-server.js';
import { type Nodes, startNodes, type WatchNodes } from './nodes.js';
import { useSession } from './usage.js';

/** A session moves from node 0 to node 1, and at a certain step of that a process is killed, or Redis is gone. */

/** The message that one of the two nodes, or Redis, is about to get. */
const STEPS = ['hold', 'held', 'snapshot', 'record', 'recorded', 'taken'] as const;
type Step = (typeof STEPS)[number];

/** A message of the nodes about a session that moves: the step, its number, and which session it is. */
const SAID = /\["moves","(hold|held|snapshot|taken)",(\d+)(?:,"(sess_\w+)")?/g;

const FORMER = 0;
const NEXT = 1;
const SESSIONS = 4;
const OUTAGE_MS = 1_500;
/** Against hanging only: at the deadline of a drain handlers are aborted, and what has not moved stays. */
const DRAIN_MS = 60_000;

let nodes: Nodes | undefined;
const sessions: Session[] = [];
afterEach(async () => {
  for (const session of sessions.splice(0)) await session.close();
  await nodes?.[Symbol.asyncDispose]();
});

/** Calls `onStep` once, when a session gets to that step; it is not passed on if its receiver is gone by then. */
function watchFor(step: Step, onStep: (sessionId: string) => Promise<'pass' | 'cut'>): WatchNodes {
  let hasBegun = false;
  /** The sessions that move, by their numbers on the link. */
  const moving = new Map<string, string>();
  return async ({ leg, index, from, text, pair }) => {
    if (index !== NEXT || hasBegun) return 'pass';
    let seen: Step | undefined;
    if (leg === 'peer') {
      for (const [, type, number = '', id] of text.matchAll(SAID)) {
        if (id !== undefined) moving.set(number, id);
        if (type !== step) continue;
        seen = type;
        pair.session = moving.get(number);
      }
    } else if (from === 'client') {
      const session = /\{(sess_\w+)\}/.exec(text)?.[1];
      pair.session = session ?? pair.session;
      if (session !== undefined) seen = 'record';
    } else if (pair.session !== undefined && /^\*2\r\n/.test(text)) seen = 'recorded';
    if (seen !== step || pair.session === undefined) return 'pass';
    hasBegun = true;
    return await onStep(pair.session);
  };
}

/** Four sessions of node 0 in use while it drains. Returns how each has fared. */
async function drainUntil(watch: WatchNodes) {
  const started = await startNodes(3, { watch });
  nodes = started;
  started.choose(FORMER);
  for (let i = 0; i < SESSIONS; i++) {
    const session = await connect(started.url, {
      WebSocket,
      waitForServer: true,
      token: 'user-1',
      reconnect: { minDelayMs: 5, maxDelayMs: 50 },
      limits: { messagesPerMinute: Infinity, bytesPerSecond: Infinity },
      timers: { closingTimeoutMs: 500 },
    });
    sessions.push(session);
  }
  let isOver = false;
  const used = sessions.map((session) => useSession(session, () => isOver));
  await pause(100);
  started.choose(NEXT);
  const drained = started.nodes[FORMER]?.process.call('drain', DRAIN_MS).catch(() => undefined);
  return async () => {
    started.choose(NEXT, 2);
    await drained;
    // The sessions of a killed node are lost when its connections break, or else when its lease is over.
    await pause(500);
    isOver = true;
    const usages = await Promise.all(used);
    const faults = usages.flatMap((usage) => usage.faults);
    const fates = new Map<string, 'lost' | number>();
    for (const { id, isLost } of usages) {
      const owners = [];
      for (const [index, { process }] of started.nodes.entries())
        if (process.end === undefined && (await process.call('owns', id))) owners.push(index);
      // A session that is lost is nowhere, and any other is at one node.
      expect({ id, isLost, owners }).toMatchObject({ owners: { length: isLost ? 0 : 1 } });
      fates.set(id, isLost ? 'lost' : (owners[0] as number));
    }
    return { faults, fates };
  };
}

describe.skipIf(redisMissing !== undefined)(`a session that moves (${redisMissing ?? 'with Redis'})`, () => {
  /** Who has the session afterwards if the former node or the next one is killed at the step. */
  const FATES: Readonly<Record<Step, { readonly former: unknown; readonly next: unknown }>> = {
    hold: { former: 'lost', next: 2 },
    held: { former: 'lost', next: 2 },
    // It may have arrived.
    snapshot: { former: expect.anything(), next: 2 },
    record: { former: NEXT, next: 2 },
    recorded: { former: NEXT, next: 'lost' },
    taken: { former: NEXT, next: 'lost' },
  };

  it.each(STEPS.flatMap((step) => [[step, 'former'] as const, [step, 'next'] as const]))(
    'is at one node or lost, and nothing else is, when at %s the %s one is killed',
    async (step, victim) => {
      let moving = '';
      let handleKilled = () => {};
      const killed = new Promise<void>((resolve) => {
        handleKilled = resolve;
      });
      const end = await drainUntil(
        watchFor(step, async (sessionId) => {
          moving = sessionId;
          await nodes?.nodes[victim === 'former' ? FORMER : NEXT]?.process.kill();
          nodes?.choose(victim === 'former' ? NEXT : 2);
          handleKilled();
          // The node is killed before its record has left.
          return step === 'record' && victim === 'next' ? 'cut' : 'pass';
        }),
      );
      await killed;
      const { faults, fates } = await end();
      expect(faults).toEqual([]);
      expect(fates.get(moving)).toEqual(FATES[step][victim]);
    },
  );

  it.each([
    ['before it has written the record', 'record'],
    ['after that, so that its answer is lost', 'recorded'],
    ['while the session is held', 'held'],
  ] as const)('is at one node, and nothing is lost, when Redis is gone %s', async (_when, step) => {
    let handleBack = () => {};
    const back = new Promise<void>((resolve) => {
      handleBack = resolve;
    });
    const end = await drainUntil(
      watchFor(step, async () => {
        for (const { engine } of nodes?.nodes ?? []) engine?.refuse();
        setTimeout(() => {
          for (const { engine } of nodes?.nodes ?? []) engine?.allow();
          handleBack();
        }, OUTAGE_MS);
        return step === 'held' ? 'pass' : 'cut';
      }),
    );
    await back;
    const { faults, fates } = await end();
    expect([faults, [...fates.values()].filter((fate) => fate === 'lost' || fate === FORMER)]).toEqual([
      [],
      [],
    ]);
  });
});
