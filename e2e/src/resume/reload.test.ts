import { setTimeout as pause } from 'node:timers/promises';
import { type ClientOptions, connect, type SessionReset, type SessionStore } from '@parlance/client';
import { createServer, type Server, type ServerOptions, type Session, without } from '@parlance/server';
import { afterEach, describe, expect, it, vi } from 'vitest';
import WebSocket from 'ws';
import { serverEndpoint } from '../kit/endpoints.js';
import { MemoryStore } from '../kit/memory-store.js';

/** Sessions that the next client takes up from a store, over real sockets. Pages do it in reload.browser.test.ts. */

const open: AsyncDisposable[] = [];
afterEach(async () => {
  for (const each of open.splice(0).reverse()) await each[Symbol.asyncDispose]();
});

/** A store that answers later. */
class SlowStore extends MemoryStore {
  override async getItem(key: string) {
    await pause(5);
    return super.getItem(key);
  }
  override async setItem(key: string, value: string) {
    await pause(5);
    super.setItem(key, value);
  }
  override async removeItem(key: string) {
    await pause(5);
    super.removeItem(key);
  }
}

/** Connects to a port at which nobody listens. */
class NoServer extends WebSocket {
  constructor(_url: string | URL, protocols?: string | string[]) {
    super('ws://127.0.0.1:1', protocols);
  }
}

/** Hears nothing of what its server says. */
class Deaf extends WebSocket {
  override emit(event: string | symbol, ...rest: unknown[]): boolean {
    return event === 'message' || super.emit(event, ...rest);
  }
}

interface Line {
  readonly event: string;
}
const logTo = (lines: string[]) => {
  const log = (fields: object) => void lines.push((fields as Line).event);
  return { debug: log, info: log, warn: log, error: log };
};

async function serve(options: ServerOptions = {}) {
  const lines: string[] = [];
  const sessions: Session[] = [];
  const server: Server = createServer({
    logger: logTo(lines),
    async onSession(session) {
      sessions.push(session);
      for await (const message of session) await session.send(`heard ${message.text}`);
    },
    ...options,
  });
  open.push(server);
  const { url } = await server.listen();
  const dial = async (store: SessionStore | undefined, more: Partial<ClientOptions> = {}) => {
    const session = await connect(url, { WebSocket, ...(store && { store }), ...more });
    open.push(session);
    return session;
  };
  return { server, url, lines, sessions, dial };
}

const next = async (session: Session) => {
  for await (const message of session) return message.text;
  return 'the end';
};
describe.each([
  ['a synchronous store', () => new MemoryStore()],
  ['an asynchronous store', () => new SlowStore()],
])('a client with %s', (_name, create) => {
  it('leaves its session, and the next one takes it up', async () => {
    const { dial, lines, sessions, server } = await serve();
    const store = create();
    const first = await dial(store);
    expect(first.isRebuilt).toBe(false);
    const { id } = first;
    await first.send('one');
    expect(await next(first)).toBe('heard one');
    const reader = next(first);
    await first.detach();
    expect([await reader, first.state]).toEqual(['the end', 'closed']);
    await expect(first.send('late')).rejects.toMatchObject({ code: 'session_closed' });
    await expect(first.detach()).rejects.toMatchObject({ code: 'unsupported' });
    expect(store.entry).toMatchObject({ sessionId: id, received: 1, detached: true });
    await expect.poll(() => sessions[0]?.state).toBe('suspended');
    await sessions[0]?.send('meanwhile');

    const second = await dial(store);
    expect([second.id, second.isRebuilt, second.state]).toEqual([id, true, 'established']);
    expect(await next(second)).toBe('meanwhile');
    await second.send('two');
    expect(await next(second)).toBe('heard two');
    expect([sessions.length, server.sessions.size]).toEqual([1, 1]);
    expect(lines.filter((event) => event === 'session.taken_up')).toHaveLength(1);
    expect(store.entry).toMatchObject({ sessionId: id, detached: false });
    await second.close();
    await expect.poll(() => store.entries.size).toBe(0);
  });

  it('takes it up although the first connection is lost before its answer arrives', async () => {
    const { dial, sessions } = await serve();
    const store = create();
    const first = await dial(store);
    const { id } = first;
    await first.detach();
    let losses = 2;
    class Lost extends WebSocket {
      override emit(event: string | symbol, ...rest: unknown[]): boolean {
        if (event !== 'message' || losses === 0) return super.emit(event, ...rest);
        losses--;
        this.terminate();
        return true;
      }
    }
    const reconnect = { connectWithinMs: 5_000, minDelayMs: 5, maxDelayMs: 5 };
    const second = await dial(store, { WebSocket: Lost, reconnect });
    expect([losses, second.id, second.isRebuilt]).toEqual([0, id, true]);
    expect(sessions).toHaveLength(1);
    // Nothing uses an attempt twice, not even the page after this one.
    await second.detach();
    expect((await dial(store)).id).toBe(id);
  });

  it.each([
    ['that nobody answers', NoServer],
    ['whose answer is lost', Deaf],
  ])('takes it up in its next attempt after one %s', async (_what, Broken) => {
    const { dial, sessions } = await serve();
    const store = create();
    const first = await dial(store);
    const { id } = first;
    await first.detach();
    const broken = { WebSocket: Broken, timers: { acceptTimeoutMs: 100 } };
    // Several connections, of which each has to be a new one for the server.
    const reconnect = { connectWithinMs: 60, minDelayMs: 5, maxDelayMs: 5 };
    for (let i = 0; i < 2; i++)
      await expect(dial(store, { ...broken, reconnect })).rejects.toMatchObject({ retryable: true });
    const second = await dial(store);
    expect([second.id, second.isRebuilt]).toEqual([id, true]);
    await second.send('two');
    expect(await next(second)).toBe('heard two');
    expect(sessions).toHaveLength(1);
  });
});

describe('a client that takes a session up', () => {
  it.each([new MemoryStore(), new SlowStore()])(
    'that is refused or finds no server leaves the session to the one after it, %#',
    async (store) => {
      let isBusy = false;
      const { dial, sessions } = await serve({
        authenticate: () => {
          if (isBusy) throw new Error('the directory of users is away');
          return { principal: 'ada' };
        },
      });
      const first = await dial(store);
      const { id } = first;
      await first.detach();
      class Unreachable extends WebSocket {
        constructor(_url: string | URL, subprotocols?: string | string[]) {
          super('ws://127.0.0.1:1/session', subprotocols);
        }
      }
      await expect(dial(store, { WebSocket: Unreachable })).rejects.toMatchObject({ retryable: true });
      const reconnect = { minDelayMs: 1, maxDelayMs: 5, connectWithinMs: 50 };
      await expect(dial(store, { WebSocket: Unreachable, reconnect })).rejects.toThrow();
      isBusy = true;
      await expect(dial(store)).rejects.toThrow();
      isBusy = false;
      const last = await dial(store);
      expect([last.id, last.isRebuilt, sessions.length]).toEqual([id, true, 1]);
      await last.close();
      await expect.poll(() => store.entry).toBeUndefined();
    },
  );

  it('learns which requests were interrupted, in a task after connect', async () => {
    let reason: unknown;
    const { dial } = await serve({
      onRequest: async (request, { signal, runToCompletion }) => {
        if (request.text === 'kept') runToCompletion();
        await new Promise((resolve) => {
          signal.addEventListener('abort', resolve);
          if (request.text === 'now') resolve(undefined);
        });
        if (request.text !== 'now') reason = signal.reason;
        return 'answer';
      },
    });
    const store = new MemoryStore();
    const first = await dial(store);
    const asked = [first.request('stopped'), first.request('kept')];
    for (const each of asked) each.catch(() => {});
    await first.flush();
    await first.detach();
    for (const each of asked) await expect(each).rejects.toMatchObject({ code: 'session_closed' });
    const second = await dial(store);
    const resets: SessionReset[] = [];
    second.on('reset', (event) => resets.push(event));
    await expect
      .poll(() => resets)
      .toEqual([
        {
          code: 'reloaded',
          reason: 'the page was loaded again',
          notSent: [],
          unknown: [{ kind: 'request', streamId: 1 }],
        },
      ]);
    expect(reason).toMatchObject({ code: 'interrupted' });
    expect((await second.request('now')).text).toBe('answer');
  });

  it.each([
    ['with', () => ({ principal: 'ada' })],
    ['without', undefined],
  ])('continues with its kept replies, %s authentication', async (_how, authenticate) => {
    let release = (): void => {};
    const released = new Promise<void>((resolve) => {
      release = resolve;
    });
    const aborted: string[] = [];
    const { dial } = await serve({
      ...(authenticate && { authenticate }),
      async *onRequest(request, { keep, signal }) {
        if (request.text === 'kept') keep({ name: 'chat' });
        signal.addEventListener('abort', () => aborted.push(request.text));
        yield 'before ';
        await released;
        yield 'after';
      },
    });
    const store = new MemoryStore();
    const first = await dial(store);
    const replies = ['kept', 'other'].map((text) => first.stream(text));
    for (const reply of replies) {
      const reader = reply[Symbol.asyncIterator]();
      expect((await reader.next()).value?.text).toBe('before ');
      reader.next().catch(() => {});
    }
    const position = replies[0]?.position ?? 0;
    await first.detach();

    const second = await dial(store);
    const resets: SessionReset[] = [];
    second.on('reset', (reset) => resets.push(reset));
    await expect
      .poll(() => resets)
      .toEqual([
        {
          code: 'reloaded',
          reason: 'the page was loaded again',
          notSent: [],
          unknown: [{ kind: 'request', streamId: replies[1]?.id }],
        },
      ]);
    expect(aborted).toEqual(['other']);
    expect(await second.replies()).toEqual([
      expect.objectContaining({ id: replies[0]?.keptId, name: 'chat', state: 'running', isOwn: true }),
    ]);
    const rest: string[] = [];
    const following = (async () => {
      for await (const part of second.follow('chat', { after: position })) rest.push(part.text);
    })();
    release();
    await following;
    expect(rest).toEqual(['after']);
    expect(aborted).toEqual(['other']);
  });

  it('interrupts requests and tensors of the server', async () => {
    const failures: unknown[] = [];
    const { dial } = await serve({
      async onSession(session) {
        const asked = session.request('never answered').catch((error) => failures.push(error.code));
        const data = async function* () {
          yield new Uint8Array(4);
          await new Promise(() => {});
        };
        const tensor = {
          data: data(),
          byteLength: 8,
          dtype: 'float32',
          shape: [2],
          payloadType: 'hidden_state',
        } as const;
        await Promise.all([asked, session.sendTensor(tensor).catch((error) => failures.push(error.code))]);
      },
    });
    const store = new MemoryStore();
    const heard: string[] = [];
    const onRequest = (request: { text: string }) => {
      heard.push(request.text);
      return new Promise<undefined>(() => {});
    };
    const first = await dial(store, { onRequest });
    await expect.poll(() => heard).toEqual(['never answered']);
    await first.detach();
    await dial(store, { onRequest });
    await expect.poll(() => failures).toEqual(['interrupted', 'interrupted']);
  });

  it('is gone for an agent that had asked it, and gets its messages once', async () => {
    const who: Record<string, string> = { a: 'asker', b: 'page' };
    const { dial, lines } = await serve({
      authenticate: ({ token }) => ({ principal: 'acme', agentId: who[token ?? ''] }),
    });
    const store = new MemoryStore();
    const asker = await dial(undefined, { token: 'a', agentId: 'asker' });
    const heard: string[] = [];
    const onRequest = (request: { text: string }) => {
      heard.push(request.text);
      return new Promise<undefined>(() => {});
    };
    const more = { token: 'b', agentId: 'page', onRequest };
    const first = await dial(store, more);
    const reports: unknown[] = [];
    asker.on('undelivered', (report) => reports.push(report));
    const asked = asker.request('a question', { to: 'page' });
    asked.catch(() => {});
    await expect.poll(() => heard).toEqual(['a question']);
    await asker.send('one', { to: 'page' });
    expect(await next(first)).toBe('one');
    await first.detach();
    for (const text of ['two', 'three']) await asker.send(text, { to: 'page' });
    const second = await dial(store, more);
    expect(second.isRebuilt).toBe(true);
    await expect(asked).rejects.toMatchObject({
      code: 'peer_gone',
      message: expect.stringContaining('loaded again'),
    });
    expect([await next(second), await next(second)]).toEqual(['two', 'three']);
    await asker.send('four', { to: 'page' });
    expect(await next(second)).toBe('four');
    expect(reports).toEqual([]);
    expect(lines).not.toContain('session.crashed');
  });

  it('has not to be its principal of before, but gets a new session', async () => {
    const { dial, sessions } = await serve({ authenticate: ({ token }) => ({ principal: token ?? '' }) });
    const store = new MemoryStore();
    const first = await dial(store, { token: 'anna' });
    await first.detach();
    const second = await dial(store, { token: 'berta' });
    expect([second.isRebuilt, second.id === first.id]).toEqual([false, false]);
    expect(store.entry.sessionId).toBe(second.id);
    expect(sessions.map(({ principal }) => principal)).toEqual(['anna', 'berta']);
  });

  it('gets a new session if the server has it no more', async () => {
    const { dial, sessions } = await serve({ timers: { reloadWindowMs: 0 } });
    const store = new MemoryStore();
    const first = await dial(store);
    await first.detach();
    await expect.poll(() => sessions[0]?.state).toBe('closed');
    const second = await dial(store);
    expect(second.isRebuilt).toBe(false);
    await second.send('one');
    expect(await next(second)).toBe('heard one');
  });

  it('gets a new session if another one is ahead of it with the same entry', async () => {
    const { dial } = await serve();
    const store = new MemoryStore();
    const first = await dial(store);
    await first.detach();
    const copy = new MemoryStore();
    for (const [key, value] of store.entries) copy.entries.set(key, value);
    const second = await dial(store);
    const third = await dial(copy);
    expect([second.isRebuilt, third.isRebuilt]).toEqual([true, false]);
    await second.send('one');
    await third.send('two');
    expect([await next(second), await next(third)]).toEqual(['heard one', 'heard two']);
  });
});

describe('an entry', () => {
  it('is not taken up if its process has not left the session, as another may have a copy of it', async () => {
    const { dial } = await serve();
    const store = new MemoryStore();
    const first = await dial(store);
    const copy = new MemoryStore();
    for (const [key, value] of store.entries) copy.entries.set(key, value);
    const second = await dial(copy);
    expect([second.isRebuilt, second.id === first.id]).toEqual([false, false]);
    await first.send('one');
    expect(await next(first)).toBe('heard one');
  });

  it('has no credentials, no query and no content, and stays when the session only reconnects', async () => {
    const { url, sessions } = await serve({ authenticate: () => ({ principal: 'anna' }) });
    const store = new MemoryStore();
    const session = await connect(`${url}?secret=query`, { WebSocket, store, token: 'secret-token' });
    open.push(session);
    await session.send('secret content');
    expect(await next(session)).toBe('heard secret content');
    await expect.poll(() => store.entry.received).toBe(1);
    const [[key, value]] = store.entries as unknown as [[string, string]];
    expect(key).toBe(`parlance:${new URL(url).origin}/session`);
    expect(value).not.toContain('secret');
    expect(value.length).toBeLessThan(512);
    const before = store.entry.token;
    serverEndpoint(sessions[0]).wire?.terminate?.();
    await expect.poll(() => store.entry.token === before).toBe(false);
    expect(store.entry).toMatchObject({ attempt: 1, detached: false });
    expect(sessions).toHaveLength(1);
  });

  it.each([
    ['not JSON', '{'],
    ['a list', '[]'],
    ['null', 'null'],
    ['another format', '{"format":2}'],
    [
      'too long',
      JSON.stringify({
        format: 1,
        sessionId: 's',
        token: 't',
        attempt: 0,
        received: 0,
        later: [],
        detached: true,
        x: 'x'.repeat(2_048),
      }),
    ],
    [
      'a bad count',
      '{"format":1,"sessionId":"s","token":"t","attempt":-1,"received":0,"later":[],"detached":true}',
    ],
    [
      'the last attempt',
      `{"format":1,"sessionId":"s","token":"t","attempt":${Number.MAX_SAFE_INTEGER},"received":0,"later":[],"detached":true}`,
    ],
    [
      'a bad list',
      '{"format":1,"sessionId":"s","token":"t","attempt":0,"received":0,"later":[1],"detached":true}',
    ],
    [
      'a bad token',
      '{"format":1,"sessionId":"s","token":{},"attempt":0,"received":0,"later":[],"detached":true}',
    ],
  ])('that is malformed is removed and ignored: %s', async (_name, text) => {
    const { dial, url } = await serve();
    const store = new MemoryStore();
    const lines: string[] = [];
    store.entries.set(`parlance:${new URL(url).origin}/session`, text);
    const removed = vi.spyOn(store, 'removeItem');
    const session = await dial(store, { logger: logTo(lines) });
    expect(session.isRebuilt).toBe(false);
    expect(removed).toHaveBeenCalledTimes(1);
    expect(lines.filter((event) => event === 'store.malformed')).toHaveLength(1);
    expect(store.entry.sessionId).toBe(session.id);
  });

  it('is for one session of a process at a time', async () => {
    const { dial } = await serve();
    const store = new MemoryStore();
    const lines: string[] = [];
    const first = await dial(store);
    const second = await dial(store, { logger: logTo(lines) });
    expect(lines).toContain('store.in_use');
    expect(store.entry.sessionId).toBe(first.id);
    await expect(second.detach()).rejects.toMatchObject({ code: 'unsupported' });
    await second.close();
    expect(store.entry.sessionId).toBe(first.id);
    await first.close();
    const third = await dial(store);
    expect(store.entry.sessionId).toBe(third.id);
  });

  it('is not written for a session that cannot be taken up', async () => {
    const { dial } = await serve({ features: [without('resume')] });
    const store = new MemoryStore();
    const lines: string[] = [];
    const session = await dial(store, { logger: logTo(lines) });
    expect(lines.filter((event) => event === 'store.unused')).toHaveLength(1);
    expect(store.entries.size).toBe(0);
    await expect(session.detach()).rejects.toMatchObject({ code: 'unsupported' });
    expect(session.state).toBe('established');
  });
});

describe('a store that fails', () => {
  const fail = () => {
    throw new Error('the quota is exceeded');
  };
  const never = () => new Promise<never>(() => {});
  const reject = () => Promise.reject(new Error('no database'));
  it.each([
    ['throws', { getItem: fail, setItem: fail, removeItem: fail }],
    ['rejects', { getItem: reject, setItem: reject, removeItem: reject }],
    ['never answers', { getItem: never, setItem: never, removeItem: never }],
    ['returns something else', { getItem: () => 7 as never, setItem: fail, removeItem: fail }],
  ] satisfies [string, SessionStore][])(
    'costs the take-up and not the session: it %s',
    async (_name, store) => {
      const { dial } = await serve();
      const lines: string[] = [];
      const session = await dial(store, { logger: logTo(lines) });
      await session.send('one');
      expect(await next(session)).toBe('heard one');
      await session.detach();
      expect(session.state).toBe('closed');
      expect(lines.filter((event) => event === 'store.failed')).toHaveLength(1);
    },
  );
});

describe('a page, as far as Node can act one', () => {
  /** Locks as the pages of one origin share them. */
  function createLocks() {
    const held = new Set<string>();
    const waiting: { name: string; run: () => void }[] = [];
    const start = (name: string, callback: () => Promise<void>) => {
      held.add(name);
      void callback().then(() => {
        held.delete(name);
        const at = waiting.findIndex((each) => each.name === name);
        if (at >= 0) waiting.splice(at, 1)[0]?.run();
      });
    };
    const request = (name: string, { signal }: { signal: AbortSignal }, callback: () => Promise<void>) =>
      new Promise<void>((_resolve, refuse) => {
        if (!held.has(name)) return start(name, callback);
        const each = { name, run: () => start(name, callback) };
        waiting.push(each);
        signal.addEventListener('abort', () => {
          waiting.splice(waiting.indexOf(each), 1);
          refuse(signal.reason);
        });
        return undefined;
      });
    return { held, request };
  }

  function actAsPage() {
    const window = new EventTarget();
    const locks = createLocks();
    vi.stubGlobal('window', window);
    vi.stubGlobal('document', Object.assign(new EventTarget(), { visibilityState: 'visible' }));
    vi.stubGlobal('navigator', { locks });
    const tell = (type: 'pagehide' | 'pageshow', persisted: boolean) =>
      window.dispatchEvent(Object.assign(new Event(type), { persisted }));
    return { locks, tell };
  }
  afterEach(() => {
    vi.unstubAllGlobals();
  });

  it('leaves its session in pagehide, and continues with it when it returns', async () => {
    const { locks, tell } = actAsPage();
    const { dial, sessions } = await serve();
    const store = new MemoryStore();
    const page = await dial(store);
    await expect.poll(() => [...locks.held]).toEqual([`parlance:${page.id}`]);
    tell('pagehide', true);
    expect(store.entry).toMatchObject({ sessionId: page.id, detached: true });
    await expect.poll(() => locks.held.size).toBe(0);
    await expect.poll(() => sessions[0]?.state).toBe('suspended');
    await sessions[0]?.send('meanwhile');
    tell('pageshow', true);
    expect(await next(page)).toBe('meanwhile');
    await expect.poll(() => [...locks.held]).toEqual([`parlance:${page.id}`]);
    expect([page.state, sessions.length]).toEqual(['established', 1]);
    expect(store.entry.detached).toBe(false);
  });

  it('gets a reset and a new session if another one has taken its session up', async () => {
    const { tell } = actAsPage();
    const { dial, sessions } = await serve();
    const store = new MemoryStore();
    const page = await dial(store);
    const { id } = page;
    const resets: SessionReset[] = [];
    page.on('reset', (event) => resets.push(event));
    tell('pagehide', true);
    const copy = new MemoryStore();
    for (const [key, value] of store.entries) copy.entries.set(key, value);
    const other = await dial(copy);
    expect([other.isRebuilt, other.id]).toEqual([true, id]);
    tell('pageshow', true);
    await expect.poll(() => page.state === 'established' && page.id !== id).toBe(true);
    expect(resets).toHaveLength(1);
    await other.send('one');
    expect(await next(other)).toBe('heard one');
    await page.send('two');
    expect(await next(page)).toBe('heard two');
    await expect.poll(() => sessions.length).toBe(2);
  });

  it('waits for a page that is just going away, and not for one that stays', async () => {
    const { tell } = actAsPage();
    const { dial } = await serve();
    const store = new MemoryStore();
    const page = await dial(store);
    const copy = () => {
      const other = new MemoryStore();
      for (const [key, value] of store.entries) other.entries.set(key, value);
      return other;
    };
    const duplicate = await dial(copy());
    expect([duplicate.isRebuilt, page.state]).toEqual([false, 'established']);
    await duplicate.close();
    const following = dial(copy());
    await pause(20);
    tell('pagehide', false);
    expect((await following).isRebuilt).toBe(true);
    tell('pageshow', true);
  });

  it('without a session that can be taken up is left as ever', async () => {
    const { tell } = actAsPage();
    const { dial, sessions } = await serve();
    const page = await dial(undefined);
    tell('pagehide', true);
    await pause(20);
    expect(page.state).toBe('established');
    tell('pagehide', false);
    await expect.poll(() => [page.state, sessions[0]?.state]).toEqual(['closed', 'closed']);
  });
});
