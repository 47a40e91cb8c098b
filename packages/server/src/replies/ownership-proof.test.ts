import { describe, expect, it } from 'vitest';
import type { ReplyLogs } from '../engine/logs/logs.js';
import { memoryReplies } from '../engine/logs/memory.js';
import type { ServerEndpoint } from '../session/endpoint.js';
import { Owners } from './owners.js';
import { OwnershipProof } from './ownership-proof.js';

const DAY_MS = 86_400_000;

/** A session without a principal, whose resume token changes. */
function sessionOf(id: string): ServerEndpoint & { token: string } {
  const session = {
    ...{ id, isAnonymous: true, principal: `local-${id}`, token: `first of ${id}` },
    core: {
      resumeProof: {
        matches: (token: string) => token === session.token,
        get tokens() {
          return [session.token];
        },
      },
    },
  };
  return session as unknown as ServerEndpoint & { token: string };
}

function nodeOf(engine: ReplyLogs) {
  const owners = new Owners();
  const calls: string[] = [];
  const vouch: ReplyLogs['vouch'] = async (sessionId, ...rest) => {
    calls.push(sessionId);
    await engine.vouch(sessionId, ...rest);
  };
  const prove = engine.prove.bind(engine);
  const logger = { debug() {}, info() {}, warn() {}, error() {} };
  const parts = { engine: { vouch, prove }, owners, logger, maxTtlMs: DAY_MS, now: Date.now };
  return { owners, calls, ownership: new OwnershipProof(parts) };
}

describe('whom a session without a principal acts for', () => {
  it('is told to the engine with its first reply, and again when its token is another one', async () => {
    const { owners, calls, ownership } = nodeOf(memoryReplies(Date.now));
    const session = sessionOf('a');
    ownership.updateAll();
    expect(calls).toEqual([]);
    owners.handleKept(session);
    expect(calls).toEqual(['a']);
    owners.handleKept(session);
    ownership.updateAll();
    ownership.update('a');
    expect(calls).toEqual(['a']);
    session.token = 'second';
    ownership.update('a');
    expect(calls).toEqual(['a', 'a']);
  });

  it('is proved at another node by its present token, and by no other one', async () => {
    const engine = memoryReplies(Date.now);
    const [here, there] = [nodeOf(engine), nodeOf(engine)];
    const first = sessionOf('a');
    here.owners.handleKept(first);
    first.token = 'second';
    here.ownership.update('a');
    const provenBy = async (token: string) => {
      const session = sessionOf(`with ${token}`);
      there.ownership.prove(session, { sessionId: 'a', token, received: 0, attempt: 1 });
      await there.ownership.proven(session);
      return there.owners.of(session) === here.owners.of(first);
    };
    expect(await provenBy('second')).toBe(true);
    expect(await provenBy('first of a')).toBe(false);
    // It vouches for the next one in turn.
    expect(there.calls).toEqual(['with second']);
  });
});
