import { type ProtocolError, resolveLimits } from '@parlance/protocol';
import { decodeFailure, type KeptRequest, newReplyId, UserSession } from '@parlance/protocol/internal';
import { describe, expect, it } from 'vitest';
import type { EngineHead } from '../engine/logs/logs.js';
import type { ReplyEnd } from '../engine/logs/reply.js';
import type { ServerEndpoint } from '../session/endpoint.js';
import type { GoneOn } from './claiming.js';
import { Keeping, type KeepingHost } from './keeping.js';

const LIMITS = resolveLimits();
const ID = newReplyId('aaaaaa');
const HEAD: EngineHead = {
  ...{ id: ID, owner: 'principal:ada', principal: 'ada', name: undefined, share: undefined },
  ...{ encoding: undefined, ttlMs: 60_000, startedAt: 0, by: 'bbbbbb', epoch: 1 },
};

/** A session of a node that died continues here, and the engine is asked for its reply. */
function goingOn() {
  const session = { id: 'sess_one', epoch: 1, hasEnded: false };
  const did: string[] = [];
  let answer: (gone: GoneOn) => void = () => {};
  const asked = new Promise<GoneOn>((resolve) => {
    answer = resolve;
  });
  const log = {
    leave: () => void did.push('left'),
    end(_id: string, { failure }: ReplyEnd) {
      const error = failure && (decodeFailure(failure, LIMITS.maxJsonDepth) as ProtocolError);
      did.push(`ended with ${error?.code}`);
    },
    append: () => void did.push('appended'),
    goOn: () => asked,
  };
  const keeping = new Keeping({
    options: { limits: LIMITS, logger: { debug() {}, info() {}, warn() {}, error() {} } },
    ...{ now: () => 0, date: () => 0, onOver() {}, owners: { handleKept: () => () => {} }, following: {} },
    log,
  } as unknown as KeepingHost);
  const request: KeptRequest = {
    session: new UserSession(session as unknown as ServerEndpoint),
    ...{ streamId: 1, isRepeated: () => true, mark: () => undefined, isWanted: () => true },
    stop: () => void did.push('stopped'),
  };
  const taken = keeping.takeUp(request, ID, []);
  return {
    ...{ keeping, taken, did },
    session: session as { hasEnded: boolean } & ServerEndpoint,
    answer: () =>
      answer({ outcome: 'done', head: HEAD, from: { parts: 0, offset: 0 }, rest: [], end: undefined }),
  };
}

describe('a reply of a node that died, whose session', () => {
  it('is still here, continues', async () => {
    const { keeping, taken, did, answer } = goingOn();
    answer();
    expect(await taken).toMatchObject({ state: 'found', recorder: { id: ID } });
    expect([[...keeping.running.keys()], did]).toEqual([[ID], []]);
  });

  it('is another node’s by the time the engine answers, is left to that one', async () => {
    const { keeping, taken, did, answer, session } = goingOn();
    session.hasEnded = true;
    keeping.handleLeft(session);
    answer();
    expect(await taken).toEqual({ state: 'unkept' });
    expect([keeping.running.size, did]).toEqual([0, ['left', 'stopped']]);
  });

  it('was closed by the time the engine answers, ends', async () => {
    const { keeping, taken, did, answer, session } = goingOn();
    session.hasEnded = true;
    answer();
    expect(await taken).toEqual({ state: 'unkept' });
    expect([keeping.running.size, did]).toEqual([0, ['stopped', 'ended with interrupted']]);
  });
});
