import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { CloseCode } from '../base/close-codes.js';
import { Extension, Subprotocol } from '../base/constants.js';
import { resolveLimits, resolveTimers } from '../base/limits.js';
import { encodeUtf8 } from '../base/text.js';
import { BodyCodec, type CodedBody, plainBody } from '../codec/body.js';
import type { ContextEncoder } from '../codec/context/encoder.js';
import { helloOf } from '../control/agreement.js';
import { decodeControl, encodeControl } from '../control/envelope.js';
import {
  type AcceptPayload,
  CloseReason,
  type HelloPayload,
  MAX_CANCELLED,
  type ResumeAnswer,
} from '../control/messages.js';
import {
  createSimulation,
  type End,
  eventsOf,
  type Simulation,
  TEST_CAPABILITIES,
} from '../testing/simulation.js';
import { platform } from '../testing/this-platform.js';
import type { Ticket } from './resume-ticket.js';
import type { SessionOptions } from './types.js';

/** A page that was loaded again and takes its session up; take-up-history.test.ts does it in random histories. */

beforeAll(() => platform.loadZstd());

const LIMITS = resolveLimits();
/** Charges that stream 0, and each other stream, may have unread. */
const WINDOW = 1_000;
const EXTENSIONS = {
  [Extension.LINK]: JSON.stringify({ message_window: WINDOW, stream_window: WINDOW, max_streams: 4 }),
  [Extension.RESUME]: '{}',
  [Extension.REBUILD]: '1',
  [Extension.CONTEXT]: '{"max_bytes":100000,"max_messages":4}',
  [Extension.AGENTS]: '{}',
};
const optionsOf = (extensions: Readonly<Record<string, string>> = EXTENSIONS) => ({
  capabilities: { ...TEST_CAPABILITIES, extensions },
  timers: resolveTimers({ resumeWindowMs: 10_000, reloadWindowMs: 4_000 }),
});

let simulation: Simulation;
let server: End;
const begin = (client: Partial<SessionOptions> = optionsOf(), own: Partial<SessionOptions> = optionsOf()) => {
  simulation = createSimulation({ delayMs: 10, client, server: own });
  server = simulation.server;
  simulation.advance(100);
  expect([simulation.client.core.state, server.core.state]).toEqual(['established', 'established']);
};
beforeEach(() => begin());

const page = () => simulation.client;
const reload = (ticket?: Partial<Ticket>) => {
  simulation.reload(ticket);
  simulation.advance(100);
};
const ticket = () => page().core.ticket as Ticket;
const body = (size = 10, first = 0) => plainBody(new Uint8Array(size).fill(first, 0, 1));
const firstBytes = (end: End) => eventsOf(end, 'message').map((event) => event.body.bytes[0]);
const contents = (end: End) =>
  eventsOf(end, 'message').map(({ body: { content, bytes } }) => new TextDecoder().decode(content ?? bytes));
/** The last ACCEPT that the server has sent. */
const lastAccept = (): AcceptPayload => {
  const accepts = server.sent.flatMap((frame) => {
    if ((frame[0] as number) >> 4 !== 8) return [];
    const message = decodeControl(frame as Uint8Array, LIMITS);
    return message.type === 'ACCEPT' ? [message.payload] : [];
  });
  return accepts.at(-1) as AcceptPayload;
};
/** Reads everything that has arrived on stream 0 from index `from` on. */
const read = (end: End, from = 0) => {
  for (const event of eventsOf(end, 'message').slice(from)) end.core.channel.consume(0, event.body.charge);
};
/** Whether the present page has its former session. */
const isTakenUp = () => eventsOf(page(), 'takenUp').length === 1 && page().core.id === 'sess_test';

/** A message that is coded against the one that it resembles, even if that saves nothing. */
function inContext(text: string): CodedBody {
  const content = encodeUtf8(text);
  return {
    ...plainBody(content),
    deferred: {
      encode(encoder: ContextEncoder, streamId) {
        const offer = encoder.code(content, encoder.match(content, streamId, false), false);
        return { codec: BodyCodec.CONTEXT, bytes: offer.bytes, originalLength: content.length, offer };
      },
    },
  };
}

describe('a page that takes its session up', () => {
  it('has its ID and its agreement, and counts from 0 like the server', () => {
    const { id, negotiated } = page().core;
    for (let i = 0; i < 3; i++) server.core.channel.send(body());
    for (let i = 0; i < 2; i++) page().core.channel.send(body());
    simulation.advance(1_000);
    reload();
    expect([page().core.id, page().core.negotiated]).toEqual([id, negotiated]);
    expect([page().core.state, server.core.state]).toEqual(['established', 'established']);
    expect(lastAccept().resume).toMatchObject({
      recovered: true,
      received: 0,
      rebuilt: { stream: 0, cancelled: [] },
    });
    for (const { channel } of [page().core, server.core]) {
      expect([channel.framesReceived, channel.framesConfirmed, channel.framesUnconfirmed]).toEqual([0, 0, 0]);
    }
    page().core.channel.send(body());
    server.core.channel.send(body());
    simulation.advance(1_000);
    for (const { channel } of [page().core, server.core]) {
      expect([channel.framesReceived, channel.framesConfirmed, channel.framesUnconfirmed]).toEqual([1, 1, 0]);
    }
  });

  it('gets one-way messages that the former page had not received, once and in order', () => {
    for (const n of [1, 2]) server.core.channel.send(body(10, n));
    simulation.advance(15);
    for (const n of [3, 4]) server.core.channel.send(body(10, n));
    simulation.settle();
    expect(firstBytes(page())).toEqual([1, 2]);
    simulation.cut();
    for (const n of [5, 6]) server.core.channel.send(body(10, n));
    reload();
    expect(firstBytes(page())).toEqual([3, 4, 5, 6]);
    reload();
    expect(firstBytes(page())).toEqual([]);
  });

  it('gets a message whole of which the former page had received some frames', () => {
    const size = WINDOW * 2;
    server.core.channel.send(body(size, 7));
    simulation.advance(15);
    expect(page().core.channel.framesReceived).toBeGreaterThan(0);
    expect(firstBytes(page())).toEqual([]);
    reload();
    // Its beginning is within the new credit, the rest is permitted.
    simulation.advance(200);
    expect(eventsOf(page(), 'message').map((event) => event.body.bytes.length)).toEqual([size]);
  });

  it('gets nothing of a message of its former page twice, and the server nothing of the half that it had', () => {
    page().core.channel.send(body(WINDOW * 2, 1));
    simulation.settle();
    reload();
    page().core.channel.send(body(10, 2));
    simulation.advance(100);
    expect(firstBytes(server).at(-1)).toBe(2);
    expect(server.core.state).toBe('established');
  });

  it('has full credit, as has the server', () => {
    for (const { channel } of [page().core, server.core]) for (let i = 0; i < 3; i++) channel.send(body(400));
    simulation.advance(300);
    expect([page().core.isBlockedOnCredit, server.core.isBlockedOnCredit]).toEqual([true, true]);
    read(server);
    reload();
    // Two of the server's messages had been received; only the third was not.
    expect(eventsOf(page(), 'message')).toHaveLength(1);
    const before = eventsOf(server, 'message').length;
    for (let i = 0; i < 2; i++) page().core.channel.send(body(400));
    simulation.advance(100);
    expect(eventsOf(server, 'message')).toHaveLength(before + 2);
  });

  it('codes and is sent messages in context, which begins empty at both ends', () => {
    const text = (n: number) => `${'the same long beginning of each message '.repeat(5)}${n}`;
    for (const n of [1, 2])
      for (const { channel } of [page().core, server.core]) channel.send(inContext(text(n)));
    simulation.advance(100);
    server.core.channel.send(inContext(text(3)));
    simulation.settle();
    reload();
    for (const n of [4, 5])
      for (const { channel } of [page().core, server.core]) channel.send(inContext(text(n)));
    simulation.advance(100);
    expect(contents(page())).toEqual([3, 4, 5].map(text));
    expect(contents(server)).toEqual([1, 2, 4, 5].map(text));
    expect(page().core.channel.contextUse?.received).toEqual(server.core.channel.contextUse?.sent);
    expect(page().core.channel.contextUse?.sent).toEqual(server.core.channel.contextUse?.received);
    expect(server.core.channel.contextUse?.sent.messages).toBeGreaterThan(0);
  });

  it('learns the names of agents again', () => {
    const from = (n: number) => ({ ...body(10, n), address: 'planner' });
    server.core.channel.send(from(1));
    simulation.advance(50);
    server.core.channel.send(from(2));
    simulation.settle();
    reload();
    server.core.channel.send(from(3));
    simulation.advance(50);
    expect(eventsOf(page(), 'message').map((event) => [event.body.address, event.body.bytes[0]])).toEqual([
      ['planner', 2],
      ['planner', 3],
    ]);
    page().core.channel.send({ ...body(), address: 'worker' });
    simulation.advance(50);
    expect(eventsOf(server, 'message').at(-1)?.body.address).toBe('worker');
  });

  it('continues with its attempts, and may be loaded again and again', () => {
    const attempts = [];
    for (let i = 0; i < 5; i++) {
      server.core.channel.send(body(10, i));
      reload();
      attempts.push(ticket().attempt);
      expect(firstBytes(page())).toEqual([i]);
    }
    expect(attempts).toEqual([1, 2, 3, 4, 5]);
    // A lost connection is resumed as ever.
    simulation.cut();
    simulation.reconnect();
    simulation.advance(100);
    expect([page().core.state, ticket().attempt]).toEqual(['established', 6]);
    reload();
    expect(isTakenUp()).toBe(true);
  });

  it('takes it up while the connection of the former page is open', () => {
    const former = page();
    simulation.reload();
    simulation.advance(100);
    expect(former).not.toBe(page());
    expect(isTakenUp()).toBe(true);
  });

  it('takes it up although the page before it was gone before its ACCEPT came', () => {
    for (const n of [1, 2, 3]) server.core.channel.send(body(10, n));
    simulation.advance(15);
    server.core.channel.send(body(10, 4));
    simulation.settle();
    const first = ticket();
    expect(first.received).toBe(3);
    // Its HELLO arrives, and its ACCEPT is lost.
    simulation.reload();
    simulation.advance(10);
    expect(server.core.channel.framesReceived).toBe(0);
    simulation.cut();
    expect(eventsOf(page(), 'takenUp')).toEqual([]);
    const left = { ...first, attempt: first.attempt + 1 };
    // The page before both has a link that is gone.
    expect(check({ ...left, attempt: 9 })).toBe('no_state');
    reload(left);
    expect(isTakenUp()).toBe(true);
    expect(firstBytes(page())).toEqual([4]);
  });
});

/** Why the server refuses the ticket; `undefined` if it does not. */
function check(ticket: Ticket, rebuild?: boolean) {
  const options = { ...optionsOf(), subprotocol: Subprotocol.BINARY, limits: LIMITS };
  return server.core.checkResume(helloOf(options, undefined, { ...ticket, rebuild }), Subprotocol.BINARY);
}

describe('requests', () => {
  it('of the former page are interrupted, but for those that run to completion', () => {
    const ids = [0, 1, 2].map(() => page().core.channel.request(body()));
    const [stopped, kept, cancelled] = ids as [number, number, number];
    simulation.advance(20);
    server.core.channel.runToCompletion(kept);
    page().core.channel.cancel(cancelled);
    simulation.advance(20);
    const before = eventsOf(server, 'cancel').length;
    reload();
    const answer = { stream: cancelled, cancelled: [stopped] };
    expect(lastAccept().resume?.rebuilt).toEqual(answer);
    expect(eventsOf(page(), 'takenUp')).toEqual([{ type: 'takenUp', cancelled: [stopped] }]);
    expect(eventsOf(server, 'cancel').slice(before)).toEqual([
      {
        type: 'cancel',
        streamId: stopped,
        reason: expect.objectContaining({ code: 'interrupted', retryable: true }),
      },
    ]);
    // Their handlers may still write, which is dropped.
    for (const id of ids) {
      server.core.channel.chunk(id, body());
      server.core.channel.end(id);
      expect(server.core.channel.isWanted(id)).toBe(false);
    }
    expect(server.core.channel.openStreams).toBe(0);
    const next = page().core.channel.request(body());
    expect(next).toBe(cancelled + 2);
    simulation.advance(20);
    server.core.channel.respond(next, body(10, 9));
    simulation.advance(20);
    expect(eventsOf(page(), 'response').map(({ streamId }) => streamId)).toEqual([next]);
    expect([eventsOf(page(), 'part'), eventsOf(page(), 'end')]).toEqual([[], []]);
  });

  it('of the former page that had not arrived completely are interrupted too', () => {
    const id = page().core.channel.request(body(WINDOW * 2));
    simulation.settle();
    expect(eventsOf(server, 'request')).toEqual([]);
    simulation.advance(10);
    reload();
    expect(lastAccept().resume?.rebuilt?.cancelled).toEqual([id]);
    expect(server.core.channel.openStreams).toBe(0);
  });

  it('of the server fail, and its next ones have new IDs', () => {
    const ids = [0, 1].map(() => server.core.channel.request(body()));
    simulation.advance(20);
    page().core.channel.chunk(ids[0] as number, body());
    const queued = server.core.channel.request(body(WINDOW * 2));
    simulation.advance(5);
    simulation.cut();
    let dropped = 0;
    server.core.channel.request({ ...body(), onDropped: () => dropped++ });
    reload();
    const failures = eventsOf(server, 'failure');
    expect(failures.map(({ streamId, error }) => [streamId, error.code, error.side])).toEqual(
      [...ids, queued, queued + 2].map((id) => [id, 'interrupted', 'local']),
    );
    expect(dropped).toBe(1);
    expect(server.core.queuedBytes).toBe(0);
    const next = server.core.channel.request(body());
    expect(next).toBe(queued + 4);
    simulation.advance(20);
    expect(eventsOf(page(), 'request').map(({ streamId }) => streamId)).toEqual([next]);
  });

  it('of the server that it has cancelled meanwhile are not cancelled at a page that never had them', () => {
    const id = server.core.channel.request(body());
    simulation.advance(20);
    simulation.cut();
    server.core.channel.cancel(id);
    reload();
    expect([page().core.state, page().core.channel.framesReceived]).toEqual(['established', 0]);
    expect(eventsOf(server, 'failure').map(({ streamId }) => streamId)).toEqual([id]);
  });

  it('that carry tensors end in either direction', () => {
    const transfer = { payloadSize: 5_000, totalLength: 5_000, first: new Uint8Array(100) };
    const theirs = page().core.channel.transfer(transfer);
    const ours = server.core.channel.transfer(transfer);
    for (const { channel } of [page().core, server.core])
      channel.feed(channel === page().core.channel ? theirs : ours, new Uint8Array(900));
    simulation.advance(50);
    expect([eventsOf(page(), 'piece').length, eventsOf(server, 'piece').length]).toEqual([1, 1]);
    reload();
    expect(lastAccept().resume?.rebuilt?.cancelled).toEqual([theirs]);
    expect(eventsOf(server, 'failure').map(({ streamId }) => streamId)).toEqual([ours]);
    server.core.channel.feed(ours, new Uint8Array(100));
    server.core.channel.consume(theirs, 500);
    expect([server.core.queuedBytes, server.core.channel.openStreams]).toEqual([0, 0]);
    simulation.advance(50);
    expect(isTakenUp()).toBe(true);
  });

  it(`are listed up to ${MAX_CANCELLED}`, () => {
    const many = {
      ...optionsOf({ ...EXTENSIONS, [Extension.LINK]: '{}' }),
      limits: resolveLimits({ maxStreams: 1_000 }),
    };
    for (const [requests, listed] of [
      [MAX_CANCELLED, MAX_CANCELLED],
      [MAX_CANCELLED + 1, MAX_CANCELLED],
    ] as const) {
      begin(many, many);
      for (let i = 0; i < requests; i++) page().core.channel.request(body());
      simulation.advance(100);
      expect(server.core.channel.openStreams).toBe(requests);
      reload();
      expect(eventsOf(page(), 'takenUp')[0]?.cancelled).toHaveLength(listed);
      expect(eventsOf(server, 'cancel')).toHaveLength(requests);
    }
  });
});

describe('the unread rest of a former page', () => {
  it('stays readable, counts as unread, and grants no credit to the next page', () => {
    for (let i = 0; i < 2; i++) page().core.channel.send(body(300, i));
    simulation.advance(50);
    const charge = 2 * (300 + 16);
    expect(server.core.heldBytes).toBeGreaterThanOrEqual(charge);
    reload();
    expect(server.core.heldBytes).toBeGreaterThanOrEqual(charge);
    const credits = () => server.sent.filter((frame) => (frame as Uint8Array)[0] === 0x19).length;
    const before = credits();
    read(server);
    simulation.advance(50);
    expect(credits()).toBe(before);
    // The credit of the present page's messages is granted again as they are read.
    for (let i = 0; i < 3; i++) page().core.channel.send(body(400, i));
    simulation.advance(50);
    expect(page().core.isBlockedOnCredit).toBe(true);
    read(server, 2);
    simulation.advance(50);
    expect(credits()).toBeGreaterThan(before);
    expect(page().core.isBlockedOnCredit).toBe(false);
  });

  it('may fill one window of messages and not more', () => {
    const fill = (size: number) => {
      begin();
      page().core.channel.send(body(size));
      simulation.advance(50);
      expect(eventsOf(server, 'message')).toHaveLength(1);
      reload();
      return page().core.id;
    };
    expect(fill(WINDOW - 16)).toBe('sess_test');
    // Two pages together.
    page().core.channel.send(body(1));
    simulation.advance(50);
    reload();
    expect([page().core.id, lastAccept().resume?.reason]).toEqual(['sess_other', undefined]);
    // A message that is larger than the window.
    expect(fill(WINDOW + 100)).toBe('sess_other');
  });

  it('counts the handlers that have not returned: one link more than its streams, and not a second', () => {
    const ask = () => {
      for (let i = 0; i < 4; i++) page().core.channel.request(body());
      simulation.advance(50);
    };
    const ids = () => eventsOf(server, 'request').map(({ streamId }) => streamId);
    ask();
    reload();
    ask();
    reload();
    expect(isTakenUp()).toBe(true);
    const last = ticket();
    // Eight handlers run, of which four may.
    expect(check({ ...last, attempt: 9 }, true)).toBe('no_state');
    for (const id of ids().slice(0, 3)) server.core.channel.end(id);
    expect(check({ ...last, attempt: 9 }, true)).toBe('no_state');
    server.core.channel.fail(ids()[3] as number, new Error('stopped'));
    expect(check({ ...last, attempt: 9 }, true)).toBeUndefined();
  });
});

describe('a ticket', () => {
  beforeEach(() => {
    for (let i = 0; i < 3; i++) server.core.channel.send(body());
    simulation.advance(1_000);
    server.core.channel.send(body());
    simulation.advance(15);
    expect([server.core.channel.framesConfirmed, server.core.channel.framesUnconfirmed]).toEqual([3, 1]);
  });

  it.each([
    ['fewer frames than were acknowledged', 2, 'no_state'],
    ['as many frames as were acknowledged', 3, undefined],
    ['as many frames as were written', 4, undefined],
    ['more frames than were written', 5, 'no_state'],
  ])('that states %s: %i', (_name, received, refusal) => {
    expect(check({ ...ticket(), attempt: 1, received }, true)).toBe(refusal);
    simulation.reload({ received });
    simulation.advance(100);
    expect(page().core.id).toBe(refusal === undefined ? 'sess_test' : 'sess_other');
    expect(page().core.state).toBe('established');
    expect(server.core.hasEvents).toBe(false);
    expect(eventsOf(server, 'ended')).toEqual([]);
  });

  it('with an old attempt or another token is refused as ever', () => {
    reload();
    expect(check({ ...ticket(), received: 0 }, true)).toBe('stale_attempt');
    expect(check({ ...ticket(), attempt: 9, token: 'x'.repeat(ticket().token.length) }, true)).toBe(
      'unknown_session',
    );
    const core = page().core;
    expect(core.state).toBe('established');
  });

  it.each([
    ['the client', optionsOf(withoutRebuild()), optionsOf()],
    ['the server', optionsOf(), optionsOf(withoutRebuild())],
  ])('is not given for a session that %s cannot rebuild, and the server refuses one', (_name, own, peer) => {
    begin(own, peer);
    expect(page().core.ticket).toBeUndefined();
    simulation.cut();
    page().core.handleConnected(simulation.now);
    const hello = decodeControl(page().core.pollTransmit() as Uint8Array, LIMITS);
    if (hello.type !== 'HELLO' || hello.payload.resume === undefined) throw new Error('no HELLO');
    const { payload } = hello;
    const rebuild = { ...payload, resume: { ...payload.resume, rebuild: true } } as HelloPayload;
    expect(server.core.checkResume(rebuild, Subprotocol.BINARY)).toBe('no_state');
    expect(server.core.checkResume(payload, Subprotocol.BINARY)).toBeUndefined();
    // Without the extension, nothing is kept for a page that may come.
    server.core.channel.send(body());
    expect(server.core.heldBytes).toBeLessThan(600);
  });

  it('is refused while the session closes, which then ends as ever', () => {
    const last = ticket();
    server.core.close(CloseReason.NORMAL, '', simulation.now);
    expect(check({ ...last, attempt: 1 }, true)).toBe('no_state');
    expect(check({ ...last, attempt: 1 })).toBeUndefined();
    simulation.advance(100);
    expect([server.core.state, eventsOf(server, 'ended').at(-1)?.error]).toEqual(['closed', undefined]);
  });
});

function withoutRebuild() {
  const { [Extension.REBUILD]: _rebuild, ...others } = EXTENSIONS;
  return others;
}

describe('an ACCEPT that resumes', () => {
  const accept = (change: object) => {
    simulation.cut();
    const given = lastAccept();
    const resume = {
      ...(given.resume as object),
      token: 't',
      windowMs: 1,
      recovered: true,
      received: 0,
      ...change,
    };
    const last = ticket();
    simulation.reload(last);
    page().core.handleMessage(
      encodeControl({
        type: 'ACCEPT',
        sessionId: 'sess_test',
        timestamp: 1,
        payload: { ...given, resume } as AcceptPayload,
      }),
      simulation.now,
    );
    return page().core.lifecycle;
  };
  it.each([
    [{ rebuilt: { stream: 7, cancelled: [1, 7] } }, 'established'],
    [{ rebuilt: undefined }, 'failed'],
    [{ rebuilt: { stream: 0, cancelled: [] }, received: 1 }, 'failed'],
    [{ rebuilt: { stream: 2, cancelled: [] } }, 'failed'],
    [{ rebuilt: { stream: 3, cancelled: [5] } }, 'failed'],
    [{ rebuilt: { stream: 3, cancelled: [2] } }, 'failed'],
    [{ rebuilt: { stream: 2 ** 32 + 1, cancelled: [] } }, 'failed'],
    [{ rebuilt: { stream: 1, cancelled: new Array(MAX_CANCELLED).fill(1) } }, 'established'],
    [{ rebuilt: { stream: 1, cancelled: new Array(MAX_CANCELLED + 1).fill(1) } }, 'failed'],
    [{ recovered: false, rebuilt: undefined }, 'established'],
  ])('with %j leaves the page %s', (change, lifecycle) => {
    expect(accept(change)).toBe(lifecycle);
  });

  it('a session that the page did not ask for fails it', () => {
    simulation = createSimulation({ client: optionsOf(), server: optionsOf() });
    server = simulation.server;
    simulation.settle();
    const given = lastAccept();
    const other = createSimulation({ client: optionsOf(), server: optionsOf() }).client.core;
    other.pollTransmit();
    const resume = {
      ...(given.resume as ResumeAnswer),
      recovered: true,
      rebuilt: { stream: 0, cancelled: [] },
    };
    other.handleMessage(
      encodeControl({
        type: 'ACCEPT',
        sessionId: 'sess_test',
        timestamp: 1,
        payload: { ...given, resume },
      }),
      0,
    );
    expect(other.lifecycle).toBe('failed');
  });
});

describe('a page that detaches', () => {
  it('ends without an error, and the server keeps its session for the shorter window', () => {
    const last = ticket();
    page().core.detach(simulation.now);
    simulation.settle();
    expect(page().closedWith).toEqual({ code: CloseCode.DETACHED, reason: CloseReason.NORMAL });
    expect(eventsOf(page(), 'ended')).toEqual([{ type: 'ended', error: undefined }]);
    simulation.advance(20);
    expect(server.core.state).toBe('suspended');
    const left = server.core.nextTimeout() - simulation.now;
    expect(left).toBeGreaterThan(3_900);
    expect(left).toBeLessThanOrEqual(4_000);
    simulation.reload(last);
    simulation.advance(100);
    expect(isTakenUp()).toBe(true);
  });

  it('is told from one that is lost, which has the whole window', () => {
    simulation.cut();
    expect(server.core.nextTimeout() - simulation.now).toBe(10_000);
    reload();
    server.core.handleDisconnected(CloseCode.DETACHED, '', simulation.now);
    expect(server.core.nextTimeout() - simulation.now).toBe(4_000);
    reload();
    server.core.handleDisconnected(CloseCode.ABNORMAL, '', simulation.now);
    expect(server.core.nextTimeout() - simulation.now).toBe(10_000);
  });

  it.each(['suspended', 'connecting', 'closing'] as const)('can do so while it is %s', (state) => {
    if (state === 'suspended') simulation.cut();
    else if (state === 'closing') page().core.close(CloseReason.NORMAL, '', simulation.now);
    else simulation = createSimulation({ client: optionsOf(), server: optionsOf() });
    expect(page().core.state).toBe(state);
    page().core.detach(simulation.now);
    expect(page().core.state).toBe('closed');
    page().core.detach(simulation.now);
    for (let event = page().core.pollEvent(); event !== undefined; event = page().core.pollEvent())
      page().events.push(event);
    expect(eventsOf(page(), 'ended')).toEqual([{ type: 'ended', error: undefined }]);
  });
});

describe('codecs that pages load later', () => {
  it('are awaited again by a server whose page has been loaded again', () => {
    const later = { ...EXTENSIONS, [Extension.READY]: '["BROTLI","CONTEXT"]' };
    begin(optionsOf(later), optionsOf({ ...EXTENSIONS, [Extension.READY]: '[]' }));
    page().core.announceReady(['BROTLI', 'CONTEXT'], simulation.now);
    simulation.advance(50);
    expect(server.core.awaitedCodecs.size).toBe(0);
    reload();
    expect([...server.core.awaitedCodecs]).toEqual(['BROTLI', 'CONTEXT']);
    page().core.announceReady(['CONTEXT'], simulation.now);
    simulation.advance(50);
    expect([...server.core.awaitedCodecs]).toEqual(['BROTLI']);
  });
});

describe('memory', () => {
  it('of messages that are kept for a page counts until it has confirmed them', () => {
    const text = 'a message that is sent again and again, almost the same as before '.repeat(10);
    const before = server.core.heldBytes;
    server.core.channel.send(inContext(`${text}1`));
    simulation.settle();
    expect(server.core.heldBytes - before).toBeGreaterThan(text.length + 512);
    simulation.advance(1_000);
    expect(server.core.heldBytes - before).toBe(0);
  });
});
