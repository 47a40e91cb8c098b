import type { IncomingMessage } from 'node:http';
import {
  CloseCode,
  type ControlMessage,
  decodeControl,
  Extension,
  encodeControl,
  type HelloPayload,
  type ResumeOffer,
  Subprotocol,
} from '@parlance/protocol';
import { SessionMailbox, SILENT_LOGGER } from '@parlance/protocol/internal';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { InstalledFeatures, type ServerOfFeatures } from '../../server/features/installed-features.js';
import { NODE, nodeInMemory, type OwnHooks } from '../../server/features/own-feature.js';
import { resolveServerOptions, type ServerOptions } from '../../server/server-options.js';
import { Sessions } from '../../server/sessions.js';
import type { Transport, TransportEvents } from '../../transport/transport.js';
import type { ProxyTarget } from './lookup.js';

/** Connections without sockets: what is answered to their HELLO, and whether a session is made for it. */

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

class FakeTransport implements Transport {
  readonly overhead = 14;
  readonly bufferedAmount = 0;
  readonly traffic = { sent: 0, received: 0 };
  readonly frames: Uint8Array[] = [];
  closed: [number, string] | undefined;
  isTerminated = false;
  holds = 0;
  #events: TransportEvents | undefined;

  listen(events: TransportEvents): void {
    this.#events = events;
  }
  send(frame: Uint8Array | string): void {
    this.traffic.sent += frame.length;
    this.frames.push(Uint8Array.from(frame as Uint8Array));
  }
  close(code: number, reason: string): void {
    this.closed ??= [code, reason];
  }
  terminate(): void {
    this.isTerminated = true;
  }
  hold(): void {
    this.holds++;
  }
  unhold(): void {
    this.holds--;
  }

  receive(size: number): void {
    this.traffic.received += size;
    this.#events?.onData(size);
  }
  say(data: Uint8Array): void {
    this.traffic.received += data.length;
    this.#events?.onMessage(data, data.length);
    this.#events?.onData(data.length);
  }
  end(code: number): void {
    this.#events?.onClose(code, '');
  }
  /** The first message of a type that was sent. */
  answer<Type extends ControlMessage['type']>(type: Type): Extract<ControlMessage, { readonly type: Type }> {
    // Link frames follow ACCEPT.
    for (const frame of this.frames) {
      const message = decodeControl(frame);
      if (message.type === type) return message as ReturnType<typeof this.answer<Type>>;
    }
    throw new Error(`no ${type} was sent`);
  }
}

function serve(options: ServerOptions = {}, feature: OwnHooks = {}) {
  const counts = { made: 0, ended: 0 };
  const making = { fail: false };
  const counting: OwnHooks = {
    extensions: [Extension.LINK, Extension.RESUME],
    endpoint: {
      createMailbox() {
        if (making.fail) throw new Error('no mailbox');
        counts.made++;
        return new SessionMailbox();
      },
    },
    ended: () => void counts.ended++,
  };
  const resolved = { ...resolveServerOptions(options), logger: SILENT_LOGGER };
  const features = [
    { name: 'counting', install: () => counting },
    { name: 'given', install: () => feature },
  ];
  const sessions = new Sessions(
    resolved,
    () => new InstalledFeatures(features, {} as ServerOfFeatures, SILENT_LOGGER, [[NODE, nodeInMemory()]]),
    () => undefined,
  );
  const request = { headers: {} } as IncomingMessage;
  const open = (hello?: Uint8Array) => {
    const transport = new FakeTransport();
    sessions.begin(transport, { ip: '127.0.0.1', request }, Subprotocol.BINARY, undefined, hello);
    return transport;
  };
  return { sessions, counts, making, open };
}

function hello(resume?: ResumeOffer, algorithms: readonly string[] = ['NONE']): Uint8Array {
  const payload: HelloPayload = {
    shape: 'flat',
    version: '1.0',
    algorithms: algorithms as HelloPayload['algorithms'],
    encodings: [],
    preferredEncoding: null,
    securityScanning: false,
    maxPayloadSize: 0,
    supportsStreaming: false,
    agentId: undefined,
    extensions: { link: '{}', resume: '{}' },
    auth: undefined,
    resume,
  };
  return encodeControl({ type: 'HELLO', payload, sessionId: null, timestamp: 0 });
}

/** The answer waits for `authenticate` at least. */
const settled = () => vi.advanceTimersByTimeAsync(0);

async function accepted(open: () => FakeTransport) {
  const transport = open();
  transport.say(hello());
  await settled();
  const { sessionId, payload } = transport.answer('ACCEPT');
  const { token } = payload.resume as { token: string };
  return { transport, sessionId: sessionId as string, token };
}

describe('a session is made', () => {
  it('once for a client that is accepted, and not for one that resumes', async () => {
    const { counts, open, sessions } = serve();
    const { transport, sessionId, token } = await accepted(open);
    expect(counts).toEqual({ made: 1, ended: 0 });
    transport.end(CloseCode.ABNORMAL);
    for (let attempt = 1; attempt <= 3; attempt++) {
      const again = open();
      again.say(hello({ sessionId, token, received: 0, attempt }));
      await settled();
      expect(again.answer('ACCEPT').payload.resume?.recovered).toBe(true);
      again.end(CloseCode.ABNORMAL);
    }
    expect(counts).toEqual({ made: 1, ended: 0 });
    expect([sessions.connections.size, sessions.greetings.size]).toEqual([1, 0]);
  });

  it('neither for a client that is refused, nor for one that is proxied to another node', async () => {
    const proxy = { memory: undefined, handleDisconnected() {}, onHandedOver() {} } as unknown as ProxyTarget;
    const { counts, open } = serve(
      {},
      {
        async lookup({ onProxied }): Promise<'done'> {
          onProxied(proxy);
          return 'done';
        },
      },
    );
    const refused = open();
    refused.say(hello(undefined, []));
    await settled();
    expect(refused.answer('REJECT').payload.code).toBe('NO_COMMON_ALGORITHM');
    expect(refused.closed?.[0]).toBe(CloseCode.BAD_FRAME);
    const proxied = open();
    proxied.say(hello({ sessionId: 'elsewhere', token: 'a token', received: 0, attempt: 1 }));
    await settled();
    expect([proxied.frames, proxied.closed]).toEqual([[], undefined]);
    expect(counts).toEqual({ made: 0, ended: 0 });
  });
});

describe('a client that is not answered', () => {
  it('is cut off if it sends one byte too much before ACCEPT', () => {
    const { open, sessions } = serve();
    const transport = open();
    transport.receive(64 * 1024 + 4 * 1024);
    expect([transport.closed, transport.holds]).toEqual([undefined, 0]);
    transport.receive(1);
    expect(transport.closed?.[0]).toBe(CloseCode.TOO_LARGE);
    expect([transport.holds, sessions.greetings.size]).toEqual([1, 0]);
  });

  it('has what came with the upgrade counted among these bytes', async () => {
    const authenticate = () => new Promise<null>(() => {});
    const { open } = serve({ authenticate });
    const early = hello();
    const transport = open(early);
    transport.receive(64 * 1024 + 4 * 1024 - early.length);
    expect(transport.closed).toBeUndefined();
    transport.receive(1);
    expect(transport.closed?.[0]).toBe(CloseCode.TOO_LARGE);
  });

  it('has as long as the options say to send HELLO, and then for its answer', async () => {
    const timers = { helloTimeoutMs: 400, acceptTimeoutMs: 800 };
    const { open, counts } = serve({ timers, authenticate: () => new Promise<null>(() => {}) });
    const silent = open();
    const waiting = open();
    waiting.say(hello());
    await vi.advanceTimersByTimeAsync(390);
    expect([silent.closed, waiting.closed]).toEqual([undefined, undefined]);
    await vi.advanceTimersByTimeAsync(200);
    expect(silent.closed).toEqual([CloseCode.TIMEOUT, 'timeout: no HELLO within 400 ms']);
    expect(waiting.closed).toBeUndefined();
    await vi.advanceTimersByTimeAsync(400);
    const late = 'timeout: the server did not answer HELLO within 800 ms';
    expect(waiting.closed).toEqual([CloseCode.TIMEOUT, late]);
    // It has sent nothing, so it gets a second to read why.
    expect([silent.isTerminated, waiting.isTerminated]).toEqual([false, false]);
    await vi.advanceTimersByTimeAsync(1_000);
    expect([silent.isTerminated, waiting.isTerminated]).toEqual([true, false]);
    expect(counts.made).toBe(0);
  });

  it('is told once that its answer takes time', async () => {
    const timers = { acceptTimeoutMs: 60_000 };
    const { open } = serve({ timers, authenticate: () => new Promise<null>(() => {}) });
    const transport = open();
    transport.say(hello());
    await vi.advanceTimersByTimeAsync(1_900);
    expect(transport.frames).toEqual([]);
    await vi.advanceTimersByTimeAsync(7_000);
    expect(transport.frames.map((frame) => Buffer.from(frame).includes('WAIT'))).toEqual([true]);
  });

  it('may send HELLO once', async () => {
    const { open } = serve({ authenticate: () => new Promise<null>(() => {}) });
    const transport = open();
    transport.say(hello());
    transport.say(hello());
    const reason = 'protocol_violation: HELLO may be sent only once on a connection';
    expect(transport.closed).toEqual([CloseCode.BAD_FRAME, reason]);
  });

  it('is closed with the server, and hears nothing after that', async () => {
    let answer = (_identity: { principal: string }) => {};
    const authenticate = () =>
      new Promise<{ principal: string }>((resolve) => {
        answer = resolve;
      });
    const { open, sessions, counts } = serve({ authenticate });
    const transport = open();
    transport.say(hello());
    await settled();
    await sessions.closeAll(true);
    expect(transport.closed?.[0]).toBe(CloseCode.DRAINING);
    answer({ principal: 'ada' });
    await settled();
    expect([transport.frames, counts.made]).toEqual([[], 0]);
  });

  it('has its bytes counted, unless a session has the connection', async () => {
    const { open, sessions } = serve();
    const refused = open();
    const bytes = hello(undefined, []);
    refused.say(bytes);
    await settled();
    const { sent } = refused.traffic;
    expect(sent).toBeGreaterThan(0);
    expect(sessions.unserved).toEqual({ sent, received: bytes.length });
    const left = open();
    left.receive(7);
    left.end(CloseCode.ABNORMAL);
    expect(sessions.unserved).toEqual({ sent, received: bytes.length + 7 });
    await accepted(open);
    expect(sessions.unserved).toEqual({ sent, received: bytes.length + 7 });
  });
});

describe('a session that a feature does not let begin', () => {
  const limits = { sessionsPerIp: 1 };

  it.each([
    ['refuses', CloseCode.FORBIDDEN],
    ['throws', CloseCode.INTERNAL],
  ] as const)('is not made when the feature %s, and counts no more', async (how, closeCode) => {
    let isOpen = false;
    const admit = () => {
      if (isOpen) return undefined;
      if (how === 'throws') throw new Error('a broken feature');
      return { code: 'SECURITY_POLICY', message: 'no', closeCode: CloseCode.FORBIDDEN } as const;
    };
    const { open, counts, sessions } = serve({ limits }, { admit });
    for (let round = 1; round <= 2; round++) {
      const transport = open();
      transport.say(hello());
      await settled();
      expect(transport.closed?.[0]).toBe(closeCode);
      expect(counts).toEqual({ made: 0, ended: 0 });
    }
    expect([sessions.connections.size, sessions.greetings.size]).toEqual([0, 0]);
    isOpen = true;
    await accepted(open);
    const second = open();
    second.say(hello());
    await settled();
    expect(second.answer('REJECT').payload.code).toBe('RATE_LIMITED');
  });

  it('counts no more either if it could not be made', async () => {
    const server = serve({ limits });
    server.making.fail = true;
    const transport = server.open();
    transport.say(hello());
    await settled();
    expect(transport.closed).toEqual([CloseCode.INTERNAL, 'internal: the session failed']);
    server.making.fail = false;
    await accepted(server.open);
  });
});
