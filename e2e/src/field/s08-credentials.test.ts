import type { ClientOptions } from '@parlance/client';
import type { ServerOptions } from '@parlance/server';
import { createTestServer, type TestServer } from '@parlance/server/testing';
import { afterEach, describe, expect, it } from 'vitest';
import { failure } from '../kit/peers.js';

/** Credentials that a server does not accept for some time: its client asks for others, and keeps its session. Time is virtual. */

let test: TestServer;
afterEach(() => test.close());

const LASTS_MS = 4_000;
const WORDS = Array.from({ length: 100 }, (_, i) => `${i} `);
const WHOLE = WORDS.join('');

/** A token is the time until which it is valid. */
const valid = () => String(Date.now() + LASTS_MS);
const OLD = '1';

async function serve(options: ServerOptions = {}) {
  const refused: unknown[] = [];
  test = await createTestServer({
    authenticate: ({ token }) => {
      if (Number(token) > Date.now()) return { principal: 'ann', expiresAt: Number(token) };
      refused.push(token);
      return null;
    },
    async *onRequest() {
      for (const word of WORDS) {
        yield word;
        await new Promise((resolve) => setTimeout(resolve, 100));
      }
    },
    ...options,
  });
  return refused;
}

/** A client that reads an answer which takes 10 s. */
async function begin(token: ClientOptions['token']) {
  const session = await test.connect({ token });
  const resets: string[] = [];
  session.on('reset', ({ reason }) => resets.push(reason));
  const states: string[] = [];
  session.on('state', (state) => states.push(state));
  const reading = (async () => {
    let text = '';
    for await (const part of session.stream('x')) text += part.text;
    return text;
  })();
  reading.catch(() => {});
  return { session, id: session.id, reading, resets, states };
}

describe('an answer is read to its end although', () => {
  it.each([
    [
      'throws',
      () => {
        throw new TypeError('fetch failed');
      },
    ],
    ['says nothing', () => new Promise<never>(() => {})],
  ])(
    'the token function %s when the credentials are due, and for longer than they last',
    async (_how, away) => {
      await serve();
      let isAway = false;
      const { session, id, reading, resets, states } = await begin(async () =>
        isAway ? await away() : valid(),
      );
      isAway = true;
      await test.clock.advance(LASTS_MS);
      expect(states).toEqual(['suspended']);
      await test.clock.advance(LASTS_MS);
      isAway = false;
      // A function that says nothing has failed after 30 s.
      await test.clock.advance(60_000);
      expect(await reading).toBe(WHOLE);
      expect([session.id, session.state, resets]).toEqual([id, 'established', []]);
    },
  );

  it('the first tokens after the loss of a connection are old ones', async () => {
    const refused = await serve();
    let old = 0;
    const { session, id, reading, resets } = await begin(() => (old-- > 0 ? OLD : valid()));
    await test.clock.advance(500);
    old = 2;
    test.network.cut();
    await test.clock.advance(20_000);
    expect(await reading).toBe(WHOLE);
    expect([session.id, refused.length, resets]).toEqual([id, 2, []]);
  });

  it('the connection is away while they expire', async () => {
    await serve();
    const { session, id, reading, resets } = await begin(valid);
    await test.clock.advance(500);
    test.network.down();
    await test.clock.advance(2 * LASTS_MS);
    test.network.up();
    await test.clock.advance(20_000);
    expect(await reading).toBe(WHOLE);
    expect([session.id, resets]).toEqual([id, []]);
  });
});

describe('a client continues with another session', () => {
  it('if the server has refused its new credentials, and says what was lost', async () => {
    await serve();
    let calls = 0;
    const { session, id, reading, resets, states } = await begin(() => (++calls === 2 ? OLD : valid()));
    await test.clock.advance(LASTS_MS);
    expect(await failure(reading)).toMatchObject({ code: 'session_lost' });
    expect([session.state, session.id === id]).toEqual(['established', false]);
    expect(resets).toEqual([expect.stringContaining('credentials')]);
    expect(states).not.toContain('closed');
  });

  it('never in an endless circle, also if the server accepts it each time', async () => {
    let accepted = 0;
    await serve({
      authenticate: () => {
        accepted++;
        return { principal: 'ann', expiresAt: Date.now() + 1 };
      },
    });
    const session = await test.connect({ token: () => 'x' });
    await test.clock.advance(30_000);
    expect(session.state).toBe('closed');
    // Up to four times a second, in four sessions.
    expect(accepted).toBeLessThan(40);
  });

  it('that it begins with a second token if the first one was old', async () => {
    const refused = await serve();
    let calls = 0;
    const connecting = test.connect({ token: () => (++calls === 1 ? OLD : valid()) });
    await test.clock.advance(1_000);
    expect([(await connecting).state, calls, refused.length]).toEqual(['established', 2, 1]);
  });
});

describe('a refusal is final', () => {
  it('of a token that is a text, which is presented once', async () => {
    const refused = await serve();
    const connecting = failure(test.connect({ token: OLD }));
    await test.clock.advance(60_000);
    expect(await connecting).toMatchObject({ closeCode: 4401 });
    expect(refused).toEqual([OLD]);
  });

  it('of the second token of a client that has none before, and of the fourth in a row after', async () => {
    let isKnown = false;
    const asked: unknown[] = [];
    await serve({
      authenticate: ({ token }) => {
        asked.push(token);
        return isKnown ? { principal: 'ann' } : null;
      },
    });
    let calls = 0;
    const token = () => `token ${++calls}`;
    const connecting = failure(test.connect({ token }));
    await test.clock.advance(10_000);
    expect(await connecting).toMatchObject({ closeCode: 4401 });
    expect(asked).toEqual(['token 1', 'token 2']);
    isKnown = true;
    const session = await test.connect({ token });
    isKnown = false;
    asked.length = 0;
    test.network.cut();
    await test.clock.advance(30_000);
    expect((await session.closed).error).toMatchObject({ closeCode: 4401, retryable: false });
    expect(asked).toEqual(['token 4', 'token 5', 'token 6', 'token 7']);
  });

  it('not of one that comes a minute after three others', async () => {
    let isKnown = true;
    await serve({ authenticate: () => (isKnown ? { principal: 'ann' } : null) });
    const session = await test.connect({ token: () => 'x' });
    for (let round = 0; round < 2; round++) {
      isKnown = false;
      test.network.cut();
      // Three refusals, and the last attempt would be made 4 s later.
      await test.clock.advance(2_000);
      isKnown = true;
      await test.clock.advance(65_000);
      expect(session.state).toBe('established');
    }
  });
});
