import { setImmediate as turn } from 'node:timers/promises';
import type { Message, RequestOptions, SendOptions, SessionState, SessionStats } from '@parlance/protocol';
import {
  decodeUtf8,
  Inbox,
  Listeners,
  ProtocolError,
  RequestError,
  resolveLimits,
  SILENT_LOGGER,
  type UserOutbound,
} from '@parlance/protocol/client';
import { afterEach, describe, expect, it } from 'vitest';
import { createBackoff } from '../reconnect.js';
import type { ClientSessionHost } from '../session.js';
import { MAX_REPLIES, MAX_UNREAD, MAX_UPLOAD, MAX_WHOLE, PART_WINDOW } from './bounds.js';
import { Hubs, type OpenSession } from './hub.js';
import { type Pipe, portPipe, readyPipe } from './pipe.js';
import { BEAT_MS, type Locks, SILENCE_MS } from './presence.js';
import { Tab, type TabOptions } from './tab.js';

/** Tabs and their host over `MessageChannel`, with a simulated session. */

/** Web Locks of one origin. */
class TestLocks {
  readonly #queues = new Map<string, (() => Promise<unknown>)[]>();

  readonly request = (async (name: string, ...rest: unknown[]) => {
    const task = rest.at(-1) as () => unknown;
    const { signal } = (rest.length > 1 ? rest[0] : {}) as { signal?: AbortSignal };
    const queue = this.#queues.get(name) ?? [];
    this.#queues.set(name, queue);
    await new Promise<void>((resolve, reject) => {
      const run = async (): Promise<void> => {
        if (signal?.aborted === true) return;
        resolve();
        await task();
      };
      signal?.addEventListener('abort', () => reject(signal.reason));
      queue.push(run);
      if (queue.length === 1) void this.#next(queue);
    });
  }) as unknown as Locks['request'];

  async #next(queue: (() => Promise<unknown>)[]): Promise<void> {
    while (queue[0] !== undefined) {
      await queue[0]();
      queue.shift();
    }
  }
}

class TestClock {
  time = 0;
  readonly #timers = new Set<{ at: number; task: () => void }>();
  now = () => this.time;
  after = (ms: number, task: () => void) => {
    const timer = { at: this.time + ms, task };
    this.#timers.add(timer);
    return () => void this.#timers.delete(timer);
  };
  async advance(ms: number): Promise<void> {
    const end = this.time + ms;
    for (;;) {
      const next = [...this.#timers].filter(({ at }) => at <= end).sort((a, b) => a.at - b.at)[0];
      if (next === undefined) break;
      this.time = next.at;
      this.#timers.delete(next);
      next.task();
      await settle();
    }
    this.time = end;
  }
}

/** Lets messages of ports arrive. */
async function settle(): Promise<void> {
  for (let i = 0; i < 20; i++) await turn();
}

function messageOf(content: string | Uint8Array): Message {
  const bytes = typeof content === 'string' ? new TextEncoder().encode(content) : content;
  return {
    from: undefined,
    algorithm: 'NONE',
    bytes,
    get text() {
      return decodeUtf8(bytes);
    },
    tokens: undefined,
    header: undefined,
    tensor: undefined,
    metadata: {},
    securityStatus: undefined,
    codedLength: bytes.length,
    json: () => expect.fail('the host parses nothing'),
  };
}

const DIRECTION = { messages: 0, wireBytes: 0, contentBytes: 0, byAlgorithm: {} };

/** What the simulated server does with a request: yields parts, or throws. */
type Answer = (text: string, options: RequestOptions) => AsyncIterable<string | Uint8Array>;

class TestSession implements ClientSessionHost {
  readonly reachesAgents = true;
  readonly id = 'sess_1';
  state: SessionState = 'established';
  readonly principal = undefined;
  readonly agentId = undefined;
  readonly listeners = new Listeners();
  readonly mailbox = new Inbox<Message>();
  readonly sent: (readonly [body: unknown, agent: string | undefined])[] = [];
  readonly cancelled: string[] = [];
  /** Parts that were taken from the session. */
  taken = 0;
  closes = 0;
  /** `send` resolves only when this does. */
  room: Promise<void> = Promise.resolve();
  answer: Answer = async function* (text) {
    yield `re: ${text}`;
  };

  readonly negotiated = {
    version: '1',
    algorithms: ['NONE' as const],
    encoding: null,
    securityScanning: false,
    maxPayloadSize: 0,
    limits: {},
    extensions: { link: '{}' },
    reasons: [],
  };

  readonly outbound: UserOutbound = {
    send: async (body: unknown, { signal }: SendOptions, agent?: string) => {
      await Promise.race([
        this.room,
        new Promise((_resolve, reject) => signal?.addEventListener('abort', () => reject(signal.reason))),
      ]);
      this.sent.push([body, agent]);
    },
    request: async (body, options) => {
      const parts: string[] = [];
      const { signal } = options;
      signal?.addEventListener('abort', () => this.cancelled.push(String(body)));
      for await (const part of this.answer(String(body), options)) parts.push(String(part));
      return messageOf(parts.join(''));
    },
    stream: (body, options) => {
      const parts = this.answer(String(body), options)[Symbol.asyncIterator]();
      let isOver = false;
      let stop = (): void => {};
      const stopped = new Promise<IteratorResult<Message>>((resolve) => {
        stop = () => resolve({ value: undefined, done: true });
      });
      const next = async (): Promise<IteratorResult<Message>> => {
        const { value, done } = await parts.next();
        if (done === true) {
          isOver = true;
          return { value: undefined, done };
        }
        this.taken++;
        return { value: messageOf(value), done: false };
      };
      return {
        id: 7,
        metadata: { model: 'test' },
        cancel: () => {
          if (!isOver) this.cancelled.push(String(body));
          isOver = true;
          stop();
        },
        [Symbol.asyncIterator]: () => ({ next: () => Promise.race([next(), stopped]) }),
      };
    },
    sendTensor: () => Promise.reject(new Error('not simulated')),
  };

  send(send: () => Promise<void>): Promise<void> {
    return send();
  }
  async flush(): Promise<void> {
    if (this.state === 'suspended') throw new ProtocolError('session_lost', 'lost while flushing');
  }
  stats(): SessionStats {
    return {
      sent: { ...DIRECTION, messages: this.sent.length },
      received: DIRECTION,
      blockedOnCredit: false,
      blockedOnRate: false,
      queuedBytes: 0,
      openStreams: 0,
      roundTripMs: undefined,
      lastSelection: undefined,
      context: undefined,
    };
  }
  async close() {
    this.closes++;
    this.state = 'closed';
    this.mailbox.end();
    return { unacknowledged: 3 };
  }

  change(state: SessionState): void {
    this.state = state;
    this.listeners.notify('state', state, { id: this.id, logger: SILENT_LOGGER });
  }
}

/** One host, and tabs that share its session. */
class Origin {
  readonly clock = new TestClock();
  readonly locks: Locks | undefined;
  readonly sessions: TestSession[] = [];
  readonly opened: Parameters<OpenSession>[] = [];
  readonly pipes: Pipe[] = [];
  readonly lines: unknown[] = [];
  /** Frees the lock of a tab, by its number, as if its page had crashed. */
  readonly crashes: (() => void)[] = [];
  hubs: Hubs;
  #failure: Error | undefined;

  constructor({ hasLocks = true, failure }: { hasLocks?: boolean; failure?: Error } = {}) {
    const locks = new TestLocks();
    this.locks = hasLocks ? { request: locks.request } : undefined;
    this.#failure = failure;
    this.hubs = this.createHubs();
  }

  createHubs(): Hubs {
    return new Hubs({
      open: async (...call) => {
        this.opened.push(call);
        if (this.#failure !== undefined) throw this.#failure;
        const session = new TestSession();
        this.sessions.push(session);
        return session;
      },
      clock: this.clock,
      locks: this.locks,
      lock: undefined,
    });
  }

  get session(): TestSession {
    return this.sessions[0] ?? expect.fail('no session is open');
  }

  /** @param given changes to the options of the tab. */
  create(given: Partial<TabOptions> = {}): Tab {
    const log = (fields: unknown) => void this.lines.push(fields);
    const logger = { debug: log, info: log, warn: log, error: log };
    const request = this.locks?.request as ((...args: unknown[]) => Promise<unknown>) | undefined;
    const crash: { now: () => void } = { now: () => {} };
    this.crashes.push(() => crash.now());
    // The first lock that a tab asks for is that of its presence.
    let isFirst = true;
    const ownLocks: Locks | undefined = request && {
      request: ((name: string, ...rest: unknown[]) => {
        const task = rest.at(-1) as () => Promise<unknown>;
        if (!isFirst) return request(name, ...rest);
        isFirst = false;
        const crashed = new Promise<void>((resolve) => {
          crash.now = resolve;
        });
        return request(name, () => Promise.race([task(), crashed]));
      }) as Locks['request'],
    };
    return new Tab(
      {
        attach: () => this.connect(),
        key: 'a',
        url: 'ws://a.example/',
        options: {},
        firstToken: undefined,
        askToken: undefined,
        limits: resolveLimits(),
        closingTimeoutMs: 1_000,
        backoff: createBackoff({}, () => 0),
        logger,
        traceparent: undefined,
        clock: this.clock,
        locks: ownLocks,
        onEnded: () => {},
        ...given,
      },
      logger,
    );
  }

  async open(given: Partial<TabOptions> = {}): Promise<Tab> {
    const tab = this.create(given);
    const opened = tab.open();
    await opened;
    return tab;
  }

  connect(): Promise<Pipe> {
    const { port1, port2 } = new MessageChannel();
    const host = portPipe(port1 as unknown as MessagePort);
    const pipe = portPipe(port2 as unknown as MessagePort);
    this.pipes.push(host, pipe);
    const ready = readyPipe(pipe);
    this.hubs.serve(host);
    return ready;
  }

  dispose(): void {
    for (const pipe of this.pipes) pipe.close();
  }
}

const origins: Origin[] = [];
afterEach(() => {
  for (const origin of origins.splice(0)) origin.dispose();
});
function originOf(options?: ConstructorParameters<typeof Origin>[0]): Origin {
  const origin = new Origin(options);
  origins.push(origin);
  return origin;
}

async function textOf(parts: AsyncIterable<Message>): Promise<string> {
  let text = '';
  for await (const part of parts) text += part.text;
  return text;
}

describe('tabs that share a session', () => {
  it('have one session for equal keys, and look like its owner', async () => {
    const origin = originOf();
    const [one, two, other] = await Promise.all([origin.open(), origin.open(), origin.open({ key: 'b' })]);
    expect(origin.sessions.length).toBe(2);
    for (const { session } of [one, two, other]) {
      expect(session.id).toBe('sess_1');
      expect(session.state).toBe('established');
      expect(session.negotiated.extensions['link']).toBe('{}');
      expect(session.principal).toBeUndefined();
    }
    expect((await one.session.request('hello')).text).toBe('re: hello');
    expect(await textOf(two.session.stream('hello'))).toBe('re: hello');
  });

  it('send text, bytes and JSON, and count them', async () => {
    const { session, ...origin } = await withTab();
    const bytes = Uint8Array.of(9, 1, 2, 3).subarray(1);
    const sending = session.send(bytes, { to: 'agent-1' });
    bytes.fill(0);
    await sending;
    await session.send({ a: [1] });
    await session.send('text', { algorithm: 'NONE' });
    expect(origin.host().sent).toEqual([
      [Uint8Array.of(1, 2, 3), 'agent-1'],
      ['{"a":[1]}', undefined],
      ['text', undefined],
    ]);
    expect(session.stats().sent.messages).toBe(3);
    await session.flush();
  });

  it('read replies with their metadata, and binary parts', async () => {
    const { session, host } = await withTab();
    host().answer = async function* () {
      yield 'text';
      yield Uint8Array.of(0xff, 0xfe);
    };
    const reply = session.stream('x');
    const parts: unknown[] = [];
    for await (const part of reply) {
      parts.push(part.bytes.length === 2 ? part.bytes : part.text);
      expect(reply.metadata).toEqual({ model: 'test' });
      expect(reply.id).toBe(7);
      if (part.bytes.length === 2)
        expect(() => part.text).toThrow(expect.objectContaining({ code: 'bad_utf8' }));
    }
    expect(parts).toEqual(['text', Uint8Array.of(0xff, 0xfe)]);
  });

  it('get errors with code, side, data and what else they have', async () => {
    const { session, host } = await withTab();
    const given = new RequestError('quota', 'used up', {
      side: 'remote',
      data: { left: 0 },
      retryable: true,
      retryAfterMs: 50,
    });
    host().answer = async function* () {
      yield 'first';
      throw given;
    };
    const failed = await session.request('x').catch((error: unknown) => error);
    expect(failed).toBeInstanceOf(RequestError);
    expect(failed).toMatchObject({
      code: 'quota',
      message: 'used up',
      side: 'remote',
      data: { left: 0 },
      retryable: true,
      retryAfterMs: 50,
    });
    let text = '';
    const read = async () => {
      for await (const part of session.stream('x')) text += part.text;
    };
    await expect(read()).rejects.toMatchObject({ code: 'quota', data: { left: 0 } });
    expect(text).toBe('first');

    host().answer = () => {
      throw new TypeError('a secret of the host');
    };
    await expect(session.request('x')).rejects.toMatchObject({
      code: 'internal',
      message: expect.not.stringContaining('secret'),
    });
  });

  it('cancel what they no longer read, by loop, call and signal', async () => {
    const { session, host } = await withTab();
    host().answer = async function* () {
      yield 'first';
      await new Promise(() => {});
    };
    for await (const _ of session.stream('left')) break;
    const called = session.stream('called');
    called.cancel();
    expect(await textOf(called)).toBe('');
    const abort = new AbortController();
    const streamed = textOf(session.stream('aborted', { signal: abort.signal }));
    const whole = session.request('whole', { signal: abort.signal });
    await settle();
    abort.abort(new Error('enough'));
    await expect(streamed).rejects.toThrow('enough');
    await expect(whole).rejects.toThrow('enough');
    await settle();
    expect([...host().cancelled].sort()).toEqual(['aborted', 'called', 'left', 'whole']);
    await expect(session.request('x', { signal: abort.signal })).rejects.toThrow('enough');
  });

  it('withdraw a message whose signal aborts before the session has taken it', async () => {
    const { session, host } = await withTab();
    host().room = new Promise(() => {});
    const abort = new AbortController();
    const sending = session.send('x', { signal: abort.signal });
    await settle();
    abort.abort(new Error('withdrawn'));
    await expect(sending).rejects.toThrow('withdrawn');
    expect(host().sent).toEqual([]);
  });

  it('pass timeouts and the trace of the tab on', async () => {
    const { session, host } = await withTab({ traceparent: () => '00-trace' });
    const seen: RequestOptions[] = [];
    host().answer = async function* (_text, options) {
      seen.push(options);
      yield '';
    };
    await session.request('x', { timeoutMs: 50, metadata: { a: 1 } });
    await textOf(session.stream('x', { metadata: { traceparent: 'own' } }));
    expect(seen[0]).toMatchObject({ timeoutMs: 50, metadata: { a: 1, traceparent: '00-trace' } });
    expect(seen[1]).toMatchObject({ metadata: { traceparent: 'own' } });
  });

  it('refuse tensors, wrong options and metadata that cannot be encoded', async () => {
    const { session } = await withTab();
    const tensor = {
      data: new Float32Array(1),
      shape: [1],
      dtype: 'float32',
      payloadType: 'hidden_state',
    } as const;
    await expect(session.sendTensor(tensor)).rejects.toMatchObject({ code: 'unsupported' });
    await expect(session.request('x', { timeoutMs: 0 })).rejects.toMatchObject({ code: 'invalid_option' });
    const metadata = { f: () => {} } as unknown as Record<string, string>;
    await expect(session.request('x', { metadata })).rejects.toMatchObject({ code: 'invalid_argument' });
    await expect(textOf(session.stream('x', { metadata }))).rejects.toMatchObject({
      code: 'invalid_argument',
    });
    await expect(session.request('x', { to: 'no agent' })).rejects.toMatchObject({
      code: 'invalid_argument',
    });
  });

  it('all get the one-way messages and events of the session', async () => {
    const origin = originOf();
    const [one, two] = [await origin.open(), await origin.open()];
    const states: string[] = [];
    two.session.on('state', (state) => states.push(state));
    for (const text of ['a', 'b']) origin.session.mailbox.push(messageOf(text));
    for (const { session } of [one, two]) {
      const texts: string[] = [];
      for await (const message of session) if (texts.push(message.text) === 2) break;
      expect(texts).toEqual(['a', 'b']);
    }
    origin.session.change('suspended');
    await settle();
    expect(states).toEqual(['suspended']);
    expect(one.session.state).toBe('suspended');
  });

  it('end with the session, with its error', async () => {
    const origin = originOf();
    const [one, two] = [await origin.open(), await origin.open()];
    const reads = [one, two].map(({ session }) => textOf(session));
    origin.session.change('closed');
    origin.session.mailbox.end(new ProtocolError('forbidden', 'out', { side: 'remote' }));
    for (const { status, ...read } of await Promise.allSettled(reads)) {
      expect(status).toBe('rejected');
      expect(read).toMatchObject({ reason: { code: 'forbidden', side: 'remote' } });
    }
    expect(one.session.state).toBe('closed');
    await expect(one.session.send('x')).rejects.toMatchObject({ code: 'session_closed' });
  });

  it('fail to open with the error of the session, all of them', async () => {
    const origin = originOf({
      failure: new ProtocolError('rejected', 'no', { reject: { code: 'X', message: 'no' } }),
    });
    const attempts = [origin.create().open(), origin.create().open()];
    for (const { status, ...attempt } of await Promise.allSettled(attempts)) {
      expect(status).toBe('rejected');
      expect(attempt).toMatchObject({ reason: { code: 'rejected', reject: { code: 'X', message: 'no' } } });
    }
  });
});

describe('a tab that leaves', () => {
  it('cancels its own requests only, and the last one takes the session along', async () => {
    const origin = originOf();
    const [one, two] = [await origin.open(), await origin.open()];
    origin.session.answer = async function* (text) {
      yield text;
      if (text === 'stays') return;
      await new Promise(() => {});
    };
    const lost = textOf(one.session.stream('goes'));
    await settle();
    const closed = one.session.close();
    await expect(lost).rejects.toMatchObject({ code: 'session_closed' });
    expect(await closed).toEqual({ unacknowledged: 0 });
    expect(one.session.state).toBe('closed');
    expect(origin.session.cancelled).toEqual(['goes']);
    expect(origin.session.closes).toBe(0);
    expect(await textOf(two.session.stream('stays'))).toBe('stays');
    expect(await two.session.close()).toEqual({ unacknowledged: 3 });
    expect(origin.session.closes).toBe(1);
    expect(await (await origin.open()).session.request('x')).toBeDefined();
    expect(origin.sessions.length).toBe(2);
  });

  it('hands over what it has sent before', async () => {
    const origin = originOf();
    await origin.open();
    const { session } = await origin.open();
    let giveRoom = (): void => {};
    origin.session.room = new Promise((resolve) => {
      giveRoom = resolve;
    });
    const sends = Array.from({ length: 3 }, () => session.send('x'.repeat(MAX_UPLOAD / 2)));
    const closed = session.close();
    await settle();
    giveRoom();
    expect(await closed).toEqual({ unacknowledged: 0 });
    await Promise.all(sends);
    expect(origin.session.sent.length).toBe(3);
  });

  it('is noticed if it crashes, by its lock', async () => {
    const origin = originOf();
    await origin.open();
    const { session } = await origin.open();
    origin.session.answer = async function* () {
      yield 'first';
      await new Promise(() => {});
    };
    session.stream('of the crashed tab');
    await settle();
    origin.crashes[1]?.();
    await settle();
    expect(origin.session.cancelled).toEqual(['of the crashed tab']);
    expect(origin.session.closes).toBe(0);
    origin.crashes[0]?.();
    await settle();
    expect(origin.session.closes).toBe(1);
  });

  it('is noticed if it is silent, where there are no locks', async () => {
    const origin = originOf({ hasLocks: false });
    const silent = await origin.open({ clock: new TestClock() });
    const alive = await origin.open();
    silent.session.stream('of the silent tab');
    await settle();
    await origin.clock.advance(SILENCE_MS);
    expect(origin.session.state).toBe('established');
    expect(silent.session.state).toBe('established');
    await origin.clock.advance(2 * BEAT_MS);
    await settle();
    expect((await alive.session.request('x')).text).toBe('re: x');
    origin.session.mailbox.push(messageOf('only for tabs that are there'));
    expect(origin.session.closes).toBe(0);
    const { session } = silent;
    await expect(Promise.race([session.request('x'), turnsAway()])).resolves.toBe('no answer');
  });

  it('ends one that sends something malformed, and no other', async () => {
    const origin = originOf();
    const fine = await origin.open();
    const pipe = await origin.connect();
    const heard: { type?: string; error?: { code: string } }[] = [];
    pipe.listen((message) => heard.push(message as object));
    pipe.post({ type: 'join', key: 'a', url: '', options: {}, logs: false, isTokenRenewed: false });
    await settle();
    pipe.post({ type: 'call', call: 1, verb: 'send', body: 5, options: {} });
    await settle();
    expect(heard.map(({ type }) => type)).toEqual(['joined', 'over']);
    expect(heard[1]?.error?.code).toBe('bad_message');
    expect((await fine.session.request('x')).text).toBe('re: x');
    expect(origin.lines).toContainEqual({ event: 'shared.malformed' });
  });
});

describe('a tab that does not read', () => {
  it('holds back the sender of a reply, and nobody else', async () => {
    const origin = originOf();
    const [slow, quick] = [await origin.open(), await origin.open()];
    origin.session.answer = async function* (text) {
      for (let i = 0; i < (text === 'long' ? 1_000 : 1); i++) yield 'x'.repeat(1024 - 256);
    };
    const reply = slow.session.stream('long');
    await settle();
    expect(origin.session.taken).toBe(PART_WINDOW / 1024);
    expect((await quick.session.request('x')).text.length).toBe(768);
    expect((await textOf(reply)).length).toBe(768_000);
  });

  it('misses messages beyond a bound, is told, and goes on', async () => {
    const origin = originOf();
    const [slow, quick] = [await origin.open(), await origin.open()];
    let read = 0;
    const reading = (async () => {
      for await (const _ of quick.session) read++;
    })();
    const size = 4096 - 256;
    const fitting = MAX_UNREAD / 4096;
    const push = async (count: number) => {
      for (let i = 0; i < count; i++) {
        origin.session.mailbox.push(messageOf('x'.repeat(size)));
        if (i % 100 === 0) await settle();
      }
      await settle();
    };
    await push(fitting);
    expect(origin.lines).toEqual([]);
    await push(2);
    expect(origin.lines).toEqual([{ event: 'shared.missed', session: 'sess_1' }]);
    expect(read).toBe(fitting + 2);

    let texts = 0;
    await expect(
      (async () => {
        for await (const _ of slow.session) texts++;
      })(),
    ).rejects.toMatchObject({ code: 'over_budget', message: expect.stringContaining('missed 2 messages') });
    expect(texts).toBe(fitting);
    origin.session.mailbox.push(messageOf('after'));
    for await (const { text } of slow.session) {
      expect(text).toBe('after');
      break;
    }
    origin.session.change('closed');
    origin.session.mailbox.end();
    await reading;
  });
});

describe('the bounds of a tab', () => {
  /** A tab that does not keep to them. */
  async function rawTab() {
    const origin = originOf();
    await origin.open();
    const pipe = await origin.connect();
    const heard: Record<string, unknown>[] = [];
    pipe.listen((message) => heard.push(message as Record<string, unknown>));
    pipe.post({ type: 'join', key: 'a', url: '', options: {}, logs: false, isTokenRenewed: false });
    await settle();
    const call = (number: number, verb: string, body: string) =>
      pipe.post({ type: 'call', call: number, verb, body, options: {} });
    const refusals = () =>
      heard.flatMap(({ call: number, error }) =>
        error === undefined ? [] : [[number, (error as { code: string }).code]],
      );
    return { origin, pipe, call, heard, refusals };
  }

  it('hold for requests: n, and not n + 1', async () => {
    const { origin, call, refusals } = await rawTab();
    origin.session.answer = () => ({ [Symbol.asyncIterator]: () => ({ next: () => new Promise(() => {}) }) });
    for (let i = 1; i <= MAX_REPLIES; i++) call(i, 'stream', 'x');
    await settle();
    expect(refusals()).toEqual([]);
    call(MAX_REPLIES + 1, 'request', 'x');
    await settle();
    expect(refusals()).toEqual([[MAX_REPLIES + 1, 'too_many_streams']]);
  });

  it('hold for what it sends: n bytes, and not n + 1', async () => {
    const { origin, call, refusals } = await rawTab();
    origin.session.room = new Promise(() => {});
    call(1, 'send', 'x'.repeat(MAX_UPLOAD - 512));
    call(2, 'send', '');
    await settle();
    expect(refusals()).toEqual([]);
    call(3, 'send', '');
    await settle();
    expect(refusals()).toEqual([[3, 'over_budget']]);
  });

  it('hold for whole replies that it has not received: n bytes, and not n + 1', async () => {
    const { origin, call, pipe, refusals } = await rawTab();
    const half = MAX_WHOLE / 2 - 256;
    origin.session.answer = async function* (text) {
      yield 'x'.repeat(Number(text));
    };
    call(1, 'request', String(half));
    call(2, 'request', String(half));
    await settle();
    expect(refusals()).toEqual([]);
    call(3, 'request', '1');
    await settle();
    expect(refusals()).toEqual([[3, 'over_budget']]);
    pipe.post({ type: 'received', charge: half + 256 });
    call(4, 'request', '1');
    await settle();
    expect(refusals().length).toBe(1);
  });

  it('make it wait, not fail, if it keeps to them', async () => {
    const { session, host } = await withTab();
    let giveRoom = (): void => {};
    host().room = new Promise((resolve) => {
      giveRoom = resolve;
    });
    const sends = Array.from({ length: 8 }, (_, i) => session.send(`${i}${'x'.repeat(MAX_UPLOAD / 4)}`));
    await settle();
    giveRoom();
    await Promise.all(sends);
    expect(host().sent.map(([body]) => String(body)[0])).toEqual(['0', '1', '2', '3', '4', '5', '6', '7']);
  });
});

describe('a host that goes away', () => {
  it('fails what is under way with session_lost, and the next one takes its place', async () => {
    const origin = originOf();
    const { session } = await origin.open();
    const states: string[] = [];
    session.on('state', (state) => states.push(state));
    const resets: unknown[] = [];
    session.on('reset', (reset) => resets.push(reset));
    origin.session.answer = async function* () {
      yield 'first';
      await new Promise(() => {});
    };
    const read = textOf(session);
    const reply = textOf(session.stream('x'));
    await settle();
    const former = origin.hubs;
    origin.hubs = origin.createHubs();
    former.abandon();
    await expect(reply).rejects.toMatchObject({ code: 'session_lost' });
    await expect(read).rejects.toMatchObject({ code: 'session_lost' });
    await settle();
    await origin.clock.advance(1);
    expect(states).toEqual(['connecting', 'established']);
    expect(resets).toEqual([
      { reason: expect.any(String), notSent: [], unknown: [{ kind: 'request', streamId: 7 }] },
    ]);
    expect(origin.sessions.length).toBe(2);
    expect((await session.request('again')).text).toBe('re: again');
  });

  it('ends the session for good with reconnect: false', async () => {
    const origin = originOf();
    const { session } = await origin.open({ backoff: undefined });
    const read = textOf(session);
    origin.hubs.abandon();
    await expect(read).rejects.toMatchObject({ code: 'session_lost' });
    expect(session.state).toBe('closed');
  });
});

describe('the credential', () => {
  it('is asked for in a tab, the next one if the first is gone', async () => {
    const origin = originOf();
    const askToken = async () => 'fresh';
    const asked = { askToken, firstToken: 'first' };
    await origin.open({ ...asked, askToken: () => Promise.reject(new Error('logged out')) });
    await origin.open(asked);
    const [, context] = origin.opened[0] ?? expect.fail('nothing was opened');
    expect(await context.askToken?.()).toBe('first');
    expect(await context.askToken?.()).toBe('fresh');
    expect(origin.lines).toContainEqual(expect.objectContaining({ event: 'token.failed' }));
  });

  it('is final if it is not a function', async () => {
    const origin = originOf();
    await origin.open({ firstToken: 'fixed' });
    expect(origin.opened[0]?.[0].token).toBe('fixed');
    expect(origin.opened[0]?.[1].askToken).toBeUndefined();
  });
});

async function withTab(given: Partial<TabOptions> = {}) {
  const origin = originOf();
  const { session } = await origin.open(given);
  return { session, host: () => origin.session };
}

async function turnsAway(): Promise<string> {
  await settle();
  return 'no answer';
}
