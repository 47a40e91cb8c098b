import { CloseCode, type ProtocolError, Subprotocol } from '@parlance/protocol';
import type { Clock } from '@parlance/protocol/internal';
import { describe, expect, it } from 'vitest';
import { Dialer, type DialerOptions } from './dialer.js';
import { createBackoff } from './reconnect.js';
import type { WebSocketLike } from './web-socket.js';

/** A dialer in virtual time, over sockets that the test opens and closes. */

type Listener = Parameters<WebSocketLike['addEventListener']>[1];

class TestSocket implements WebSocketLike {
  binaryType = '';
  isClosed = false;
  closeCode: number | undefined;
  readonly #listeners = new Map<string, Listener>();
  send(): void {}
  close(code = 1005): void {
    this.isClosed = true;
    this.closeCode = code;
    this.report('close', { code });
  }
  get protocol(): string {
    return '';
  }
  addEventListener(type: string, listener: Listener): void {
    this.#listeners.set(type, listener);
  }
  report(type: string, event: object = {}): void {
    this.#listeners.get(type)?.({ type, ...event });
  }
}

const settle = () => new Promise((resolve) => setImmediate(resolve));

function setUp(given: Partial<DialerOptions> = {}, isAccepted = true) {
  let now = 0;
  let tasks: { readonly at: number; readonly task: () => void }[] = [];
  const clock: Clock = {
    timeOrigin: 0,
    now: () => now,
    after(ms, task) {
      const one = { at: now + ms, task };
      tasks.push(one);
      return () => {
        tasks = tasks.filter((other) => other !== one);
      };
    },
    soon: () => {},
    yield: () => Promise.resolve(),
  };
  const pass = async (ms: number) => {
    const until = now + ms;
    await settle();
    for (;;) {
      const next = tasks.filter(({ at }) => at <= until).sort((a, b) => a.at - b.at)[0];
      if (next === undefined) break;
      tasks = tasks.filter((other) => other !== next);
      now = next.at;
      next.task();
      await settle();
    }
    now = until;
  };
  const sockets: TestSocket[] = [];
  const tokens: (string | undefined)[] = [];
  const warnings: unknown[] = [];
  const errors: ProtocolError[] = [];
  const warn = (fields: Readonly<Record<string, unknown>>) => void warnings.push(fields['event']);
  const session = {
    needsWire: true,
    isAccepted,
    hello: (): Uint8Array | undefined => undefined,
    probe: () => {},
    handleConnected(_wire: unknown, token: string | undefined) {
      session.needsWire = false;
      tokens.push(token);
    },
    handleMessage() {},
    handleWritable() {},
    handleDisconnected() {
      session.needsWire = true;
      dialer.retryLater(0);
    },
    abort: (error: ProtocolError) => void errors.push(error),
    crash: (error: unknown) => {
      throw error;
    },
  };
  const dialer: Dialer = new Dialer({
    url: new URL('ws://test'),
    subprotocol: Subprotocol.BINARY,
    WebSocket: class extends TestSocket {
      constructor() {
        super();
        sockets.push(this);
      }
    },
    timers: { acceptTimeoutMs: 5_000 },
    firstTimeoutMs: 5_000,
    backoff: createBackoff({ minDelayMs: 100, maxDelayMs: 1_000 }, () => 0.5),
    clock,
    logger: { debug: warn, info: warn, warn, error: warn },
    askToken: async () => 'token',
    session,
    ...given,
  });
  const open = () => sockets.at(-1)?.report('open');
  return {
    dialer,
    session,
    sockets,
    tokens,
    warnings,
    errors,
    pass,
    open,
    tasks: () => tasks.length,
    now: () => now,
  };
}

describe('a token function that does not answer', () => {
  const silent = () => {
    const answers: ((token: string) => void)[] = [];
    const askToken = () => new Promise<string>((resolve) => answers.push(resolve));
    return { answers, askToken };
  };

  it('is asked again, and counts as one that has failed', async () => {
    const { answers, askToken } = silent();
    const { dialer, pass, warnings, sockets, tokens, open, tasks } = setUp({ askToken });
    dialer.retryLater(0);
    await pass(50);
    expect(answers.length).toBe(1);
    await pass(4_999);
    expect([answers.length, warnings]).toEqual([1, []]);
    await pass(1_000);
    expect([answers.length, warnings]).toEqual([2, ['token.failed']]);
    answers[1]?.('the second');
    await pass(0);
    expect(sockets.length).toBe(1);
    open();
    expect([tokens, tasks()]).toEqual([['the second'], 0]);
  });

  it('is heard if it answers after all', async () => {
    const { answers, askToken } = silent();
    const { dialer, pass, sockets, tokens, open } = setUp({ askToken });
    dialer.retryLater(0);
    await pass(6_000);
    expect(answers.length).toBe(2);
    answers[0]?.('the first');
    await pass(0);
    open();
    answers[1]?.('the second');
    await pass(60_000);
    expect([tokens, sockets.length, answers.length]).toEqual([['the first'], 1, 2]);
  });

  it('fails an attempt if no server has accepted a session', async () => {
    const { askToken } = silent();
    const { dialer, pass, errors } = setUp({ askToken }, false);
    dialer.retryLater(0);
    await pass(6_000);
    expect(errors).toMatchObject([{ code: 'connection_failed', cause: { code: 'timeout' } }]);
  });

  it('is asked no more once no connection is wanted', async () => {
    const { answers, askToken } = silent();
    const { dialer, pass, warnings, tasks } = setUp({ askToken });
    dialer.retryLater(0);
    await pass(50);
    // The page is back while the function has not answered.
    dialer.handleBack();
    await pass(0);
    expect(answers.length).toBe(2);
    dialer.stop(CloseCode.NORMAL);
    expect(tasks()).toBe(0);
    await pass(60_000);
    expect([answers.length, warnings]).toEqual([2, []]);
  });
});

describe('the limit of an attempt', () => {
  /** How long each of the next attempts takes, if none of them gets an answer. */
  const durations = async (bench: ReturnType<typeof setUp>, count: number) => {
    const { sockets, pass, now } = bench;
    const found: number[] = [];
    while (found.length < count) {
      const { length } = sockets;
      while (sockets.length === length) await pass(10);
      const begun = now();
      while (sockets.at(-1)?.isClosed === false) await pass(10);
      found.push(now() - begun);
    }
    return found;
  };

  it('is twice as long after each attempt that has taken all of its time, up to 30 s, until one succeeds', async () => {
    const bench = setUp();
    const { dialer, session, sockets, pass, open } = bench;
    dialer.retryLater(0);
    expect(await durations(bench, 5)).toEqual([5_000, 10_000, 20_000, 30_000, 30_000]);
    await pass(1_000);
    open();
    dialer.handleSuccess();
    await pass(100_000);
    sockets.at(-1)?.close();
    expect(session.needsWire).toBe(true);
    expect(await durations(bench, 2)).toEqual([5_000, 10_000]);
  });

  it('counts the time until an answer as well', async () => {
    const bench = setUp();
    const { dialer, sockets, pass, open } = bench;
    dialer.retryLater(0);
    await pass(50);
    open();
    await pass(5_000);
    // As the session does when no answer to its HELLO comes.
    sockets.at(-1)?.close();
    expect(await durations(bench, 1)).toEqual([10_000]);
  });

  it('is not longer after an attempt that was refused, or for which there was no token', async () => {
    let fails = false;
    const askToken = async () => {
      if (fails) throw new Error('the identity provider is away');
      return 'token';
    };
    const bench = setUp({ askToken });
    const { dialer, sockets, pass } = bench;
    dialer.retryLater(0);
    for (let refused = 0; refused < 5; refused++) {
      const { length } = sockets;
      while (sockets.length === length) await pass(10);
      sockets.at(-1)?.close();
    }
    fails = true;
    await pass(20_000);
    fails = false;
    expect(await durations(bench, 1)).toEqual([5_000]);
  });

  it('is at least the one that was set', async () => {
    const bench = setUp({ timers: { acceptTimeoutMs: 60_000 } });
    bench.dialer.retryLater(0);
    expect(await durations(bench, 2)).toEqual([60_000, 60_000]);
  });
});

describe('an attempt whose HELLO travels in its request, and that is not wanted any more', () => {
  const begin = (isAccepted: boolean) => {
    const bench = setUp({ earlyHello: true }, isAccepted);
    bench.session.hello = () => new Uint8Array(1);
    bench.dialer.dial('token');
    bench.dialer.stop(CloseCode.DETACHED);
    return { ...bench, socket: bench.sockets[0] as TestSocket };
  };

  it('is closed in order once it opens if it was the first', () => {
    const { socket, tokens, tasks } = begin(false);
    expect(socket.isClosed).toBe(false);
    socket.report('open');
    expect([socket.closeCode, tokens, tasks()]).toEqual([CloseCode.DETACHED, [], 0]);
  });

  it('keeps no process alive if it was a later one', () => {
    const { socket, tasks } = begin(true);
    expect([socket.isClosed, tasks()]).toEqual([true, 0]);
  });
});
