import { type HelloPayload, resolveTimers } from '@parlance/protocol';
import { SILENT_LOGGER } from '@parlance/protocol/internal';
import { describe, expect, it } from 'vitest';
import { body, DURABLE_OPTIONS, DurablePair } from '../../../protocol/src/testing/durable-pair.js';
import type { EngineConnection, SessionRecord } from '../engine/engine.js';
import { memoryCluster } from '../engine/memory.js';
import type { SessionHost } from '../session/host.js';
import type { Refusal } from '../transport/http/site.js';
import { FieldWriter } from './fields.js';
import type { Records } from './records.js';
import { TakeOvers } from './take-over.js';

/** A recorded session whose node is dead, and its client that has come here. */
const SESSION = 'sess_one';
const FULL: Refusal = { code: 'RATE_LIMITED', message: 'too many sessions', closeCode: 4429 };

async function setUp({ refusal, former }: { readonly refusal?: Refusal; readonly former?: object } = {}) {
  const pair = new DurablePair().run().record();
  pair.server.channel.send(body('said'));
  pair.record();
  const link = memoryCluster().connect();
  const writer = new FieldWriter('ann');
  for (const commit of pair.commits) {
    const isFirst = commit.begin !== undefined;
    const head = { owner: 'dead', epoch: 0, number: commit.number, isFirst, ttlMs: 60_000 };
    await link.writeSession(SESSION, { ...head, ...writer.write(commit) });
  }
  const hello = pair.kill();
  const admitted: string[] = [];
  const host = {
    options: { authenticate: () => null, timers: resolveTimers(), logger: SILENT_LOGGER },
    sessionOptions: () => ({ ...DURABLE_OPTIONS, role: 'server' }),
    admitTakenOver: (address: string, principal: string) => {
      if (refusal === undefined) admitted.push(`${address} ${principal}`);
      return refusal;
    },
    find: () => former,
    release: (address: string, principal: string) =>
      admitted.splice(admitted.indexOf(`${address} ${principal}`), 1),
  } as unknown as SessionHost;
  const records = { release: async () => {} } as unknown as Records;
  const takeOversWith = (engine: EngineConnection, hasLease = true) =>
    new TakeOvers({
      incarnation: 'here',
      host,
      records,
      link: engine,
      logger: SILENT_LOGGER,
      seal: undefined,
      hasLease: () => hasLease,
    });
  const origin = { ip: '10.0.0.1', agentId: undefined, headers: {}, isForwarded: false };
  const claimant = (offer: HelloPayload = hello, principal = 'ann') => ({
    ...{ sessionId: SESSION, offer, identity: { principal }, origin, gone: 'dead' },
  });
  const unchanged: SessionRecord = { owner: 'dead', epoch: 0 };
  return { link, hello, takeOvers: takeOversWith(link), takeOversWith, claimant, admitted, unchanged };
}

const withResume = (hello: HelloPayload, more: object): HelloPayload => ({
  ...hello,
  resume: { ...hello.resume, ...more } as HelloPayload['resume'],
});

describe('taking a durable session over', () => {
  it.each([
    ['another principal', (hello: HelloPayload) => hello, 'ben', 'unknown_session'],
    [
      'a wrong token',
      (hello: HelloPayload) => withResume(hello, { token: 'wrong' }),
      'ann',
      'unknown_session',
    ],
    ['an old attempt', (hello: HelloPayload) => withResume(hello, { attempt: 0 }), 'ann', 'stale_attempt'],
    [
      'no offer to resume',
      (hello: HelloPayload) => ({ ...hello, resume: undefined }),
      'ann',
      'unknown_session',
    ],
  ])('is refused for %s, and changes nothing', async (_what, change, principal, expected) => {
    const { takeOvers, claimant, hello, link, unchanged, admitted } = await setUp();
    expect(await takeOvers.takeOver(claimant(change(hello), principal))).toBe(expected);
    expect(await link.findSession(SESSION)).toEqual(unchanged);
    expect(admitted).toEqual([]);
  });

  it('is refused beyond a quota, and changes nothing', async () => {
    const { takeOvers, claimant, link, unchanged } = await setUp({ refusal: FULL });
    expect(await takeOvers.takeOver(claimant())).toBe(FULL);
    expect(await link.findSession(SESSION)).toEqual(unchanged);
  });

  it('is refused if nothing is recorded, also for a session that has moved', async () => {
    const { takeOvers, claimant, link } = await setUp();
    await link.releaseSession(SESSION, 'dead', 0);
    expect(await takeOvers.takeOver(claimant())).toBe('unknown_session');
    await link.moveSession(SESSION, { from: '', epoch: 0, to: 'dead', ttlMs: 60_000 });
    expect(await takeOvers.takeOver(claimant())).toBe('unknown_session');
  });

  it('has to be tried again if another node is faster, and gives its place back', async () => {
    const { takeOversWith, claimant, link, admitted } = await setUp();
    const claimSession: EngineConnection['claimSession'] = async (id, move) => {
      await link.claimSession(id, { ...move, to: 'other' });
      return await link.claimSession(id, move);
    };
    const takeOvers = takeOversWith({ ...link, claimSession });
    expect(await takeOvers.takeOver(claimant())).toBe('busy');
    expect(await link.findSession(SESSION)).toEqual({ owner: 'other', epoch: 1 });
    expect(admitted).toEqual([]);
  });

  it('has to be tried again if another node was faster than the reading, which is not taken from it', async () => {
    const { takeOvers, claimant, link, admitted } = await setUp();
    await link.claimSession(SESSION, { from: 'dead', epoch: 0, to: 'other', ttlMs: 60_000 });
    expect(await takeOvers.takeOver(claimant())).toBe('busy');
    expect(await link.findSession(SESSION)).toEqual({ owner: 'other', epoch: 1 });
    expect(admitted).toEqual([]);
  });

  it('has to be tried again if the engine does not answer, or is taking it over already', async () => {
    const { takeOversWith, claimant, link, admitted } = await setUp();
    let fail: (error: Error) => void = () => {};
    let handleAsked = () => {};
    const asked = new Promise<void>((resolve) => {
      handleAsked = resolve;
    });
    const claimSession = () => {
      handleAsked();
      return new Promise<never>((_resolve, reject) => {
        fail = reject;
      });
    };
    const takeOvers = takeOversWith({ ...link, claimSession });
    const first = takeOvers.takeOver(claimant());
    await asked;
    expect(takeOvers.isUnderWay(SESSION)).toBe(true);
    expect(await takeOvers.takeOver(claimant())).toBe('busy');
    fail(new Error('no answer'));
    expect(await first).toBe('busy');
    expect([takeOvers.isUnderWay(SESSION), takeOvers.count, admitted]).toEqual([false, 0, []]);
  });

  it('has to be tried again while the lease of this node is over, and asks the engine nothing', async () => {
    const { takeOversWith, claimant, link } = await setUp();
    const readSession = () => Promise.reject(new Error('not to be asked'));
    expect(await takeOversWith({ ...link, readSession }, false).takeOver(claimant())).toBe('busy');
    expect(await takeOversWith(link, true).takeOver(claimant())).not.toBe('busy');
  });

  it('ends what this node has had of it before another one claimed it', async () => {
    const done: string[] = [];
    const former = {
      id: SESSION,
      loseWire: (code: number) => done.push(`lost ${code}`),
      abort: ({ code }: { code: string }) => done.push(code),
    };
    const { takeOversWith, claimant, link } = await setUp({ former });
    const claimSession: EngineConnection['claimSession'] = async (id, move) => {
      const claimed = await link.claimSession(id, move);
      done.push('claimed');
      // It goes no further.
      return claimed && { ...claimed, fields: new Map() };
    };
    expect(await takeOversWith({ ...link, claimSession }).takeOver(claimant())).toBe('no_state');
    expect(done).toEqual(['claimed', 'lost 1012', 'fenced']);
  });

  it('ends with no state if the record is damaged, and gives its place back', async () => {
    const { takeOvers, claimant, link, admitted } = await setUp();
    const write = { owner: 'dead', epoch: 0, number: 100, isFirst: false, ttlMs: 60_000 };
    await link.writeSession(SESSION, { ...write, set: new Map(), remove: ['m1'] });
    await link.writeSession(SESSION, {
      ...{ ...write, number: 101, remove: [] },
      set: new Map([['m7', new Uint8Array(1)]]),
    });
    expect(await takeOvers.takeOver(claimant())).toBe('no_state');
    expect(admitted).toEqual([]);
  });
});
