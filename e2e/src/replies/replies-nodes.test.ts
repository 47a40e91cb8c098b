import { setTimeout as pause } from 'node:timers/promises';
import type { FollowedReply, Message, ProtocolError, Session } from '@parlance/client';
import {
  cluster,
  keptReplies,
  type Logger,
  memoryCluster,
  type RepliesOptions,
  type RequestHandler,
  type Server,
  type ServerOptions,
} from '@parlance/server';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createCuttingProxy } from '../kit/cutting-proxy.js';
import { createPeers, failure } from '../kit/peers.js';
import { merged } from '../kit/server-options.js';
import { textOfMetrics } from '../operate/scraping.js';

/** Kept replies on the nodes of one process: followed, stopped and listed from others, and left by a drain. */

let peers = createPeers();
let engine = memoryCluster();
beforeEach(() => {
  engine = memoryCluster();
});
afterEach(async () => {
  await peers[Symbol.asyncDispose]();
  peers = createPeers();
});

interface Line {
  readonly event: string;
  readonly [field: string]: unknown;
}

interface TestNode {
  readonly server: Server;
  readonly url: string;
  readonly lines: readonly Line[];
  /** Lines of one event. */
  logged(event: string): readonly Line[];
}

/** Replies that the test releases step by step, by the text of their requests: parts up to a number, then the end. */
const allowed = new Map<string, { parts: number; wake: () => void }>();
const started: string[] = [];
const stopped: string[] = [];
const PARTS = 200;
const WORDS = ['Grüße ', '世界 ', '👩‍👩‍👧 ', 'plain ', '{"a":1} '];
const part = (i: number) => `${i} ${WORDS[i % WORDS.length]}`;
const WHOLE = Array.from({ length: PARTS }, (_, i) => part(i));

const gated: RequestHandler = async function* (request, { keep, signal, metadata }) {
  const { text } = request;
  const share = metadata['share'];
  keep({ name: text, ...(share === undefined ? {} : { share }) });
  started.push(text);
  signal.addEventListener('abort', () => {
    stopped.push(text);
    allowed.get(text)?.wake();
  });
  for (let i = 0; i < PARTS; i++) {
    while ((allowed.get(text)?.parts ?? 0) <= i) {
      await new Promise<void>((wake) => {
        allowed.set(text, { parts: allowed.get(text)?.parts ?? 0, wake });
      });
      signal.throwIfAborted();
    }
    yield part(i);
  }
};
function allow(text: string, parts: number): void {
  const { wake } = allowed.get(text) ?? {};
  allowed.set(text, { parts, wake: () => {} });
  wake?.();
}

async function node(options: ServerOptions = {}): Promise<TestNode> {
  const lines: Line[] = [];
  const log = (fields: Readonly<Record<string, unknown>>) => lines.push(fields as Line);
  const logger: Logger = { debug: log, info: log, warn: log, error: log };
  const base: ServerOptions = {
    engine,
    features: [cluster()],
    logger,
    authenticate: ({ token }) => (token === undefined ? null : { principal: token }),
    onRequest: gated,
  };
  const { server, url } = await peers.serve(merged(base, options));
  return { server, url, lines, logged: (event) => lines.filter((line) => line.event === event) };
}

const pages = new WeakMap<Server, string>();
async function metric(server: Server, name: string): Promise<number> {
  const page = pages.get(server) ?? (await server.listenMetrics()).url;
  pages.set(server, page);
  const line = (await textOfMetrics(page)).split('\n').find((each) => each.startsWith(`parlance_${name} `));
  return Number(line?.split(' ')[1]);
}

const known = async (at: TestNode, count: number) => {
  await expect.poll(() => at.logged('node.joined').length).toBeGreaterThanOrEqual(count);
};

const ada = (at: TestNode) => peers.dial(at.url, { token: 'ada' });

async function textsOf(reply: AsyncIterable<Message>, count = Infinity): Promise<string[]> {
  const texts: string[] = [];
  for await (const { text } of reply) {
    texts.push(text);
    if (texts.length === count) break;
  }
  return texts;
}

/** Asks for a kept reply, lets it have so many parts, and reads the first of them. */
async function ask(session: Session, text: string, parts: number, metadata = {}) {
  allow(text, parts);
  const reply = session.stream(text, { metadata });
  const texts: string[] = [];
  const reading = (async () => {
    for await (const each of reply) texts.push(each.text);
    return texts;
  })();
  reading.catch(() => {});
  await expect.poll(() => texts.length).toBe(parts);
  return { id: reply.keptId as string, reading };
}

async function endOf(reply: FollowedReply): Promise<{ texts: string[]; error: ProtocolError }> {
  const texts: string[] = [];
  const error = await failure(
    (async () => {
      for await (const { text } of reply) texts.push(text);
    })(),
  );
  return { texts, error };
}

describe('a reply of another node', () => {
  it('is named after that node, and read from any part, during and after', async () => {
    const [a, b, c] = [await node(), await node(), await node()];
    const asking = await ada(a);
    const { id, reading } = await ask(asking, 'one', 3);
    expect(id).toMatch(/^reply_[A-Za-z0-9]{22}$/);
    expect(id.slice(6, 12)).toBe(asking.id.slice(5, 11));
    const followers = [
      { session: await ada(b), after: 0 },
      { session: await ada(b), after: 2 },
      { session: await ada(c), after: 3 },
      { session: await ada(c), after: 150 },
    ];
    const got = followers.map((): string[] => []);
    const early = followers.map(async ({ session, after }, i) => {
      for await (const { text } of session.follow(id, { after })) got[i]?.push(text);
      return got[i];
    });
    for (let parts = 4; parts < PARTS; parts += 28) {
      allow('one', parts);
      // Each of them waits for more by now.
      const due = followers.map(({ after }) => Math.max(0, parts - after));
      await expect.poll(() => got.map(({ length }) => length)).toEqual(due);
    }
    allow('one', PARTS);
    expect(await Promise.all(early)).toEqual(followers.map(({ after }) => WHOLE.slice(after)));
    expect(await reading).toEqual(WHOLE);
    for (const { session, after } of followers) {
      expect(await textsOf(session.follow(id, { after }))).toEqual(WHOLE.slice(after));
    }
    expect(await textsOf((await ada(b)).follow(id, { after: PARTS + 9 }))).toEqual([]);
  });

  it('is recoded for a follower with other codecs and encodings', async () => {
    const [a, b] = [await node({ encodings: ['CL100K_BASE', 'O200K_BASE'] }), await node()];
    const asking = await peers.dial(a.url, { token: 'ada', encodings: ['CL100K_BASE'] });
    const { id } = await ask(asking, 'codecs', PARTS);
    const plain = await peers.dial(b.url, { token: 'ada', algorithms: ['NONE'] });
    expect(await textsOf(plain.follow(id))).toEqual(WHOLE);
    expect(await textsOf((await ada(b)).follow(id, { after: 7 }))).toEqual(WHOLE.slice(7));
  });

  it('is stopped from there, at once, for its requester and all followers', async () => {
    const [a, b] = [await node(), await node()];
    const { id, reading } = await ask(await ada(a), 'stop', 2);
    const other = await ada(b);
    const reply = other.follow(id);
    const texts: string[] = [];
    const ending = failure(
      (async () => {
        for await (const { text } of reply) texts.push(text);
      })(),
    );
    await expect.poll(() => texts).toEqual(WHOLE.slice(0, 2));
    expect(await metric(b.server, 'replies_read_elsewhere')).toBe(1);
    await reply.stop();
    // Its handler is silent, so that no part tells its node.
    await expect.poll(() => stopped).toContain('stop');
    expect((await failure(reading)).code).toBe('cancelled');
    expect((await ending).code).toBe('cancelled');
    expect(await metric(b.server, 'replies_read_elsewhere')).toBe(0);
    expect([...a.logged('reply.full'), ...a.logged('reply.unkept')]).toEqual([]);
    for (const at of [a, b]) {
      const { texts: parts, error } = await endOf((await ada(at)).follow(id));
      expect([parts, error.code]).toEqual([WHOLE.slice(0, 2), 'cancelled']);
    }
  });

  it('does not exist for others, as if its ID were invented', async () => {
    const [a, b] = [await node(), await node()];
    const { id } = await ask(await ada(a), 'private', PARTS);
    const eve = await peers.dial(b.url, { token: 'eve' });
    const owner = id.slice(6, 12);
    const invented = `reply_${owner}${'x'.repeat(16)}`;
    const errors = [
      await failure(textsOf(eve.follow(id))),
      await failure(textsOf(eve.follow(invented))),
      await failure(textsOf(eve.follow('private'))),
      await failure(eve.follow(id).stop()),
    ];
    for (const { code, message } of errors)
      expect([code, message]).toEqual([errors[1]?.code, errors[1]?.message]);
    expect(errors[0]?.code).toBe('unknown_reply');
    expect(await eve.replies()).toEqual([]);
  });

  it('is shared by what its handler said, with the question asked where the follower is', async () => {
    const questions: unknown[] = [];
    const replies: RepliesOptions = {
      authorize(question) {
        questions.push(question);
        return question.principal === question.reply.share;
      },
    };
    const [a, b] = [await node(), await node({ features: [keptReplies(replies)] })];
    const { id } = await ask(await ada(a), 'shared', PARTS, { share: 'bob' });
    const [bob, eve] = [await peers.dial(b.url, { token: 'bob' }), await peers.dial(b.url, { token: 'eve' })];
    expect(await textsOf(bob.follow(id))).toEqual(WHOLE);
    expect((await failure(textsOf(eve.follow(id)))).code).toBe('unknown_reply');
    expect(questions).toContainEqual({
      principal: 'bob',
      reply: { id, owner: 'ada', share: 'bob' },
      action: 'follow',
    });
  });

  it('is listed at every node, newest first, and found by its name, the newest of all nodes', async () => {
    const nodes = [await node(), await node(), await node()];
    for (const each of nodes) await known(each, 2);
    const ids: string[] = [];
    for (const [i, each] of nodes.entries()) {
      ids.push((await ask(await ada(each), `list ${i}`, PARTS)).id);
      ids.push((await ask(await ada(each), 'the same', PARTS)).id);
      await pause(5);
    }
    for (const each of nodes) {
      const session = await ada(each);
      const list = await session.replies();
      expect(list.map(({ id }) => id)).toEqual(ids.toReversed());
      expect(list.every(({ isOwn, state, parts }) => isOwn && state === 'complete' && parts === PARTS)).toBe(
        true,
      );
      const named = session.follow('the same');
      expect(await textsOf(named)).toEqual(WHOLE);
      expect(named.keptId).toBe(ids.at(-1));
      expect(await textsOf(session.follow('list 1', { after: 190 }))).toEqual(WHOLE.slice(190));
    }
  });

  it('does not wait for a follower that does not read', async () => {
    const large = 'x'.repeat(100_000);
    const onRequest: RequestHandler = async function* (_request, { keep }) {
      keep({ name: 'large' });
      for (let i = 0; i < 30; i++) yield `${i} ${large}`;
    };
    const [a, b] = [await node({ onRequest }), await node()];
    const asking = await ada(a);
    const reply = asking.stream('go');
    const own = await textsOf(reply);
    const slow = await ada(b);
    const stalled = slow.follow(reply.keptId as string)[Symbol.asyncIterator]();
    await stalled.next();
    for (let i = 0; i < 3; i++) {
      expect(await textsOf((await ada(b)).follow(reply.keptId as string))).toEqual(own);
    }
    const rest: string[] = [];
    for (let next = await stalled.next(); next.done !== true; next = await stalled.next())
      rest.push(next.value.text);
    expect(rest).toEqual(own.slice(1));
  });

  it('has parts that are longer than a message between nodes', async () => {
    const long = Array.from({ length: 4 }, (_, i) => String(i).repeat(300_000 + i));
    const onRequest: RequestHandler = async function* (_request, { keep }) {
      keep({ name: 'long' });
      yield* long;
    };
    const replies = { maxReplyBytes: 8 * 1024 * 1024 };
    const [a, b] = [
      await node({ onRequest, features: [keptReplies(replies)], algorithms: ['NONE'] }),
      await node({ features: [keptReplies(replies)] }),
    ];
    const reply = (await ada(a)).stream('go');
    expect(await textsOf(reply)).toEqual(long);
    expect(await textsOf((await ada(b)).follow(reply.keptId as string))).toEqual(long);
  });
});

describe('a reply of a node that is gone', () => {
  it('ended when that closed, the same for those who read it and those who come later', async () => {
    const [a, b, c] = [await node(), await node(), await node()];
    const { id } = await ask(await ada(a), 'gone', 20);
    const reading = endOf((await ada(b)).follow(id));
    await pause(50);
    await a.server.close();
    const { texts, error } = await reading;
    expect([texts, error.code]).toEqual([WHOLE.slice(0, 20), 'draining']);
    for (const at of [b, c]) {
      const session = await ada(at);
      const later = await endOf(session.follow(id));
      expect([later.texts, later.error.code]).toEqual([texts, error.code]);
      await session.follow(id).stop();
    }
  });

  it('is unknown if its ID is invented, whichever node that names', async () => {
    const [a, b] = [await node(), await node()];
    const [own, other] = [(await ada(a)).id.slice(5, 11), (await ada(b)).id.slice(5, 11)];
    const session = await ada(a);
    for (const name of ['nobody', own, other]) {
      const id = `reply_${name}${'x'.repeat(16)}`;
      expect((await failure(textsOf(session.follow(id)))).code).toBe('unknown_reply');
      expect((await failure(session.follow(id).stop())).code).toBe('unknown_reply');
    }
  });
});

describe('without authentication', () => {
  it('a reply belongs to its session at every node, and to the one that proves to continue it at another', async () => {
    const options = { authenticate: undefined, timers: { closingTimeoutMs: 50 } };
    const nodes = [await node(options), await node(options)] as const;
    let target = 0;
    const proxy = peers.use(await createCuttingProxy(() => Number(new URL(nodes[target]?.url ?? '').port)));
    const session = await peers.dial(`ws://127.0.0.1:${proxy.port}/session`, {
      reconnect: { minDelayMs: 1, maxDelayMs: 20 },
    });
    const eve = await peers.dial(nodes[1].url);
    const { id } = await ask(session, 'anonymous', 5);
    const before = session.id;
    expect((await failure(textsOf(eve.follow(id)))).code).toBe('unknown_reply');
    proxy.refuse(true);
    proxy.cut();
    await nodes[0].server.sessions.get(before)?.close();
    target = 1;
    proxy.refuse(false);
    await expect.poll(() => session.state === 'established' && session.id !== before).toBe(true);
    expect(nodes[1].server.sessions.has(session.id)).toBe(true);
    allow('anonymous', PARTS);
    expect(await textsOf(session.follow(id))).toEqual(WHOLE);
    await known(nodes[1], 1);
    expect(await session.replies()).toHaveLength(1);
    expect(await eve.replies()).toEqual([]);
  });

  it('a reply belongs to that one also after the death of its node', async () => {
    const options = { authenticate: undefined, timers: { closingTimeoutMs: 50 } };
    const nodes = [await node(options), await node(options)] as const;
    let target = 0;
    const proxy = peers.use(await createCuttingProxy(() => Number(new URL(nodes[target]?.url ?? '').port)));
    const session = await peers.dial(`ws://127.0.0.1:${proxy.port}/session`, {
      reconnect: { minDelayMs: 1, maxDelayMs: 20 },
    });
    const before = session.id;
    const resumed = async (how: () => Promise<void>) => {
      proxy.refuse(true);
      proxy.cut();
      await how();
      proxy.refuse(false);
      await expect.poll(() => session.state).toBe('established');
    };
    const { id } = await ask(session, 'dead', PARTS);
    // Its token is another one by then.
    await resumed(async () => {});
    expect(session.id).toBe(before);
    await pause(1_200);
    await resumed(async () => {
      await nodes[0].server.close();
      target = 1;
    });
    await expect.poll(() => session.id).not.toBe(before);
    expect(await textsOf(session.follow(id))).toEqual(WHOLE);
    const eve = await peers.dial(nodes[1].url);
    expect((await failure(textsOf(eve.follow(id)))).code).toBe('unknown_reply');
  });

  it('a reply belongs to that one also after its session has moved, and the node where it came has died', async () => {
    const options = { authenticate: undefined, timers: { closingTimeoutMs: 50 } };
    const nodes = [await node(options), await node(options), await node(options)] as const;
    await Promise.all(nodes.map((each) => known(each, 2)));
    let target = 0;
    const proxy = peers.use(await createCuttingProxy(() => Number(new URL(nodes[target]?.url ?? '').port)));
    const session = await peers.dial(`ws://127.0.0.1:${proxy.port}/session`, {
      reconnect: { minDelayMs: 1, maxDelayMs: 20 },
    });
    const before = session.id;
    const { id } = await ask(session, 'moved', PARTS);
    target = 1;
    expect(await nodes[0].server.drain({ timeoutMs: 20_000, returnWithinMs: 0 })).toMatchObject({ moved: 1 });
    expect([session.id, nodes[1].server.sessions.has(before)]).toEqual([before, true]);
    // Its token is one that the node where it came has issued.
    proxy.cut();
    await expect.poll(() => session.state).toBe('established');
    await pause(1_200);
    proxy.refuse(true);
    proxy.cut();
    await nodes[1].server.close();
    target = 2;
    proxy.refuse(false);
    await expect.poll(() => session.state === 'established' && session.id !== before).toBe(true);
    expect(await textsOf(session.follow(id))).toEqual(WHOLE);
  });
});

describe('a drain', () => {
  const restOf = (session: Session, id: string, after: number) => textsOf(session.follow(id, { after }));

  it('leaves replies to all nodes, those that have ended and those that end meanwhile', async () => {
    const nodes = [await node(), await node(), await node()] as const;
    const [a, b, c] = nodes;
    for (const each of nodes) await known(each, 2);
    const asking = await ada(a);
    const ended = await ask(asking, 'drained, over', PARTS);
    expect(await ended.reading).toEqual(WHOLE);
    const names = Array.from({ length: 6 }, (_, i) => `drained ${i}`);
    const open = await Promise.all(names.map((name, i) => ask(asking, name, 1 + i * 9)));
    const sessions = await Promise.all(nodes.map(ada));
    const afters = [0, 1, 33, 120];
    const following = open.flatMap(({ id }) =>
      sessions.flatMap((session) =>
        afters.map(async (after) => [after, await restOf(session, id, after)] as const),
      ),
    );
    await pause(20);
    const drained = a.server.drain({ timeoutMs: 20_000, returnWithinMs: 0 });
    // One after the other, each in steps that readers see.
    for (const [i, name] of names.entries()) {
      for (let parts = 1 + i * 9; parts < PARTS; parts += 20 + 13 * i) {
        allow(name, parts);
        await pause(Math.random() * 10);
      }
      allow(name, PARTS);
    }
    const result = await drained;
    expect(result.interrupted).toBe(0);
    for (const { reading } of open) expect(await reading).toEqual(WHOLE);
    for (const [after, texts] of await Promise.all(following)) expect(texts).toEqual(WHOLE.slice(after));

    const check = async (session: Session) => {
      for (const { id } of [ended, ...open]) {
        const after = Math.floor(Math.random() * PARTS);
        expect(await restOf(session, id, after)).toEqual(WHOLE.slice(after));
      }
      expect(await textsOf(session.follow('drained 3'))).toEqual(WHOLE);
      expect((await session.replies()).length).toBe(names.length + 1);
    };
    for (const at of [b, c]) await check(await ada(at));
    await a.server.close();
    for (const at of [b, c]) await check(await ada(at));
    const eve = await peers.dial(b.url, { token: 'eve' });
    expect((await failure(textsOf(eve.follow(ended.id)))).code).toBe('unknown_reply');
  });

  it.each([
    ['a principal', {}],
    ['a session without authentication', { authenticate: undefined }],
  ])('leaves the replies of %s, and moves the session itself', async (_what, options) => {
    const nodes = [await node(options), await node(options)] as const;
    await known(nodes[0], 1);
    let target = 0;
    const proxy = peers.use(await createCuttingProxy(() => Number(new URL(nodes[target]?.url ?? '').port)));
    const session = await peers.dial(`ws://127.0.0.1:${proxy.port}/session`, {
      token: 'ada',
      reconnect: { minDelayMs: 1, maxDelayMs: 20 },
    });
    const name = `moves with ${_what}`;
    const { id, reading } = await ask(session, name, 5);
    const followed = textsOf(session.follow(id, { after: 2 }));
    const before = session.id;
    target = 1;
    const drained = nodes[0].server.drain({ timeoutMs: 20_000, returnWithinMs: 0 });
    for (let parts = 6; parts < PARTS; parts += 11) {
      allow(name, parts);
      await pause(5);
    }
    allow(name, PARTS);
    expect(await reading).toEqual(WHOLE);
    expect(await followed).toEqual(WHOLE.slice(2));
    expect(await drained).toMatchObject({ interrupted: 0 });
    await nodes[0].server.close();
    await expect.poll(() => nodes[1].server.sessions.has(session.id)).toBe(true);
    expect(session.id).toBe(before);
    expect(await textsOf(session.follow(id, { after: 9 }))).toEqual(WHOLE.slice(9));
    expect(await session.replies()).toMatchObject([{ id, isOwn: true, state: 'complete', parts: PARTS }]);
    const eve = await peers.dial(nodes[1].url, { token: 'eve' });
    expect((await failure(textsOf(eve.follow(id)))).code).toBe('unknown_reply');
  });

  it('leaves replies with the failures and the metadata that they ended in, however many nodes come and go', async () => {
    const onRequest: RequestHandler = async function* (_request, { keep, setMetadata }) {
      keep({ name: 'failing' });
      setMetadata({ model: 'm-1' });
      yield 'one ';
      yield 'two ';
      throw new Error('secret');
    };
    let at = await node({ onRequest });
    const asked = (await ada(at)).stream('go');
    await failure(textsOf(asked));
    const id = asked.keptId as string;
    for (let i = 0; i < 3; i++) {
      const next = await node();
      await known(at, 1);
      await at.server.drain({ timeoutMs: 1_000, returnWithinMs: 0 });
      await at.server.close();
      const reply = (await ada(next)).follow(id);
      const { texts, error } = await endOf(reply);
      expect(texts).toEqual(['one ', 'two ']);
      expect(error.code).toBe('internal');
      expect(reply.metadata).toMatchObject({ model: 'm-1' });
      at = next;
    }
  });

  it('leaves a reply that it stops at its deadline, with that as its end', async () => {
    const [a, b] = [await node(), await node()];
    await known(a, 1);
    const { id } = await ask(await ada(a), 'too long', 5);
    const reading = endOf((await ada(b)).follow(id));
    await a.server.drain({ timeoutMs: 200, returnWithinMs: 0 });
    const early = await reading;
    expect([early.texts, early.error.code]).toEqual([WHOLE.slice(0, 5), 'draining']);
    await a.server.close();
    const late = await endOf((await ada(b)).follow(id));
    expect([late.texts, late.error.code]).toEqual([WHOLE.slice(0, 5), 'draining']);
  });
});
