import { resolveTimers } from '@parlance/protocol';
import { describe, expect, it } from 'vitest';
import { ManualClock } from '../../../protocol/src/testing/manual-clock.js';
import type { EngineConnection } from '../engine/engine.js';
import type { ServerEndpoint } from '../session/endpoint.js';
import { Leaving } from './leaving.js';

/** Sessions of a node that gives them up because it is cut off. */

function setUp() {
  const done: string[] = [];
  const sessions = new Map<string, ServerEndpoint>();
  const add = (id: string, more: object = {}) => {
    let hasEnded = false;
    const session = {
      ...{ id, epoch: 0, isDurable: true, running: undefined, recorded: () => undefined },
      core: { channel: { openStreams: 0 } },
      get hasEnded() {
        return hasEnded;
      },
      isAtRest: () => true,
      holdInput() {},
      stopReading() {},
      giveUp: () => done.push(`${id} given up`),
      record: { leave: () => done.push(`${id} left`) },
      loseWire: (code: number) => done.push(`${id} lost ${code}`),
      forget: (error?: { code: string }) => {
        hasEnded = true;
        done.push(`${id} ended ${error?.code}`);
      },
      crash: () => done.push(`${id} crashed`),
      ...more,
    };
    sessions.set(id, session as unknown as ServerEndpoint);
  };
  const events: string[] = [];
  const log = ({ event }: object & { event?: unknown }) => void events.push(String(event));
  const clock = new ManualClock();
  const calls: string[] = [];
  const link = {
    moveSession: (id: string) => {
      calls.push(id);
      done.push(`${id} told to the engine`);
      return new Promise(() => {});
    },
  } as unknown as EngineConnection;
  const leaving = new Leaving({
    parts: () => ({ leaves: () => false, moved: ({ id }) => void done.push(`${id} is waited for`) }),
    ...{ incarnation: 'here', link, sessions, clock, timers: resolveTimers() },
    logger: { debug: log, info: log, warn: log, error: log },
  });
  return { add, done, events, calls, clock, leaving };
}

describe('a node that is cut off', () => {
  it('drops its durable sessions at once, with fenced, and says nothing to the engine', () => {
    const { add, done, events, calls, leaving } = setUp();
    add('a');
    add('plain', { isDurable: false });
    leaving.abandonAll();
    expect(done).toEqual(['a given up', 'a left', 'a lost 1012', 'a ended fenced']);
    expect(events).toEqual(['session.given_up']);
    expect(calls).toEqual([]);
    // Once.
    leaving.abandonAll();
    expect(done).toHaveLength(4);
  });

  it('drops the others if one of them fails', () => {
    const { add, done, leaving } = setUp();
    add('a', {
      giveUp: () => {
        throw new Error('a fault');
      },
    });
    add('b');
    leaving.abandonAll();
    expect(done).toEqual(['a crashed', 'b given up', 'b left', 'b lost 1012', 'b ended fenced']);
  });

  it('lets others wait for a session that it gives up before the engine is told', async () => {
    const { add, done, leaving } = setUp();
    add('a');
    void leaving.all();
    for (let i = 0; i < 20; i++) await Promise.resolve();
    expect(done).toEqual(['a given up', 'a left', 'a is waited for', 'a told to the engine']);
  });

  it('drops a session that it gives up for a drain, while the engine does not answer', async () => {
    const { add, done, calls, events, leaving } = setUp();
    add('a');
    void leaving.all();
    for (let i = 0; i < 20; i++) await Promise.resolve();
    expect(calls).toEqual(['a']);
    leaving.abandonAll();
    expect(done.filter((each) => each.startsWith('a ended'))).toEqual(['a ended fenced']);
    expect(events).toEqual(['session.given_up']);
  });
});
