import { CloseCode, type ProtocolError } from '@parlance/protocol';
import { describe, expect, it } from 'vitest';
import { createBackoff } from './backoff.js';
import { Dialer, type DialerOptions } from './dialer.js';
import { type MemoryConnection, MemoryTransport } from './testing/memory-transport.js';
import { VirtualClock } from './testing/virtual-clock.js';

/** A dialer in virtual time, over connections that the test opens and closes. */

function setUp(given: Partial<DialerOptions> = {}, isAccepted = true, takesHello = false) {
  const clock = new VirtualClock();
  const transport = new MemoryTransport({ closesAtOnce: true, takesHello });
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
    transport,
    timers: { acceptTimeoutMs: 5_000 },
    firstTimeoutMs: 5_000,
    backoff: createBackoff({ minDelayMs: 100, maxDelayMs: 1_000 }, () => 0.5),
    clock,
    logger: { debug: warn, info: warn, warn, error: warn },
    askToken: async () => 'token',
    session,
    ...given,
  });
  const { connections } = transport;
  const open = () => connections.at(-1)?.open();
  return {
    dialer,
    session,
    connections,
    tokens,
    warnings,
    errors,
    pass: (ms: number) => clock.pass(ms),
    open,
    tasks: () => clock.tasks,
    now: () => clock.now(),
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
    const { dialer, pass, warnings, connections, tokens, open, tasks } = setUp({ askToken });
    dialer.retryLater(0);
    await pass(50);
    expect(answers.length).toBe(1);
    await pass(4_999);
    expect([answers.length, warnings]).toEqual([1, []]);
    await pass(1_000);
    expect([answers.length, warnings]).toEqual([2, ['token.failed']]);
    answers[1]?.('the second');
    await pass(0);
    expect(connections.length).toBe(1);
    open();
    expect([tokens, tasks()]).toEqual([['the second'], 0]);
  });

  it('is heard if it answers after all', async () => {
    const { answers, askToken } = silent();
    const { dialer, pass, connections, tokens, open } = setUp({ askToken });
    dialer.retryLater(0);
    await pass(6_000);
    expect(answers.length).toBe(2);
    answers[0]?.('the first');
    await pass(0);
    open();
    answers[1]?.('the second');
    await pass(60_000);
    expect([tokens, connections.length, answers.length]).toEqual([['the first'], 1, 2]);
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
    const { connections, pass, now } = bench;
    const found: number[] = [];
    while (found.length < count) {
      const { length } = connections;
      while (connections.length === length) await pass(10);
      const begun = now();
      while (connections.at(-1)?.isOver === false) await pass(10);
      found.push(now() - begun);
    }
    return found;
  };

  it('is twice as long after each attempt that has taken all of its time, up to 30 s, until one succeeds', async () => {
    const bench = setUp();
    const { dialer, session, connections, pass, open } = bench;
    dialer.retryLater(0);
    expect(await durations(bench, 5)).toEqual([5_000, 10_000, 20_000, 30_000, 30_000]);
    await pass(1_000);
    open();
    dialer.handleSuccess();
    await pass(100_000);
    connections.at(-1)?.lose();
    expect(session.needsWire).toBe(true);
    expect(await durations(bench, 2)).toEqual([5_000, 10_000]);
  });

  it('counts the time until an answer as well', async () => {
    const bench = setUp();
    const { dialer, connections, pass, open } = bench;
    dialer.retryLater(0);
    await pass(50);
    open();
    await pass(5_000);
    // As the session does when no answer to its HELLO comes.
    connections.at(-1)?.lose();
    expect(await durations(bench, 1)).toEqual([10_000]);
  });

  it('is not longer after an attempt that was refused, or for which there was no token', async () => {
    let fails = false;
    const askToken = async () => {
      if (fails) throw new Error('the identity provider is away');
      return 'token';
    };
    const bench = setUp({ askToken });
    const { dialer, connections, pass } = bench;
    dialer.retryLater(0);
    for (let refused = 0; refused < 5; refused++) {
      const { length } = connections;
      while (connections.length === length) await pass(10);
      connections.at(-1)?.lose();
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

describe('an attempt whose HELLO travels in its request', () => {
  const begin = (isAccepted: boolean) => {
    const bench = setUp({}, isAccepted, true);
    bench.session.hello = () => Uint8Array.of(0x80);
    bench.dialer.dial('token');
    return { ...bench, connection: bench.connections[0] as MemoryConnection };
  };

  it('is closed in order once it opens if it was the first and is not wanted any more', () => {
    const { dialer, connection, tokens, tasks } = begin(false);
    dialer.stop(CloseCode.DETACHED);
    expect(connection.isOver).toBe(false);
    connection.open();
    expect([connection.closedWith, tokens, tasks()]).toEqual([CloseCode.DETACHED, [], 0]);
  });

  it('keeps no process alive if it was a later one and is not wanted any more', () => {
    const { dialer, connection, tasks } = begin(true);
    dialer.stop(CloseCode.DETACHED);
    expect([connection.isOver, tasks()]).toEqual([true, 0]);
  });

  it('is followed at once by one without, which alone fails, if HELLO may be why it was refused', async () => {
    const { connections, connection, errors, tokens, pass } = begin(false);
    connection.lose();
    await pass(0);
    expect([connections.length, errors]).toEqual([2, []]);
    connections[1]?.lose();
    await pass(0);
    expect([connections.length, tokens]).toEqual([2, []]);
    expect(errors).toMatchObject([
      { code: 'connection_failed', message: 'cannot connect to ws://test/: the test has refused it' },
    ]);
  });

  it('says for how long it has waited, and what may be there, if nothing answers', async () => {
    const { connections, errors, pass } = begin(false);
    await pass(5_000);
    expect([connections.length, errors.map(({ message }) => message)]).toEqual([
      1,
      [
        'cannot connect to ws://test/: no answer within 5000 ms (acceptTimeoutMs); a test that does not open it gives none',
      ],
    ]);
  });
});

it('ends the session, and not the transport, if the session throws what it is told', () => {
  const crashes: unknown[] = [];
  const { dialer, session, connections } = setUp();
  const fault = () => {
    throw new Error('fault');
  };
  Object.assign(session, { crash: (error: Error) => crashes.push(error.message) });
  Object.assign(session, { handleConnected: fault, handleMessage: fault, handleDisconnected: fault });
  dialer.dial(undefined);
  connections[0]?.open();
  connections[0]?.receive('frame');
  connections[0]?.lose();
  expect(crashes).toEqual(['fault', 'fault', 'fault']);
});
