import { setImmediate as turn } from 'node:timers/promises';
import type {
  Message,
  RequestOptions,
  SendOptions,
  SessionEnd,
  SessionState,
  SessionStats,
} from '@parlance/protocol';
import {
  decodeUtf8,
  Inbox,
  Listeners,
  ProtocolError,
  parts,
  resolveLimits,
  SILENT_LOGGER,
  type UserOutbound,
} from '@parlance/protocol/client';
import { afterEach, expect } from 'vitest';
import { createBackoff } from '../../connection/backoff.js';
import { type ClientSession, type ClientSessionHost, ClientUserSession } from '../../session/session.js';
import { Hubs, type OpenSession } from '../hub.js';
import { type HostPipe, type Pipe, portPipe, readyPipe } from '../pipe.js';
import { holdLock, type Locks } from '../presence.js';
import { Tab, type TabOptions } from '../tab.js';

/** Tabs and their host over `MessageChannel`, with a simulated session. */

/** Web Locks of one origin. */
export class TestLocks {
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

export class TestClock {
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
export async function settle(): Promise<void> {
  for (let i = 0; i < 20; i++) await turn();
}

export function messageOf(content: string | Uint8Array): Message {
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

/** The simulated server's handler of a request: yields parts, or throws. */
type Answer = (text: string, options: RequestOptions) => AsyncIterable<string | Uint8Array>;

class TestSession implements ClientSessionHost {
  readonly session: ClientSession = new ClientUserSession(this);
  readonly logger = SILENT_LOGGER;
  readonly reachesAgents = true;
  readonly id = 'sess_1';
  state: SessionState = 'established';
  readonly principal = undefined;
  readonly isRebuilt = false;
  readonly agentId = undefined;
  readonly listeners = new Listeners();
  notify: ClientSessionHost['notify'] = (name, event) => this.listeners.notify(name, event, this);
  readonly mailbox = new Inbox<Message>();
  readonly sent: (readonly [body: unknown, agent: string | undefined])[] = [];
  readonly cancelled: string[] = [];
  /** Parts that were taken from the session. */
  taken = 0;
  closes = 0;
  end: SessionEnd = { code: undefined, reason: '', side: 'local', error: undefined };
  get closed(): Promise<SessionEnd> {
    return Promise.resolve(this.end);
  }
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
      // As if the reply followed a kept one after its tenth part.
      let position = 10;
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
        position++;
        return { value: messageOf(value), done: false };
      };
      return {
        id: 7,
        metadata: { model: 'test' },
        keptId: 'reply_1',
        get position() {
          return position;
        },
        cancel: () => {
          if (!isOver) this.cancelled.push(String(body));
          isOver = true;
          stop();
        },
        [Symbol.asyncIterator]: () => ({ next: () => Promise.race([next(), stopped]) }),
      };
    },
    perform: () => Promise.reject(new Error('not simulated')),
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
      peerBlockedOnRate: false,
      queuedBytes: 0,
      openStreams: 0,
      roundTripMs: undefined,
      lastSelection: undefined,
      context: undefined,
    };
  }
  async detach() {}
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
export class Origin {
  readonly clock = new TestClock();
  readonly locks: Locks | undefined;
  readonly sessions: TestSession[] = [];
  readonly opened: Parameters<OpenSession>[] = [];
  readonly pipes: Pipe[] = [];
  readonly lines: unknown[] = [];
  /** Sessions open only when this resolves. */
  reachable: Promise<void> = Promise.resolve();
  /** Frees the lock of a tab, by its number, as if its page had crashed. */
  readonly crashes: (() => void)[] = [];
  hubs: Hubs;
  /** Frees the lock of the latest host, as if its page or worker had crashed. */
  crashHost = (): void => {};
  #failure: Error | undefined;
  #hosts = 0;

  constructor({ hasLocks = true, failure }: { hasLocks?: boolean; failure?: Error } = {}) {
    const locks = new TestLocks();
    this.locks = hasLocks ? { request: locks.request } : undefined;
    this.#failure = failure;
    this.hubs = this.createHubs();
  }

  createHubs(): Hubs {
    const lock = `host ${++this.#hosts}`;
    if (this.locks !== undefined) {
      void holdLock(this.locks, lock).then((release) => {
        this.crashHost = release;
      });
    }
    return new Hubs({
      open: async (...call) => {
        this.opened.push(call);
        if (this.#failure !== undefined) throw this.#failure;
        await this.reachable;
        const session = new TestSession();
        this.sessions.push(session);
        return session;
      },
      clock: this.clock,
      locks: this.locks,
      lock: this.locks && lock,
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
        timers: { acceptTimeoutMs: 5_000, closingTimeoutMs: 1_000, resumeWindowMs: 120_000 },
        backoff: createBackoff({}, () => 0),
        logger,
        traceparent: undefined,
        clock: this.clock,
        locks: ownLocks,
        createSession: (host) => new ClientUserSession(host),
        Queue: parts.requests.get().StreamQueue,
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

  connect(): Promise<HostPipe> {
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
export function originOf(options?: ConstructorParameters<typeof Origin>[0]): Origin {
  const origin = new Origin(options);
  origins.push(origin);
  return origin;
}

export async function textOf(parts: AsyncIterable<Message>): Promise<string> {
  let text = '';
  for await (const part of parts) text += part.text;
  return text;
}

export async function withTab(given: Partial<TabOptions> = {}) {
  const origin = originOf();
  const { session } = await origin.open(given);
  return { session, host: () => origin.session };
}
