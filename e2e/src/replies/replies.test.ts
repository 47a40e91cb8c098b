import { setTimeout as pause } from 'node:timers/promises';
import { connect, type FollowedReply, type Message, ProtocolError, type Session } from '@parlance/client';
import { keptReplies, metrics, type RequestHandler, type ServerOptions, without } from '@parlance/server';
import { afterEach, describe, expect, it } from 'vitest';
import WebSocket from 'ws';
import { createCuttingProxy } from '../kit/cutting-proxy.js';
import { createPeers, failure } from '../kit/peers.js';
import { textOfMetrics } from '../operate/scraping.js';

/** Kept replies over real sockets: keeping, following, stopping, listing, and who may. */

let peers = createPeers();
afterEach(async () => {
  await peers[Symbol.asyncDispose]();
  peers = createPeers();
});

/** The token is the principal. */
const byToken: ServerOptions['authenticate'] = ({ token }) =>
  token === undefined ? null : { principal: token };

/** A reply whose parts the test releases one by one. */
function dosed(parts: readonly string[], keep: Parameters<Parameters<RequestHandler>[1]['keep']>[0] = {}) {
  let release = 0;
  // Several requests may wait at the same time.
  const waiting: (() => void)[] = [];
  const wake = (): void => {
    for (const each of waiting.splice(0)) each();
  };
  let id = '';
  let signal: AbortSignal | undefined;
  const handler: RequestHandler = async function* (_request, context) {
    // Destructured, as many handlers do it.
    const { keep: keepReply } = context;
    id = keepReply(keep)?.id ?? '';
    signal = context.signal;
    context.signal.addEventListener('abort', () => wake());
    for (const [i, part] of parts.entries()) {
      while (i >= release) {
        await new Promise<void>((resolve) => {
          waiting.push(resolve);
        });
        context.signal.throwIfAborted();
      }
      yield part;
    }
  };
  return {
    handler,
    get id() {
      return id;
    },
    get signal() {
      return signal as AbortSignal;
    },
    release(count: number) {
      release = count;
      wake();
    },
  };
}

const textsOf = async (reply: AsyncIterable<Message>, count = Infinity): Promise<string[]> => {
  const texts: string[] = [];
  for await (const part of reply) {
    texts.push(part.text);
    if (texts.length === count) break;
  }
  return texts;
};

/** The error at the end of a reply, and the texts before it. */
async function ended(reply: AsyncIterable<Message>): Promise<{ texts: string[]; error: ProtocolError }> {
  const texts: string[] = [];
  const error = await failure(
    (async () => {
      for await (const part of reply) texts.push(part.text);
    })(),
  );
  return { texts, error };
}

const WORDS = ['The ', 'Grüße ', '世界 ', '👩‍👩‍👧 ', 'end'];

describe('a kept reply', () => {
  it('reaches its requester with its ID, and followers from any part, during and after', async () => {
    const reply = dosed(WORDS, { name: 'chat 1' });
    const { url } = await peers.serve({ authenticate: byToken, onRequest: reply.handler });
    const [ada, phone] = [await peers.dial(url, { token: 'ada' }), await peers.dial(url, { token: 'ada' })];
    const asked = ada.stream('go');
    const own = textsOf(asked);
    reply.release(2);
    await expect.poll(() => asked.position).toBe(2);
    expect(asked.keptId).toBe(reply.id);
    expect(reply.id).toMatch(/^reply_[A-Za-z0-9]{22}$/);

    const early = phone.follow('chat 1');
    const late = phone.follow(reply.id, { after: 1 });
    const future = phone.follow(reply.id, { after: 4 });
    expect(late.position).toBe(1);
    const reading = [textsOf(early), textsOf(late), textsOf(future)];
    reply.release(5);
    expect(await own).toEqual(WORDS);
    expect(await Promise.all(reading)).toEqual([WORDS, WORDS.slice(1), WORDS.slice(4)]);
    expect([early.position, late.position, early.keptId]).toEqual([5, 5, reply.id]);

    expect(await textsOf(phone.follow(reply.id, { after: 3 }))).toEqual(WORDS.slice(3));
    expect(await textsOf(phone.follow('chat 1', { after: 5 }))).toEqual([]);
    expect(await textsOf(phone.follow('chat 1', { after: 99 }))).toEqual([]);
    expect(await phone.replies()).toEqual([
      expect.objectContaining({ id: reply.id, name: 'chat 1', isOwn: true, state: 'complete', parts: 5 }),
    ]);
  });

  it('continues when its session ends, and stops when its requester leaves the loop', async () => {
    const first = dosed(WORDS, { name: 'n' });
    let current = first;
    const { url, server } = await peers.serve({
      authenticate: byToken,
      onRequest: (request, context) => current.handler(request, context),
    });
    const ada = await peers.dial(url, { token: 'ada' });
    const own = textsOf(ada.stream('go'), 1);
    first.release(1);
    // The page reads one part, and is gone.
    const asked = ada.stream('other');
    void own;
    await expect.poll(() => first.id).not.toBe('');
    await ada.close();
    void asked;
    await expect.poll(() => server.sessions.size).toBe(0);
    const phone = await peers.dial(url, { token: 'ada' });
    first.release(5);
    expect(await textsOf(phone.follow(first.id))).toEqual(WORDS);

    const second = dosed(WORDS, { name: 'n' });
    current = second;
    const again = phone.stream('go');
    second.release(2);
    expect(await textsOf(again, 2)).toEqual(WORDS.slice(0, 2));
    await expect.poll(() => second.signal.aborted).toBe(true);
    // The name means the newest reply, which was cancelled.
    const { texts, error } = await ended(phone.follow('n'));
    expect([texts, error.code]).toEqual([WORDS.slice(0, 2), 'cancelled']);
    expect(await textsOf(phone.follow(first.id))).toEqual(WORDS);
  });

  it('is stopped by any session of its owner, for its requester and every follower', async () => {
    const reply = dosed(WORDS);
    const { url } = await peers.serve({ authenticate: byToken, onRequest: reply.handler });
    const [ada, phone] = [await peers.dial(url, { token: 'ada' }), await peers.dial(url, { token: 'ada' })];
    const asked = ended(ada.stream('go'));
    reply.release(2);
    await expect.poll(() => reply.id).not.toBe('');
    const followed = phone.follow(reply.id);
    const reading = ended(followed);
    await expect.poll(() => followed.position).toBe(2);
    await followed.stop();
    expect(reply.signal.aborted).toBe(true);
    for (const { texts, error } of [await asked, await reading]) {
      expect([texts, error.code]).toEqual([WORDS.slice(0, 2), 'cancelled']);
    }
    // It is over, so there is nothing left to stop.
    await followed.stop();
    expect(await phone.replies()).toEqual([expect.objectContaining({ state: 'failed', parts: 2 })]);
  });

  it('is not stopped when a follower leaves its loop, cancels or closes its session', async () => {
    const reply = dosed(WORDS);
    const { url } = await peers.serve({ authenticate: byToken, onRequest: reply.handler });
    const ada = await peers.dial(url, { token: 'ada' });
    const asked = textsOf(ada.stream('go'));
    reply.release(2);
    await expect.poll(() => reply.id).not.toBe('');
    for (let i = 0; i < 3; i++) {
      const phone = await peers.dial(url, { token: 'ada' });
      const followed = phone.follow(reply.id);
      expect(await textsOf(followed, 1)).toEqual(WORDS.slice(0, 1));
      followed.unfollow();
      await phone.close();
    }
    expect(reply.signal.aborted).toBe(false);
    reply.release(5);
    expect(await asked).toEqual(WORDS);
  });

  it('belongs to its principal, and another one gets the same error as for an ID that does not exist', async () => {
    const reply = dosed(WORDS, { name: 'mine' });
    const { url } = await peers.serve({ authenticate: byToken, onRequest: reply.handler });
    const [ada, eve] = [await peers.dial(url, { token: 'ada' }), await peers.dial(url, { token: 'eve' })];
    const asked = textsOf(ada.stream('go'));
    reply.release(5);
    await asked;
    const missing = await ended(eve.follow(`reply_${'x'.repeat(22)}`));
    for (const target of [reply.id, 'mine', 'reply_', 'reply_%']) {
      const { error } = await ended(eve.follow(target));
      expect({ ...error }).toEqual({ ...missing.error });
      expect(error.message).toBe(missing.error.message);
      expect((await failure(eve.follow(target).stop())).code).toBe('unknown_reply');
    }
    expect(missing.error.code).toBe('unknown_reply');
    expect(await eve.replies()).toEqual([]);
  });

  it('may be followed or stopped by others if authorize says so, from its share data', async () => {
    const reply = dosed(WORDS, { name: 'x', share: { team: 'blue' } });
    const asked: unknown[] = [];
    const { url } = await peers.serve({
      authenticate: byToken,
      onRequest: reply.handler,
      features: [
        keptReplies({
          authorize(question) {
            asked.push(question);
            const { principal, action, reply: shared } = question;
            if (principal === 'thrower') throw new Error('a fault of the application');
            const isBlue = (shared.share as { team: string }).team === 'blue';
            if (principal === 'watcher') return isBlue && action === 'follow';
            return principal === 'boss' ? isBlue : ('truthy' as unknown as boolean);
          },
        }),
      ],
    });
    const dial = (token: string) => peers.dial(url, { token });
    const [ada, watcher, boss] = [await dial('ada'), await dial('watcher'), await dial('boss')];
    const own = ended(ada.stream('go'));
    reply.release(2);
    await expect.poll(() => reply.id).not.toBe('');
    const followed = watcher.follow(reply.id);
    const reading = ended(followed);
    await expect.poll(() => followed.position).toBe(2);
    expect((await failure(followed.stop())).code).toBe('unknown_reply');
    for (const token of ['thrower', 'eve']) {
      const other = await dial(token);
      expect((await ended(other.follow(reply.id))).error.code).toBe('unknown_reply');
      expect(await other.replies()).toEqual([]);
    }
    // Names are the owner's.
    expect((await ended(watcher.follow('x'))).error.code).toBe('unknown_reply');
    expect(await watcher.replies()).toEqual([
      expect.objectContaining({ id: reply.id, name: undefined, isOwn: false }),
    ]);
    await boss.follow(reply.id).stop();
    expect((await own).error.code).toBe('cancelled');
    expect((await reading).error.code).toBe('cancelled');
    expect(asked[0]).toEqual({
      principal: 'watcher',
      reply: { id: reply.id, owner: 'ada', share: { team: 'blue' } },
      action: 'follow',
    });
  });

  it('is recoded for followers without its codec, whose token parts may end inside a character', async () => {
    const text = 'a 👩‍👩‍👧 世界 🦀🦀 ẞ!';
    const parts: number[][] = [];
    const { url } = await peers.serve({
      authenticate: byToken,
      async *onRequest(request, { keep }) {
        keep({ name: 'tokens' });
        for (const id of request.tokens ?? []) {
          parts.push([id]);
          yield { tokens: [id] };
        }
      },
    });
    const ada = await peers.dial(url, {
      token: 'ada',
      algorithms: ['TOKEN_NATIVE'],
      extensions: { context: false },
    });
    const own = await textsOf(ada.stream(text, { algorithm: 'TOKEN_NATIVE' }));
    expect(own.join('')).toBe(text);
    expect(own.some((part) => part === '')).toBe(true);
    const others = [
      { algorithms: ['NONE'] },
      { algorithms: ['BROTLI'] },
      { algorithms: ['TOKEN_NATIVE', 'NONE'], encodings: ['O200K_BASE'] },
      { algorithms: ['TOKEN_NATIVE'], encodings: ['CL100K_BASE'] },
      {},
    ] as const;
    for (const options of others) {
      const phone = await peers.dial(url, { token: 'ada', ...options });
      // From every part, those inside a character too.
      for (let after = 0; after <= own.length; after++) {
        expect(await textsOf(phone.follow('tokens', { after }))).toEqual(own.slice(after));
      }
    }
  });

  it('keeps metadata, the error and single replies', async () => {
    const { url } = await peers.serve({
      authenticate: byToken,
      onRequest(request, context) {
        context.keep({ name: request.text });
        context.setMetadata({ status: 200 });
        if (request.text === 'one') return 'whole';
        return (async function* () {
          yield 'a';
          context.setMetadata({ status: 201 });
          yield 'b';
          context.setMetadata({ status: 202 });
          if (request.text === 'error') throw new ProtocolError('rate_limited', 'slow down');
        })();
      },
    });
    const ada = await peers.dial(url, { token: 'ada' });
    const one = await ada.request('one');
    expect([one.text, one.metadata['status']]).toEqual(['whole', 200]);
    const followed = ada.follow('one');
    expect(await textsOf(followed)).toEqual(['whole']);
    expect(followed.metadata).toEqual({ status: 200 });

    const asked = ada.stream('parts');
    await textsOf(asked);
    expect(asked.metadata).toEqual({ status: 202 });
    const statuses: unknown[] = [];
    const again = ada.follow('parts');
    for await (const part of again) statuses.push(part.text, again.metadata['status']);
    // Metadata applies from the part that it came with; reading runs behind what has arrived.
    expect(statuses.filter((each) => typeof each === 'string')).toEqual(['a', 'b']);
    expect(again.metadata).toEqual({ status: 202 });
    const middle = ada.follow('parts', { after: 2 });
    await textsOf(middle);
    expect(middle.metadata).toEqual({ status: 202 });

    expect((await ended(ada.stream('error'))).error.code).toBe('rate_limited');
    const failed = await ended(ada.follow('error', { after: 1 }));
    expect([failed.texts, failed.error.code]).toEqual([['b'], 'rate_limited']);
  });

  it('may be followed from a part that is still to come, also inside a character', async () => {
    const text = 'a 🧿🦀 b';
    let next = (): void => {};
    const { url } = await peers.serve({
      authenticate: byToken,
      async *onRequest(request, { keep, setMetadata }) {
        keep({ name: 'tokens' });
        for (const [i, id] of [...(request.tokens ?? [])].entries()) {
          setMetadata({ number: i + 1 });
          yield { tokens: [id] };
          await new Promise<void>((resolve) => {
            next = resolve;
          });
        }
      },
    });
    const only = { token: 'ada', algorithms: ['TOKEN_NATIVE'] as const, extensions: { context: false } };
    const ada = await peers.dial(url, only);
    const asked = ada.stream(text, { algorithm: 'TOKEN_NATIVE' });
    const own = textsOf(asked);
    await expect.poll(() => asked.position).toBe(1);
    const followers = await Promise.all(
      Array.from({ length: 8 }, async (_, i) => {
        const session = await peers.dial(url, i % 2 === 0 ? only : { token: 'ada', algorithms: ['NONE'] });
        const after = Math.floor(i / 2) + 2;
        const followed = session.follow('tokens', { after });
        return { after, followed, texts: textsOf(followed) };
      }),
    );
    const goOn = setInterval(() => next(), 5);
    const all = await own.finally(() => clearInterval(goOn));
    expect(all.join('')).toBe(text);
    expect(all.length).toBeGreaterThan(6);
    for (const { after, texts, followed } of followers) {
      expect(await texts).toEqual(all.slice(after));
      expect(followed.metadata).toEqual({ number: all.length });
    }
  });

  it('may have as much metadata as any reply', async () => {
    const value = 'x'.repeat(8 * 1024 - 'value'.length - 5);
    const { url } = await peers.serve({
      authenticate: byToken,
      async *onRequest(request, { keep, setMetadata }) {
        keep({ name: request.text });
        setMetadata({ value });
        yield 'a';
      },
    });
    const ada = await peers.dial(url, { token: 'ada' });
    const asked = ada.stream('full');
    expect(await textsOf(asked)).toEqual(['a']);
    expect([asked.metadata['value'], asked.keptId]).toEqual([value, expect.stringMatching(/^reply_/)]);
    for (const after of [0, 1]) {
      const followed = ada.follow('full', { after });
      expect(await textsOf(followed)).toEqual(['a'].slice(after));
      expect([followed.metadata['value'], followed.keptId]).toEqual([value, asked.keptId]);
    }
  });

  it('counts its followers, and forgets those that leave, cancel or fail', async () => {
    const reply = dosed(WORDS, { name: 'n' });
    const { url, port } = await peers.serve({
      authenticate: byToken,
      onRequest: reply.handler,
      features: [metrics()],
    });
    const followers = async (): Promise<number> => {
      const text = await textOfMetrics(`http://127.0.0.1:${port}/metrics`);
      return Number(/^parlance_[a-z_]*followers (\d+)$/m.exec(text)?.[1]);
    };
    const ada = await peers.dial(url, { token: 'ada' });
    const asked = textsOf(ada.stream('go'));
    reply.release(2);
    await expect.poll(() => reply.id).not.toBe('');
    const phone = await peers.dial(url, { token: 'ada' });
    const left = textsOf(phone.follow('n'), 1);
    const cancelled = phone.follow('n');
    const controller = new AbortController();
    const aborted = ended(phone.follow('n', { signal: controller.signal }));
    const late = ended(phone.follow('n', { after: 99 }));
    await left;
    await expect.poll(followers).toBe(3);
    cancelled.unfollow();
    controller.abort(new Error('enough'));
    await aborted;
    await expect.poll(followers).toBe(1);
    await phone.close();
    await late;
    await expect.poll(followers).toBe(0);
    reply.release(5);
    await asked;
  });

  it('is not held back by a requester that does not read or is not there', async () => {
    const MANY = 400;
    const part = 'x'.repeat(4_000);
    let done = false;
    const { url, port } = await peers.serve({
      authenticate: byToken,
      features: [keptReplies({ maxReplyBytes: 16e6 })],
      async *onRequest(_request, { keep }) {
        keep({ name: 'much' });
        for (let i = 0; i < MANY; i++) yield `${i} ${part}`;
        done = true;
      },
    });
    const proxy = peers.use(await createCuttingProxy(port));
    const slow = await peers.dial(url.replace(String(port), String(proxy.port)), {
      token: 'ada',
      algorithms: ['NONE'],
      extensions: { context: false },
    });
    const asked = slow.stream('go');
    const reader = asked[Symbol.asyncIterator]();
    expect((await reader.next()).value?.text).toBe(`0 ${part}`);
    proxy.cut();
    const phone = await peers.dial(url, { token: 'ada' });
    const numbers = async (reply: AsyncIterable<Message>) =>
      (await textsOf(reply)).map((text) => Number(text.split(' ', 1)[0]));
    expect(await numbers(phone.follow('much'))).toEqual([...Array(MANY).keys()]);
    expect(done).toBe(true);
    // The requester catches up from the record, in order and without a gap.
    const rest: number[] = [];
    for (let next = await reader.next(); !next.done; next = await reader.next()) {
      rest.push(Number(next.value.text.split(' ', 1)[0]));
    }
    expect(rest).toEqual([...Array(MANY).keys()].slice(1));
    expect(asked.position).toBe(MANY);
  });
});

describe('bounds of kept replies', () => {
  it('end the record and not the reply, and tell everybody', async () => {
    const events: string[] = [];
    const logger = {
      debug() {},
      info() {},
      error() {},
      warn: ({ event }: { event?: unknown }) => events.push(String(event)),
    };
    const { url } = await peers.serve({
      authenticate: byToken,
      logger,
      features: [keptReplies({ maxReplies: 2, maxReplyBytes: 8_000 })],
      async *onRequest(request, { keep }) {
        keep({ name: request.text });
        if (request.text === 'large') for (let i = 0; i < 100; i++) yield 'y'.repeat(200);
        else yield 'small';
      },
    });
    const ada = await peers.dial(url, { token: 'ada' });
    expect(await textsOf(ada.stream('large'))).toHaveLength(100);
    const { texts, error } = await ended(ada.follow('large'));
    expect(error.code).toBe('reply_too_large');
    expect(texts.length).toBeGreaterThan(10);
    expect(events).toEqual(['reply.full']);
    expect(await textsOf(ada.stream('one'))).toEqual(['small']);
    // Without being kept, or in place of the oldest one.
    expect(await textsOf(ada.stream('two'))).toEqual(['small']);
    expect(await ada.replies()).toHaveLength(2);
    expect(events.slice(1).every((event) => event === 'reply.unkept')).toBe(true);
    const bob = await peers.dial(url, { token: 'bob' });
    expect(await textsOf(bob.stream('one'))).toEqual(['small']);
  });

  it('do not fail a reply that is kept by the options of the server', async () => {
    const events: string[] = [];
    const warn = ({ event }: { event?: unknown }) => events.push(String(event));
    const { url } = await peers.serve({
      authenticate: byToken,
      logger: { debug() {}, info() {}, error() {}, warn },
      features: [keptReplies({ keep: true, maxReplies: 1 })],
      async *onRequest() {
        yield* ['a', 'b'];
      },
    });
    const ada = await peers.dial(url, { token: 'ada' });
    for (let i = 0; i < 3; i++) expect(await textsOf(ada.stream('go'))).toEqual(['a', 'b']);
    expect(await ada.replies()).toHaveLength(1);
    // Each of the two goes for the next one, or that is not kept, as it comes before the end of the other is recorded.
    expect(['', 'reply.unkept', 'reply.unkept reply.unkept']).toContain(events.join(' '));
  });

  it('stop a handler that is not read, and forget a reply after its time', async () => {
    const reply = dosed(WORDS, { name: 'lost', abandonAfterMs: 1, ttlMs: 1 });
    const { url } = await peers.serve({ authenticate: byToken, onRequest: reply.handler });
    const ada = await peers.dial(url, { token: 'ada' });
    const asked = ended(ada.stream('go'));
    reply.release(1);
    await expect.poll(() => reply.id).not.toBe('');
    await ada.close();
    await asked;
    await expect.poll(() => reply.signal.aborted).toBe(true);
    const phone = await peers.dial(url, { token: 'ada' });
    await expect.poll(async () => (await ended(phone.follow('lost'))).error.code).toBe('unknown_reply');
  });

  it.each([
    [{ name: 'reply_x' }, 'invalid_option'],
    [{ name: '' }, 'invalid_option'],
    [{ name: 'x'.repeat(129) }, 'invalid_option'],
    [{ name: 'ö'.repeat(65) }, 'invalid_option'],
    [{ name: '\ud800' }, 'lone_surrogate'],
    [{ ttlMs: 0 }, 'invalid_option'],
    [{ ttlMs: Number.NaN }, 'invalid_option'],
    [{ ttlMs: 86_400_001 }, 'invalid_option'],
    [{ abandonAfterMs: -1 }, 'invalid_option'],
    [{ share: 'x'.repeat(1023) }, 'invalid_option'],
    [{ share: 1n }, 'invalid_option'],
    [{ nam: 'x' }, 'invalid_option'],
    [{ name: 'x'.repeat(128), ttlMs: 86_400_000, share: 'x'.repeat(1022) }, undefined],
  ])('of keep(%o) are checked', async (options, code) => {
    let caught: unknown;
    const { url } = await peers.serve({
      authenticate: byToken,
      onRequest(_request, { keep }) {
        try {
          keep(options as object);
        } catch (error) {
          caught = error;
        }
        return '';
      },
    });
    await (await peers.dial(url, { token: 'ada' })).request('go');
    expect((caught as ProtocolError | undefined)?.code).toBe(code);
  });
});

describe('keep', () => {
  it('is an option of the server, which a handler may override', async () => {
    const { url } = await peers.serve({
      authenticate: byToken,
      features: [
        keptReplies({ keep: (request) => request.text !== 'no' && { name: `auto ${request.text}` } }),
      ],
      onRequest(request, { keep }) {
        if (request.text === 'own') keep({ name: 'mine' });
        return 'answer';
      },
    });
    const ada = await peers.dial(url, { token: 'ada' });
    for (const text of ['yes', 'no', 'own']) await ada.request(text);
    expect((await ada.replies()).map(({ name }) => name).sort()).toEqual(['auto yes', 'mine']);
  });

  it('is not done if the policy of the server throws or returns a promise, which is logged', async () => {
    const events: string[] = [];
    const logger = {
      debug() {},
      info() {},
      error() {},
      warn: ({ event }: { event?: unknown }) => events.push(String(event)),
    };
    const { url } = await peers.serve({
      authenticate: byToken,
      logger,
      features: [
        keptReplies({
          keep(request) {
            if (request.text === 'throws') throw new Error('a fault of the application');
            return Promise.reject(new Error('late')) as unknown as boolean;
          },
        }),
      ],
      onRequest: () => 'answer',
    });
    const ada = await peers.dial(url, { token: 'ada' });
    for (const text of ['throws', 'later']) expect((await ada.request(text)).text).toBe('answer');
    expect(await ada.replies()).toEqual([]);
    expect(events).toEqual(['reply.unkept', 'reply.unkept']);
  });

  it('must be called before the first part, and only at a server', async () => {
    const { url } = await peers.serve({
      authenticate: byToken,
      async *onRequest(_request, { keep }) {
        yield 'part';
        keep();
      },
      async onSession(session) {
        await session.send((await failure(session.request('?'))).code);
        expect((await failure((async () => void session.follow('x'))())).code).toBe('unsupported');
      },
    });
    let code: unknown;
    const ada = await peers.dial(url, {
      token: 'ada',
      onRequest(_request, { keep }) {
        try {
          keep();
        } catch (error) {
          code = (error as ProtocolError).code;
        }
        throw new Error('over');
      },
    });
    expect((await ended(ada.stream('go'))).error.code).toBe('internal');
    for await (const message of ada) {
      expect(message.text).toBe('internal');
      break;
    }
    expect(code).toBe('unsupported');
  });
});

describe('without authentication', () => {
  it('a reply belongs to its session, and to the one that proves to continue it', async () => {
    const reply = dosed(WORDS, { name: 'n' });
    const { url, port, server } = await peers.serve({
      onRequest: reply.handler,
      timers: { closingTimeoutMs: 50 },
    });
    const proxy = peers.use(await createCuttingProxy(port));
    const ada = await peers.dial(url.replace(String(port), String(proxy.port)));
    const eve = await peers.dial(url);
    const asked = ended(ada.stream('go'));
    reply.release(2);
    await expect.poll(() => reply.id).not.toBe('');
    const before = ada.id;
    expect((await ended(eve.follow(reply.id))).error.code).toBe('unknown_reply');
    proxy.refuse(true);
    proxy.cut();
    // The server ends the session, and the client still asks to resume it.
    await server.sessions.get(before)?.close();
    await expect.poll(() => server.sessions.has(before)).toBe(false);
    proxy.refuse(false);
    expect((await asked).error.code).toBe('session_lost');
    await expect.poll(() => ada.state === 'established' && ada.id !== before).toBe(true);
    reply.release(5);
    expect(await textsOf(ada.follow('n'))).toEqual(WORDS);
    expect(await ada.replies()).toHaveLength(1);
    expect(await eve.replies()).toEqual([]);
  });
});

describe('a server that drains', () => {
  it('waits for kept replies whose sessions are gone, until its deadline', async () => {
    const reply = dosed(WORDS);
    const { url, server } = await peers.serve({ authenticate: byToken, onRequest: reply.handler });
    const ada = await peers.dial(url, { token: 'ada', reconnect: false });
    const asked = ended(ada.stream('go'));
    reply.release(1);
    await expect.poll(() => reply.id).not.toBe('');
    await ada.close();
    await asked;
    await expect.poll(() => server.sessions.size).toBe(0);
    let isDrained = false;
    const draining = server.drain({ timeoutMs: 60_000 }).then(() => {
      isDrained = true;
    });
    await pause(50);
    expect(isDrained).toBe(false);
    reply.release(5);
    await draining;
    expect(reply.signal.aborted).toBe(false);
  });

  it('stops them at its deadline', async () => {
    const reply = dosed(WORDS);
    const { url, server } = await peers.serve({ authenticate: byToken, onRequest: reply.handler });
    const ada = await peers.dial(url, { token: 'ada', reconnect: false });
    const asked = ended(ada.stream('go'));
    await expect.poll(() => reply.id).not.toBe('');
    await ada.close();
    await asked;
    await server.drain({ timeoutMs: 100 });
    expect(reply.signal.reason).toMatchObject({ code: 'draining' });
  });
});

describe('old peers', () => {
  it('are served as before, and follow throws unsupported', async () => {
    const { url } = await peers.serve({
      authenticate: byToken,
      async *onRequest({ text }, { keep }) {
        if (text === 'keep') keep();
        yield* WORDS;
      },
      features: [without('replies')],
    });
    const ada = await peers.dial(url, { token: 'ada' });
    const asked = ada.stream('go');
    expect(await textsOf(asked)).toEqual(WORDS);
    expect(asked.keptId).toBeUndefined();
    expect(() => ada.follow('n')).toThrow(expect.objectContaining({ code: 'unsupported' }));
    expect((await failure(ada.request('keep'))).code).toBe('unsupported');
    expect((await failure(ada.replies())).code).toBe('unsupported');
  });

  it('that do not offer the extension get no metadata about kept replies', async () => {
    const reply = dosed(WORDS, { name: 'n' });
    const { url } = await peers.serve({ authenticate: byToken, onRequest: reply.handler });
    const old = await peers.dial(url, { token: 'ada', extensions: { replies: false } });
    const asked = old.stream('go');
    reply.release(5);
    expect(await textsOf(asked)).toEqual(WORDS);
    expect([asked.keptId, asked.metadata]).toEqual([undefined, {}]);
    const phone: Session = await connect(url, { WebSocket, token: 'ada' });
    const followed: FollowedReply = phone.follow('n');
    expect(await textsOf(followed)).toEqual(WORDS);
    await phone.close();
  });
});
