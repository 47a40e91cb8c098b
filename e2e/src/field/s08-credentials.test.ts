import { setTimeout as pause } from 'node:timers/promises';
import type { ClientSession } from '@parlance/client';
import type { ServerOptions } from '@parlance/server';
import { afterEach, describe, expect, it } from 'vitest';
import { createCuttingProxy } from '../cutting-proxy.js';
import { createPeers, failure } from '../peers.js';

/** Credentials that a server does not accept for some time: its client asks for others, and keeps its session. */

const peers = createPeers();
afterEach(() => peers[Symbol.asyncDispose]());

const EAGER = { reconnect: { minDelayMs: 5, maxDelayMs: 50 } };
const LASTS_MS = 2_000;
const WORDS = Array.from({ length: 60 }, (_, i) => `${i} `);

/** A token is the time until which it is valid. */
const valid = () => String(Date.now() + LASTS_MS);

const OPTIONS: ServerOptions = {
  authenticate: ({ token }) =>
    Number(token) > Date.now() ? { principal: 'ann', expiresAt: Number(token) } : null,
  async *onRequest() {
    for (const word of WORDS) {
      yield word;
      await pause(100);
    }
  },
};

async function setUp(token: () => Promise<string> | string, options: ServerOptions = {}) {
  const { server, port } = await peers.serve({ ...OPTIONS, ...options });
  const proxy = peers.use(await createCuttingProxy(port));
  const session = (await peers.dial(`ws://127.0.0.1:${proxy.port}/session`, {
    ...EAGER,
    token,
    // A token function that says nothing has failed after this time.
    timers: { acceptTimeoutMs: 1_000 },
  })) as ClientSession;
  const resets: string[] = [];
  session.on('reset', ({ reason }) => resets.push(reason));
  const states: string[] = [];
  session.on('state', (state) => states.push(state));
  return { server, proxy, session, resets, states };
}

async function read(session: ClientSession): Promise<string> {
  let text = '';
  for await (const part of session.stream('x')) text += part.text;
  return text;
}

describe('an answer is read to its end although', () => {
  it.each([
    [
      'the token function throws',
      () => {
        throw new TypeError('fetch failed');
      },
    ],
    ['the token function says nothing', () => new Promise<never>(() => {})],
  ])('%s when the credentials are due, and for longer than they last', async (_how, away) => {
    let isAway = false;
    const { session, resets, states } = await setUp(async () => (isAway ? await away() : valid()));
    const { id } = session;
    isAway = true;
    session.on('state', (state) => {
      // The credentials are over by then.
      if (state === 'suspended') setTimeout(() => (isAway = false), LASTS_MS / 2);
    });
    expect(await read(session)).toBe(WORDS.join(''));
    expect(states).toContain('suspended');
    expect([session.id, resets]).toEqual([id, []]);
  });

  it('the first tokens after the loss of a connection are old ones', async () => {
    let old = 0;
    const refused: unknown[] = [];
    const authenticate: ServerOptions['authenticate'] = async (given) => {
      const identity = await OPTIONS.authenticate?.(given);
      if (identity === null) refused.push(given.token);
      return identity ?? null;
    };
    const token = () => (old-- > 0 ? `${Date.now() - old}` : valid());
    const { session, proxy, resets } = await setUp(token, { authenticate });
    const reading = read(session);
    await pause(500);
    old = 2;
    proxy.cut();
    expect(await reading).toBe(WORDS.join(''));
    expect([refused.length, resets]).toEqual([2, []]);
  });

  it('the connection is away while they expire', async () => {
    const { session, proxy, resets } = await setUp(valid);
    const reading = read(session);
    await pause(500);
    proxy.refuse(true);
    proxy.cut();
    await pause(LASTS_MS);
    proxy.refuse(false);
    expect(await reading).toBe(WORDS.join(''));
    expect(resets).toEqual([]);
  });
});

describe('a client goes on with another session', () => {
  it('if the server has refused its new credentials, and says what was lost', async () => {
    let calls = 0;
    const { session, resets, states } = await setUp(() => (++calls === 2 ? '1' : valid()));
    const { id } = session;
    expect(await failure(read(session))).toMatchObject({ code: 'session_lost' });
    await expect.poll(() => session.state).toBe('established');
    expect(session.id).not.toBe(id);
    expect(resets).toEqual([expect.stringContaining('credentials')]);
    expect(states).not.toContain('closed');
  });

  it('that it begins with a second token if the first one was old', async () => {
    let calls = 0;
    const { session } = await setUp(() => (++calls === 1 ? '1' : valid()));
    expect([session.state, calls]).toEqual(['established', 2]);
  });
});

describe('a refusal is final', () => {
  it('of a token that is a text, which is presented once', async () => {
    let asked = 0;
    const { url } = await peers.serve({
      authenticate: () => {
        asked++;
        return null;
      },
    });
    expect(await failure(peers.dial(url, { ...EAGER, token: 'wrong' }))).toMatchObject({ closeCode: 4401 });
    expect(asked).toBe(1);
  });

  it('of the second token of a client that has none before, and of the fourth in a row after', async () => {
    let isKnown = false;
    const asked: unknown[] = [];
    const { url } = await peers.serve({
      authenticate: ({ token }) => {
        asked.push(token);
        return isKnown ? { principal: 'ann' } : null;
      },
    });
    let calls = 0;
    const options = { ...EAGER, token: () => `token ${++calls}` };
    expect(await failure(peers.dial(url, options))).toMatchObject({ closeCode: 4401 });
    expect(asked).toEqual(['token 1', 'token 2']);
    isKnown = true;
    const proxy = peers.use(await createCuttingProxy(Number(new URL(url).port)));
    const session = await peers.dial(`ws://127.0.0.1:${proxy.port}/session`, options);
    isKnown = false;
    asked.length = 0;
    proxy.cut();
    const { error } = await session.closed;
    expect(error).toMatchObject({ closeCode: 4401, retryable: false });
    expect(asked).toEqual(['token 4', 'token 5', 'token 6', 'token 7']);
  });
});
