import fc from 'fast-check';
import { afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { codecs } from '#codecs';
import { CloseCode } from '../base/close-codes.js';
import { Extension } from '../base/constants.js';
import { ANNOUNCED_LIMITS, resolveLimits, resolveTimers } from '../base/limits.js';
import { BodyCodec, plainBody } from '../codec/body.js';
import { codedInContext } from '../codec/context/snapshot.js';
import { AgreementCache } from '../control/agreement.js';
import { decodeControl } from '../control/envelope.js';
import { encodeBodyFrame, LinkKind } from '../link/frame.js';
import { errorCode } from '../testing/error-code.js';
import { runMoveHistory } from '../testing/move-history.js';
import { MOVE_OPTIONS } from '../testing/move-options.js';
import {
  createSimulation,
  type End,
  eventsOf,
  type Simulation,
  TEST_CAPABILITIES,
} from '../testing/simulation.js';
import { platform } from '../testing/this-platform.js';
import { createServerSession, restoreSession } from './create-server.js';
import { decodeSnapshot, encodeSnapshot, SNAPSHOT_FORMAT } from './snapshot.js';
import type { ServerSessionCore, SessionOptions } from './types.js';

beforeAll(() => platform.loadZstd());
afterEach(() => vi.restoreAllMocks());

const LINK = { [Extension.LINK]: JSON.stringify({ message_window: 1_000, stream_window: 1_000 }) };
const optionsWith = (
  extensions: Record<string, string> = { [Extension.RESUME]: '{}' },
  more: Partial<SessionOptions> = {},
): Partial<SessionOptions> => ({
  capabilities: { ...TEST_CAPABILITIES, extensions: { ...LINK, ...extensions } },
  timers: resolveTimers({ resumeWindowMs: 10_000 }),
  ...more,
});

let simulation: Simulation;
let client: End;
let server: End;
function begin(options = optionsWith(), more: Parameters<typeof createSimulation>[0] = {}): void {
  simulation = createSimulation({ delayMs: 10, client: options, server: options, ...more });
  ({ client, server } = simulation);
  simulation.advance(100);
}
const coreOf = () => server.core as ServerSessionCore;
const body = (size: number) => plainBody(new Uint8Array(size));
const common = { subprotocol: 'm2m.v1', limits: resolveLimits(), role: 'server' } as const;
const restored = (options: Partial<SessionOptions>, snapshot: Uint8Array, now = 0) =>
  restoreSession(
    { ...common, ...(optionsWith() as SessionOptions), ...options } as SessionOptions,
    snapshot,
    now,
  );

describe('a snapshot', () => {
  it('of an idle session has at most 500 bytes', () => {
    begin();
    expect(simulation.snapshot().length).toBeLessThanOrEqual(500);
    expect(simulation.snapshot()[0]).toBe(SNAPSHOT_FORMAT);
  });

  it('changes nothing: two in a row are equal, and the session continues', () => {
    begin();
    client.core.channel.send(body(400));
    simulation.advance(20);
    expect(simulation.snapshot()).toEqual(simulation.snapshot());
    client.core.channel.send(body(400));
    simulation.advance(20);
    expect(eventsOf(server, 'message')).toHaveLength(2);
  });

  it('has a place for every limit that a server announces', () => {
    begin();
    expect(coreOf().negotiated?.limits).toEqual(restored({}, simulation.snapshot()).negotiated?.limits);
    expect(Object.keys(coreOf().negotiated?.limits ?? {}).toSorted()).toEqual(ANNOUNCED_LIMITS.toSorted());
  });

  it('is possible only between frames, of an open session with a link and without tensors', () => {
    const other = createServerSession({ ...common, ...optionsWith() } as SessionOptions);
    expect(other.canSnapshot).toBe(false);
    expect(errorCode(() => other.snapshot(0))).toBe('invalid_argument');
    begin();
    expect(coreOf().canSnapshot).toBe(true);

    coreOf().holdFrames();
    expect(coreOf().canSnapshot).toBe(false);
    coreOf().releaseFrames(simulation.now);
    expect(coreOf().canSnapshot).toBe(true);

    coreOf().handleMessage(
      encodeBodyFrame({ ...body(1), kind: LinkKind.MESSAGE, streamId: 0 }, 0, 1),
      simulation.now,
    );
    expect(coreOf().hasEvents).toBe(true);
    expect(coreOf().canSnapshot).toBe(false);
    simulation.settle();
    expect(coreOf().canSnapshot).toBe(true);

    client.core.authenticate('token', simulation.now);
    simulation.advance(20);
    expect(coreOf().canSnapshot).toBe(false);
    coreOf().grant(null, simulation.now);
    expect(coreOf().canSnapshot).toBe(true);

    coreOf().close('NORMAL', '', simulation.now);
    simulation.settle();
    expect(coreOf().canSnapshot).toBe(false);
  });

  it('is not possible while a tensor is under way, in either direction', () => {
    for (const end of ['client', 'server'] as const) {
      begin();
      const { core } = simulation[end];
      const stream = core.channel.transfer({ payloadSize: 100, totalLength: 100, first: new Uint8Array(50) });
      simulation.advance(20);
      expect(coreOf().canSnapshot, end).toBe(false);
      core.channel.feed(stream, new Uint8Array(50));
      simulation.advance(20);
      if (end === 'client') coreOf().channel.end(stream);
      simulation.advance(20);
      expect(coreOf().canSnapshot, end).toBe(true);
    }
  });

  it('is not possible without a link', () => {
    begin({ capabilities: { ...TEST_CAPABILITIES, extensions: {} } });
    expect(coreOf().state).toBe('established');
    expect(coreOf().canSnapshot).toBe(false);
  });
});

describe('bytes that are no snapshot', () => {
  const take = () => {
    begin();
    client.core.channel.request(body(100));
    simulation.advance(20);
    return simulation.snapshot();
  };

  it('are refused by their format before anything else', () => {
    const snapshot = take();
    for (const format of [0, SNAPSHOT_FORMAT + 1, 255])
      expect(errorCode(() => restored({}, Uint8Array.of(format, ...snapshot.subarray(1))))).toBe(
        'unknown_version',
      );
    expect(errorCode(() => restored({}, Uint8Array.of(2)))).toBe('unknown_version');
  });

  it('are refused at every length, and with any bit changed', () => {
    const snapshot = take();
    for (let length = 0; length < snapshot.length; length++)
      expect(errorCode(() => restored({}, snapshot.subarray(0, length)))).toMatch(/truncated|bad_checksum/);
    for (let at = 1; at < snapshot.length; at++) {
      const damaged = snapshot.slice();
      damaged[at] = (damaged[at] as number) ^ (1 << (at % 8));
      expect(errorCode(() => restored({}, damaged))).toBe('bad_checksum');
    }
  });

  it('are refused one byte over the size, at both ends', () => {
    const fields = { id: 'x'.repeat(100) };
    const { length } = encodeSnapshot(fields);
    expect(encodeSnapshot(fields, SNAPSHOT_FORMAT, length)).toHaveLength(length);
    expect(errorCode(() => encodeSnapshot(fields, SNAPSHOT_FORMAT, length - 1))).toBe('message_too_large');
    expect(decodeSnapshot(encodeSnapshot(fields), SNAPSHOT_FORMAT, length)).toEqual(fields);
    expect(errorCode(() => decodeSnapshot(encodeSnapshot(fields), SNAPSHOT_FORMAT, length - 1))).toBe(
      'message_too_large',
    );
  });

  it('are refused with more than a million entries', () => {
    const list = (length: number) => encodeSnapshot({ list: new Array(length).fill(0) });
    expect(decodeSnapshot(list(1024 * 1024 - 1))).toBeDefined();
    expect(errorCode(() => decodeSnapshot(list(1024 * 1024)))).toBe('message_too_large');
  });

  it('are refused by the options of a client', () => {
    expect(errorCode(() => restored({ role: 'client' }, take()))).toBe('invalid_argument');
  });

  /** Snapshots of sessions in the middle of everything. */
  function busy(): Uint8Array[] {
    const found: Uint8Array[] = [];
    for (let seed = 1; seed <= 12; seed++)
      runMoveHistory({ seed, onMoved: (snapshot) => found.push(snapshot) });
    return found.toSorted((a, b) => b.length - a.length).slice(0, 60);
  }

  it('either throw a typed error or give a session that works, if their CRC is right', () => {
    const snapshots = busy();
    const edits = fc.array(fc.tuple(fc.nat(), fc.integer({ min: 0, max: 255 })), {
      minLength: 1,
      maxLength: 4,
    });
    let restoredSessions = 0;
    fc.assert(
      fc.property(fc.nat(snapshots.length - 1), edits, (which, changes) => {
        const damaged = (snapshots[which] as Uint8Array).slice();
        for (const [at, value] of changes) damaged[5 + (at % (damaged.length - 5))] = value;
        new DataView(damaged.buffer).setUint32(1, platform.crc32(damaged.subarray(5)), true);
        let core: ServerSessionCore;
        try {
          core = restoreSession({ ...common, ...MOVE_OPTIONS }, damaged, 1_000);
        } catch (error) {
          expect(error).toMatchObject({ name: 'ProtocolError' });
          return;
        }
        restoredSessions++;
        for (let i = 0; i < 1_000 && core.pollTransmit() !== undefined; i++);
        core.handleTimeout(2_000);
        expect(Number.isNaN(core.nextTimeout())).toBe(false);
        core.handleDisconnected(CloseCode.ABNORMAL, '', 2_000);
        expect(core.unconfirmed()).toBeDefined();
        while (core.pollEvent() !== undefined);
        if (core.canSnapshot) restoreSession({ ...common, ...MOVE_OPTIONS }, core.snapshot(2_000), 0);
        core.handleTimeout(Number.MAX_SAFE_INTEGER);
        while (core.pollEvent() !== undefined);
      }),
      { numRuns: 3_000 },
    );
    expect(restoredSessions).toBeGreaterThan(100);
  });
});

describe('the clock of another process', () => {
  it('leaves a suspended session the rest of its window, and no more', () => {
    begin();
    simulation.cut();
    simulation.advance(6_000);
    expect(simulation.move()).toBe(true);
    simulation.advance(3_900);
    expect(coreOf().state).toBe('suspended');
    simulation.advance(100);
    expect(eventsOf(server, 'ended').map(({ error }) => error?.code)).toEqual(['session_lost']);
  });

  it('keeps the age of the last data', () => {
    begin(optionsWith({}, { timers: resolveTimers({ idleTimeoutMs: 60_000, pingIntervalMs: 300_000 }) }));
    simulation.advance(40_000);
    simulation.move();
    simulation.advance(19_000);
    expect(coreOf().state).toBe('established');
    simulation.advance(1_200);
    expect(coreOf().state).not.toBe('established');
  });

  it('keeps when an acknowledgement is due, and when credentials expire', () => {
    begin();
    coreOf().grant(simulation.now + 5_000, simulation.now);
    client.core.channel.send(body(10));
    simulation.advance(110);
    simulation.move();
    simulation.advance(150);
    expect(client.core.channel.framesUnconfirmed).toBe(0);
    simulation.advance(4_600);
    expect(coreOf().state).toBe('established');
    simulation.advance(200);
    expect(eventsOf(server, 'ended').map(({ error }) => error?.code)).toEqual(['unauthenticated']);
  });

  it('keeps the round trip', () => {
    begin();
    simulation.advance(61_000);
    const { roundTripMs } = coreOf();
    expect(roundTripMs).toBe(20);
    simulation.move();
    expect(coreOf().roundTripMs).toBe(roundTripMs);
  });
});

describe('a session that has moved', () => {
  it('keeps its agreement where new clients get another one', () => {
    begin();
    const snapshot = simulation.snapshot();
    const other = optionsWith({ [Extension.LINK]: '{"message_window":5}', [Extension.RESUME]: '{}' });
    const core = restored(other, snapshot);
    expect(core.negotiated).toEqual({ ...coreOf().negotiated, reasons: expect.any(Array) });
    // A window of 5 would let nothing through.
    const frame = encodeBodyFrame({ ...body(500), kind: LinkKind.MESSAGE, streamId: 0 }, 0, 500);
    core.handleMessage(frame, 0);
    expect(core.pollEvent()).toMatchObject({ type: 'message' });
  });

  it('is refused by a server that cannot keep its agreement', () => {
    begin();
    const snapshot = simulation.snapshot();
    const refused = (options: Partial<SessionOptions>) => errorCode(() => restored(options, snapshot));
    const capabilities = optionsWith().capabilities as SessionOptions['capabilities'];
    const limits = resolveLimits();
    expect(refused({ limits: resolveLimits({ maxStreams: limits.maxStreams }) })).toBe('none');
    expect(refused({ limits: resolveLimits({ maxStreams: limits.maxStreams - 1 }) })).toBe('unsupported');
    expect(refused({ capabilities: { ...capabilities, extensions: LINK } })).toBe('unsupported');
    expect(refused({ capabilities: { ...capabilities, algorithms: ['NONE'] } })).toBe('unsupported');
    expect(refused({ capabilities: { ...capabilities, encodings: [] } })).toBe('unsupported');
  });

  it('is resumed by a client with the same offer, which gets the agent ID that it was granted', () => {
    begin(optionsWith({ [Extension.RESUME]: '{}', [Extension.AGENTS]: '{}' }, { agentId: 'me' }), {
      onHello: (core, now) => void core.accept('sess_test', now, { agentId: 'you' }),
    });
    simulation.cut();
    simulation.move();
    simulation.reconnect();
    simulation.advance(100);
    expect([client.core.id, coreOf().state]).toEqual(['sess_test', 'established']);
    const isControl = (frame: Uint8Array | string) => typeof frame !== 'string' && (frame[0] ?? 0) >> 4 === 8;
    const message = decodeControl(server.sent.findLast(isControl) as Uint8Array);
    expect(message.type === 'ACCEPT' && message.payload).toMatchObject({ agentId: 'you' });
  });

  it('keeps an offer in the nested shape', () => {
    begin(optionsWith({}, { shape: 'nested' }));
    const before = simulation.snapshot();
    simulation.move();
    expect(simulation.snapshot()).toEqual(before);
    const [[shape]] = decodeSnapshot(before)['agreement'] as [[string]];
    expect(shape).toBe('nested');
  });

  it('shares its agreement with others of the same', () => {
    begin();
    const agreements = new AgreementCache();
    const [a, b] = [1, 2].map(() => restored({ agreements }, simulation.snapshot()));
    expect(a?.negotiated).toBe(b?.negotiated);
  });

  it('is resumed with the token of an ACCEPT that was lost, and with no older one', () => {
    begin();
    const tokenOf = () => {
      client.core.handleConnected(simulation.now);
      const hello = decodeControl(client.core.pollTransmit() as Uint8Array);
      client.core.handleDisconnected(CloseCode.ABNORMAL, '', simulation.now);
      if (hello.type !== 'HELLO') throw new Error(hello.type);
      return hello.payload;
    };
    simulation.cut();
    const [first, second] = [tokenOf(), tokenOf()];
    coreOf().resume(first.resume as NonNullable<typeof first.resume>, simulation.now);
    simulation.settle();
    simulation.move();
    expect(coreOf().checkResume(first, 'm2m.v1')).toBe('stale_attempt');
    expect(coreOf().checkResume(second, 'm2m.v1')).toBeUndefined();
    expect(coreOf().resumeProof?.matches(second.resume?.token ?? '')).toBe(true);
  });

  it('writes the rest of the frames again that it was writing again', () => {
    begin();
    for (let i = 0; i < 3; i++) coreOf().channel.send(body(20 + i));
    simulation.settle();
    simulation.cut();
    const hello = (() => {
      client.core.handleConnected(simulation.now);
      return decodeControl(client.core.pollTransmit() as Uint8Array);
    })();
    if (hello.type !== 'HELLO' || hello.payload.resume === undefined) throw new Error(hello.type);
    coreOf().resume(hello.payload.resume, simulation.now);
    while (coreOf().pollEvent() !== undefined);
    const written = [coreOf().pollTransmit(), coreOf().pollTransmit(), coreOf().pollTransmit()];
    expect(written.some((frame) => (frame as Uint8Array).length === 23)).toBe(true);
    const core = restored({}, simulation.snapshot(), 5);
    const rest: number[] = [];
    for (let frame = core.pollTransmit(); frame !== undefined; frame = core.pollTransmit())
      rest.push(frame.length);
    const all = [...written.map((frame) => (frame as Uint8Array).length), ...rest];
    expect(all.filter((length) => length >= 23 && length <= 25)).toEqual([23, 24, 25]);
  });

  it('grants credit that it held back for want of memory', () => {
    begin();
    for (let i = 0; i < 4; i++) client.core.channel.send(body(400));
    coreOf().channel.holdCredit(true);
    simulation.advance(50);
    for (const { body: whole } of eventsOf(server, 'message')) coreOf().channel.consume(0, whole.charge);
    simulation.advance(50);
    expect(client.core.isBlockedOnCredit).toBe(true);
    simulation.move();
    simulation.advance(50);
    expect(eventsOf(server, 'message').length).toBeGreaterThan(2);
  });

  it('lets messages through one after the other that are larger than their share', () => {
    begin();
    const streams = [1, 2, 3].map(() => client.core.channel.request(body(3_000)));
    simulation.advance(15);
    expect(JSON.stringify(decodeSnapshot(simulation.snapshot())['link'])).toContain('"waiting":[');
    let read = 0;
    for (let i = 0; i < 30; i++) {
      simulation.move();
      simulation.advance(15);
      for (const { streamId, body: whole } of eventsOf(server, 'request').slice(read))
        coreOf().channel.consume(streamId, whole.charge);
      read = eventsOf(server, 'request').length;
    }
    expect(eventsOf(server, 'request').map(({ streamId }) => streamId)).toEqual(streams);
  });

  it('still knows what its peer has spent of its rates', () => {
    const limits = resolveLimits({ messagesPerMinute: 10, controlMessagesPerMinute: 10 });
    const strict = optionsWith({}, { limits });
    const frame = encodeBodyFrame({ ...body(1), kind: LinkKind.MESSAGE, streamId: 0 }, 0, 1);
    const flood = (isMoved: boolean) => {
      begin(strict);
      for (let i = 0; i < 29; i++) simulation.inject('client', frame);
      simulation.advance(20);
      if (isMoved) simulation.move();
      expect(coreOf().state).toBe('established');
      for (let i = 0; i < 2; i++) simulation.inject('client', frame);
      simulation.advance(20);
      return eventsOf(server, 'ended').map(({ error }) => error?.code);
    };
    expect(flood(true)).toEqual(flood(false));
    expect(flood(true)).toEqual(['rate_limited']);
  });

  it('refuses a request that it was about to refuse once it has arrived', () => {
    begin(optionsWith({}, { limits: resolveLimits({ messagesPerMinute: 2 }) }));
    const request = { ...body(300), kind: LinkKind.REQUEST };
    for (const streamId of [1, 3, 5, 7]) {
      simulation.inject('client', encodeBodyFrame({ ...request, streamId }, 0, 300));
    }
    simulation.inject('client', encodeBodyFrame({ ...request, streamId: 9 }, 0, 100));
    simulation.advance(20);
    expect(eventsOf(server, 'request')).toHaveLength(4);
    simulation.move();
    const before = server.sent.length;
    simulation.inject('client', encodeBodyFrame({ ...request, streamId: 9 }, 100, 300));
    simulation.advance(20);
    expect(eventsOf(server, 'request')).toHaveLength(4);
    const answers = server.sent.slice(before).map((frame) => (frame as Uint8Array)[0]);
    expect(answers).toContain(0x10 | LinkKind.ERROR);
  });

  it('waits for the codecs that its client still loads', () => {
    const ready = optionsWith({ [Extension.RESUME]: '{}', [Extension.READY]: '["BROTLI","M2M"]' });
    begin(ready);
    expect([...coreOf().awaitedCodecs]).toEqual(['BROTLI', 'M2M']);
    simulation.move();
    client.core.announceReady(['BROTLI'], simulation.now);
    simulation.advance(20);
    expect([...coreOf().awaitedCodecs]).toEqual(['M2M']);
  });

  it('codes what waited against the context that has moved with it', () => {
    begin(optionsWith({ [Extension.CONTEXT]: '{"max_bytes":100000,"max_messages":4}' }));
    const content = new TextEncoder().encode('what one says is said again. '.repeat(20));
    const deferred = { ...plainBody(content), deferred: codedInContext(content) };
    coreOf().channel.send(deferred);
    simulation.advance(20);
    coreOf().channel.send(deferred);
    simulation.move();
    const before = server.sent.length;
    simulation.advance(20);
    expect((server.sent[before] as Uint8Array).length).toBeLessThan(20);
    expect(eventsOf(client, 'message').map(({ body: { codec, content: got } }) => [codec, got])).toEqual([
      [BodyCodec.CONTEXT, content],
      [BodyCodec.CONTEXT, content],
    ]);
  });

  it('needs the code of context if it has any', () => {
    begin(optionsWith({ [Extension.CONTEXT]: '{"max_bytes":100000,"max_messages":4}' }));
    const content = new Uint8Array(100);
    coreOf().channel.send({ ...plainBody(content), deferred: codedInContext(content) });
    const waiting = simulation.snapshot();
    simulation.advance(20);
    const coded = simulation.snapshot();
    const options = optionsWith({ [Extension.CONTEXT]: '{"max_bytes":100000,"max_messages":4}' });
    vi.spyOn(codecs.context, 'isLoaded', 'get').mockReturnValue(false);
    for (const snapshot of [waiting, coded])
      expect(errorCode(() => restored(options, snapshot))).toBe('codec_not_loaded');
  });
});
