import { beforeEach, describe, expect, it } from 'vitest';
import { CloseCode } from '../base/close-codes.js';
import { Extension, Subprotocol } from '../base/constants.js';
import { resolveLimits, resolveTimers } from '../base/limits.js';
import { plainBody } from '../codec/body.js';
import { decodeControl, encodeControl } from '../control/envelope.js';
import { type HelloPayload, RejectCode, type ResumeAnswer, ResumeRefusal } from '../control/messages.js';
import { decodeLinkFrame, encodeSignalFrame, isCounted, LinkKind } from '../link/frame.js';
import {
  createSimulation,
  type End,
  eventsOf,
  type Simulation,
  type SimulationOptions,
  TEST_CAPABILITIES,
} from '../testing/simulation.js';
import { createSession } from './create.js';
import type { SessionCore } from './types.js';

/** A session that is resumed on another connection; chaos.test.ts does it in random histories. */

const LIMITS = resolveLimits();
const OPTIONS = {
  capabilities: {
    ...TEST_CAPABILITIES,
    extensions: {
      [Extension.LINK]: JSON.stringify({ message_window: 1_000, stream_window: 1_000 }),
      [Extension.RESUME]: '{}',
    },
  },
  timers: resolveTimers({ resumeWindowMs: 10_000 }),
};

let simulation: Simulation;
let client: End;
let server: End;
const begin = (options: SimulationOptions = { client: OPTIONS, server: OPTIONS }) => {
  simulation = createSimulation({ delayMs: 10, ...options });
  ({ client, server } = simulation);
  simulation.advance(100);
  expect([client.core.state, server.core.state]).toEqual(['established', 'established']);
};
beforeEach(() => begin());

const body = (size = 10) => plainBody(new Uint8Array(size));
const reconnect = () => {
  simulation.reconnect();
  simulation.advance(100);
};

/** The HELLO of a client on its next connection. */
function nextHello(core: SessionCore = client.core): HelloPayload {
  core.handleConnected(simulation.now);
  const message = decodeControl(core.pollTransmit() as Uint8Array, LIMITS);
  core.handleDisconnected(CloseCode.ABNORMAL, '', simulation.now);
  if (message.type !== 'HELLO') throw new Error(`not HELLO but ${message.type}`);
  return message.payload;
}
const check = (hello: HelloPayload, subprotocol: Subprotocol = Subprotocol.BINARY) =>
  server.core.checkResume(hello, subprotocol);
const isCountedFrame = (frame: Uint8Array | string) =>
  typeof frame !== 'string' && (frame[0] ?? 0) >> 4 === 1 && isCounted(((frame[0] ?? 0) & 0x0f) as LinkKind);

describe('a session that is resumed', () => {
  it('writes again what the peer has not received, the same bytes in the same order, before anything new', () => {
    for (const size of [10, 20, 30]) client.core.channel.send(body(size));
    simulation.settle();
    const lost = client.sent.filter(isCountedFrame);
    simulation.cut();
    client.core.channel.send(body(40));
    const before = client.sent.length;
    reconnect();
    const again = client.sent.slice(before).filter(isCountedFrame);
    expect(again.slice(0, 3)).toEqual(lost);
    expect(eventsOf(server, 'message').map((event) => event.body.bytes.length)).toEqual([10, 20, 30, 40]);
  });

  it('writes nothing again that the peer has received, even without an acknowledgement', () => {
    client.core.channel.send(body());
    simulation.advance(10);
    expect(client.core.channel.framesUnconfirmed).toBe(1);
    simulation.cut();
    const before = client.sent.length;
    reconnect();
    expect(client.sent.slice(before).filter(isCountedFrame)).toEqual([]);
    expect(eventsOf(server, 'message')).toHaveLength(1);
    expect(client.core.channel.framesUnconfirmed).toBe(0);
  });

  it('continues if credit was granted while the connection was lost', () => {
    // Two messages fill the window; the third waits.
    for (let i = 0; i < 3; i++) client.core.channel.send(body(400));
    simulation.advance(300);
    expect(client.core.isBlockedOnCredit).toBe(true);
    simulation.cut();
    for (const { body: whole } of eventsOf(server, 'message')) server.core.channel.consume(0, whole.charge);
    reconnect();
    expect(eventsOf(server, 'message')).toHaveLength(3);
  });

  it('keeps its agreement, its ID and its open streams, and no handler notices', () => {
    const { id, negotiated } = client.core;
    const stream = client.core.channel.request(body());
    simulation.advance(20);
    simulation.cut();
    server.core.channel.chunk(stream, body());
    reconnect();
    server.core.channel.end(stream);
    simulation.advance(20);
    expect(client.core.id).toBe(id);
    expect(client.core.negotiated).toBe(negotiated);
    expect([eventsOf(client, 'part').length, eventsOf(client, 'end').length]).toEqual([1, 1]);
    expect(eventsOf(server, 'cancel')).toEqual([]);
  });

  it('acknowledges at once, which revokes the previous token', () => {
    simulation.cut();
    const former = nextHello();
    const before = client.sent.length;
    simulation.reconnect();
    simulation.advance(10);
    // Accepted, and the client does not know yet: either token is valid.
    expect(check({ ...former, resume: { ...former.resume, attempt: 99 } as never })).toBeUndefined();
    simulation.advance(10);
    expect(client.sent.slice(before).map((frame) => frame[0])).toContain(0x10 | LinkKind.ACK);
    simulation.advance(10);
    expect(check({ ...former, resume: { ...former.resume, attempt: 99 } as never })).toBe(
      ResumeRefusal.UNKNOWN_SESSION,
    );
  });
});

describe('an attempt to resume a session', () => {
  it('is refused with another token, and learns nothing else', () => {
    simulation.cut();
    const hello = nextHello();
    expect(check(hello)).toBeUndefined();
    const resume = { ...hello.resume, token: 'x'.repeat(hello.resume?.token.length ?? 0) } as never;
    expect(check({ ...hello, resume })).toBe(ResumeRefusal.UNKNOWN_SESSION);
    expect(check({ ...hello, algorithms: [], resume }, Subprotocol.JSON)).toBe(ResumeRefusal.UNKNOWN_SESSION);
  });

  it('is refused with another offer or on another subprotocol', () => {
    simulation.cut();
    const hello = nextHello();
    expect(check({ ...hello, algorithms: ['NONE'] })).toBe(ResumeRefusal.OTHER_OFFER);
    expect(check(hello, Subprotocol.JSON)).toBe(ResumeRefusal.OTHER_OFFER);
  });

  it('makes the same offer with maps in another order and with JSON that is spelled differently', () => {
    const stated = {
      [Extension.LINK]: '{"message_window":1000,"stream_window":1000,"max_streams":8}',
      [Extension.RESUME]: '{}',
      other: '{"a":{"b":[1,2],"c":"\u00e9"},"d":null}',
      text: 'not JSON',
    };
    const capabilities = { ...TEST_CAPABILITIES, extensions: stated };
    begin({ client: { ...OPTIONS, capabilities }, server: OPTIONS });
    simulation.cut();
    const hello = nextHello();
    const said = (change: Partial<typeof stated>) =>
      check({
        ...hello,
        extensions: Object.fromEntries(Object.entries({ ...stated, ...change }).reverse()),
      });
    expect(said({})).toBeUndefined();
    expect(
      said({ link: '{ "max_streams": 8.0, "stream_window": 1e3,\n"message_window": 1000 }' }),
    ).toBeUndefined();
    expect(said({ other: '{"d":null,"a":{"c":"é","b":[1,2]}}' })).toBeUndefined();
    // The order of a list counts.
    expect(said({ other: '{"d":null,"a":{"c":"é","b":[2,1]}}' })).toBe(ResumeRefusal.OTHER_OFFER);
    expect(said({ text: '"not JSON"' })).toBe(ResumeRefusal.OTHER_OFFER);
    expect(said({ text: 'not  JSON' })).toBe(ResumeRefusal.OTHER_OFFER);
    expect(check({ ...hello, algorithms: [...hello.algorithms].reverse() })).toBe(ResumeRefusal.OTHER_OFFER);
  });

  it('is stale if the same or a newer one was accepted', () => {
    simulation.cut();
    const [first, second] = [nextHello(), nextHello()];
    expect([first.resume?.attempt, second.resume?.attempt]).toEqual([1, 2]);
    server.core.resume(second.resume as never, simulation.now);
    expect([check(first), check(second)]).toEqual(['stale_attempt', 'stale_attempt']);
    // The accepted connection was lost, and the client never received its token.
    server.core.handleDisconnected(CloseCode.ABNORMAL, '', simulation.now);
    expect(check(nextHello())).toBeUndefined();
  });

  it('is refused once the window has passed', () => {
    simulation.cut();
    const hello = nextHello();
    server.core.handleTimeout(simulation.now + 9_999);
    expect(check(hello)).toBeUndefined();
    server.core.handleTimeout(simulation.now + 10_000);
    expect(check(hello)).toBe(ResumeRefusal.UNKNOWN_SESSION);
  });
});

describe('a count of more frames than were written ends the session', () => {
  const lie = (count: number) => {
    simulation.cut();
    const hello = nextHello();
    server.core.resume({ ...hello.resume, received: count } as never, simulation.now);
    return server.core.lifecycle;
  };

  it('in a HELLO', () => {
    server.core.channel.send(body());
    simulation.settle();
    expect(lie(1)).toBe('established');
    begin();
    server.core.channel.send(body());
    simulation.settle();
    expect(lie(2)).toBe('failed');
    expect(check(nextHello())).toBe(ResumeRefusal.UNKNOWN_SESSION);
  });

  it('and so does one below what was acknowledged, which cannot be written again', () => {
    const acknowledged = () => {
      begin();
      for (let i = 0; i < 3; i++) server.core.channel.send(body());
      simulation.advance(1_000);
      expect(server.core.channel.framesConfirmed).toBe(3);
    };
    acknowledged();
    expect(lie(3)).toBe('established');
    acknowledged();
    expect(lie(2)).toBe('failed');
  });

  it('in the ACCEPT of a server', () => {
    const answer = (received: number) => {
      begin();
      for (let i = 0; i < 3; i++) client.core.channel.send(body());
      simulation.advance(1_000);
      expect(client.core.channel.framesConfirmed).toBe(3);
      const accept = decodeControl(server.sent[0] as Uint8Array, LIMITS);
      if (accept.type !== 'ACCEPT') throw new Error('no ACCEPT');
      simulation.cut();
      client.core.handleConnected(simulation.now);
      const resume = { ...(accept.payload.resume as ResumeAnswer), recovered: true, received };
      const payload = { ...accept.payload, resume };
      client.core.handleMessage(encodeControl({ ...accept, payload }), simulation.now);
      return client.core.lifecycle;
    };
    expect(answer(3)).toBe('established');
    expect(answer(2)).toBe('failed');
    expect(answer(4)).toBe('failed');
  });

  it('in an acknowledgement', () => {
    client.core.channel.send(body());
    simulation.settle();
    simulation.inject('server', encodeSignalFrame(LinkKind.ACK, 2));
    simulation.advance(10);
    expect(client.core.lifecycle).toBe('failed');
    expect(client.closedWith?.code).toBe(CloseCode.BAD_FRAME);
  });
});

describe('a client that waits for the answer', () => {
  it('treats a link frame before it as a violation', () => {
    simulation.cut();
    client.core.handleConnected(simulation.now);
    client.core.handleMessage(encodeSignalFrame(LinkKind.ACK, 0), simulation.now);
    expect(client.core.lifecycle).toBe('failed');
  });

  it('gives the connection up, but not the session, if none arrives', () => {
    begin({ client: { ...OPTIONS, timers: resolveTimers({ acceptTimeoutMs: 500 }) }, server: OPTIONS });
    simulation.cut();
    client.core.handleConnected(simulation.now);
    client.core.handleTimeout(simulation.now + 499);
    expect(client.core.pollEvent()).toBeUndefined();
    client.core.handleTimeout(simulation.now + 500);
    expect(client.core.pollEvent()).toMatchObject({ type: 'disconnect', closeCode: CloseCode.TIMEOUT });
    expect(client.core.state).toBe('suspended');
  });

  it.each([CloseCode.RATE_LIMITED, CloseCode.INTERNAL, CloseCode.DRAINING])(
    'tries again after %i, which says nothing about the session yet',
    (code) => {
      simulation.cut();
      client.core.handleConnected(simulation.now);
      client.core.handleDisconnected(code, '', simulation.now);
      expect(client.core.state).toBe('suspended');
      reconnect();
      expect(client.core.state).toBe('established');
      // Once the session is resumed, it does.
      client.core.handleDisconnected(code, '', simulation.now);
      expect(client.core.state).toBe('closed');
    },
  );

  it('gives a connection up whose server refuses for now and does not close it, and its window still ends', () => {
    begin({ client: { ...OPTIONS, timers: resolveTimers({ closingTimeoutMs: 500 }) }, server: OPTIONS });
    simulation.cut();
    const refuse = () => {
      client.core.handleConnected(simulation.now);
      const payload = { code: RejectCode.RATE_LIMITED, message: 'later', retryable: true };
      const reject = { type: 'REJECT', sessionId: null, timestamp: 1, payload } as const;
      client.core.handleMessage(encodeControl(reject), simulation.now);
    };
    refuse();
    client.core.handleTimeout(simulation.now + 500);
    expect(client.core.pollEvent()).toMatchObject({ type: 'disconnect', closeCode: CloseCode.TIMEOUT });
    expect(client.core.state).toBe('suspended');
    refuse();
    client.core.handleTimeout(simulation.now + 120_000);
    expect(client.core.state).toBe('closed');
  });

  it('tries again if its attempt is refused as stale: a copy of its HELLO has arrived before it', () => {
    simulation.cut();
    client.core.handleConnected(simulation.now);
    client.core.handleDisconnected(CloseCode.STALE_ATTEMPT, 'stale_attempt', simulation.now);
    expect(client.core.state).toBe('suspended');
    reconnect();
    expect([client.core.state, server.core.state]).toEqual(['established', 'established']);
    expect(eventsOf(client, 'ended')).toEqual([]);
  });
});

describe('credit that is advertised on another connection', () => {
  /** Credit that `end` advertises from frame `from` on, each with what it has written again by then. */
  const creditOf = (end: End, from: number) => {
    const requests = new Set<number>();
    const early: number[] = [];
    for (const frame of end.sent.slice(from)) {
      if (typeof frame === 'string' || (frame[0] ?? 0) >> 4 !== 1) continue;
      const { kind, streamId } = decodeLinkFrame(frame);
      if (kind === LinkKind.REQUEST) requests.add(streamId);
      if (kind === LinkKind.CREDIT && streamId !== 0 && streamId % 2 === (end === client ? 1 : 0)) {
        if (!requests.has(streamId)) early.push(streamId);
      }
    }
    return { requests, early };
  };

  it.each(['client', 'server'] as const)('names no stream of the %s before its request', (role) => {
    const [asking, asked] = role === 'client' ? [client, server] : [server, client];
    const ids = [asking.core.channel.request(body()), asking.core.channel.request(body())];
    simulation.advance(10);
    // One was answered in part, which was read; nothing of the other has arrived when the connection is lost.
    for (let i = 0; i < 30; i++) asked.core.channel.chunk(ids[0] as number, body());
    simulation.advance(10);
    for (const { streamId, body: part } of eventsOf(asking, 'part'))
      asking.core.channel.consume(streamId, part.charge);
    ids.push(asking.core.channel.request(body()));
    simulation.settle();
    simulation.cut();
    const before = asking.sent.length;
    reconnect();
    const { requests, early } = creditOf(asking, before);
    expect(requests).toEqual(new Set(ids.slice(2)));
    expect(early.filter((streamId) => requests.has(streamId))).toEqual([]);
    expect([client.core.state, server.core.state]).toEqual(['established', 'established']);
    for (const id of ids) asked.core.channel.end(id);
    simulation.advance(100);
    expect(eventsOf(asking, 'end').map(({ streamId }) => streamId)).toEqual(ids);
  });
});

it('a session with unlimited windows has no credit to advertise when it is resumed', () => {
  const unlimited = {
    ...OPTIONS,
    capabilities: {
      ...TEST_CAPABILITIES,
      extensions: { [Extension.LINK]: '{}', [Extension.RESUME]: '{}' },
    },
  };
  begin({ client: unlimited, server: unlimited });
  client.core.channel.send(body());
  simulation.advance(20);
  simulation.cut();
  reconnect();
  expect([client.core.state, server.core.state]).toEqual(['established', 'established']);
});

it('only a session without a connection can be resumed', () => {
  const fresh = createSession({
    ...OPTIONS,
    role: 'server',
    subprotocol: Subprotocol.BINARY,
    limits: LIMITS,
  });
  const offer = { sessionId: 's', token: '', received: 0, attempt: 1 };
  for (const core of [fresh, server.core]) {
    expect(() => core.resume(offer, 0)).toThrow(expect.objectContaining({ code: 'invalid_argument' }));
  }
});
