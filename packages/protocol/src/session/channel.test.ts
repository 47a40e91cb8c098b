import { describe, expect, it } from 'vitest';
import { Algorithm } from '../base/constants.js';
import { ProtocolError } from '../base/errors.js';
import { resolveLimits } from '../base/limits.js';
import { encodeUtf8 } from '../base/text.js';
import { BodyCodec, type CodedBody, plainBody } from '../codec/body.js';
import type { Negotiated } from '../control/agreement.js';
import type { DataPayload } from '../control/messages.js';
import { decodeLinkFrame, encodeBodyFrame, LinkKind } from '../link/frame.js';
import { Outbox } from '../link/outbox.js';
import { errorCode } from '../testing/error-code.js';
import { ALL_CODE } from './all-code.js';
import { LinkChannel } from './channel.js';
import type { ChannelOptions } from './channel-options.js';
import { type ChannelHost, ClosedChannel, type SessionChannel } from './closed-channel.js';
import { encodePlainFrame, encodeTextForm } from './plain.js';
import { PlainChannel } from './plain-channel.js';
import type { SessionEvent } from './types.js';

const NEGOTIATED: Negotiated = {
  version: '1.0',
  algorithms: [Algorithm.NONE, Algorithm.TOKEN_NATIVE],
  encoding: 'CL100K_BASE',
  securityScanning: false,
  maxPayloadSize: 0,
  limits: {},
  extensions: { link: '{}' },
  reasons: [],
};
/** A channel of a session in the given state, with the events that the session receives. */
const createPath = (
  change: Partial<ChannelOptions> = {},
  negotiated: Partial<Negotiated> = {},
  state: Partial<ChannelHost> = {},
) => {
  const outbox = new Outbox();
  const events: SessionEvent[] = [];
  let touched = 0;
  const host = {
    state: 'established',
    isOpen: true,
    hasEnded: false,
    hasSentClose: false,
    touch: () => void touched++,
    emit: (event: SessionEvent) => void events.push(event),
    ...state,
  } satisfies ChannelHost;
  const agreed = { ...NEGOTIATED, ...negotiated };
  const path = new (agreed.extensions['link'] === undefined ? PlainChannel : LinkChannel)(host, {
    role: 'server',
    limits: resolveLimits(),
    negotiated: agreed,
    ownExtensions: {},
    peerExtensions: {},
    outbox,
    streams: ALL_CODE.streams,
    envelopes: undefined,
    ...change,
  });
  return { path, outbox, events, host, touches: () => touched };
};
const WITHOUT_LINK = { extensions: {} };
const coded = (codec: BodyCodec, bytes: Uint8Array): CodedBody => ({ ...plainBody(bytes), codec });
const text = (value: string) => plainBody(encodeUtf8(value));
const transferOf = (payloadSize: number) => ({
  payloadSize,
  totalLength: payloadSize,
  first: new Uint8Array(1),
});
const linkFrame = (body: CodedBody) =>
  encodeBodyFrame({ ...body, kind: LinkKind.MESSAGE, streamId: 0 }, 0, body.bytes.length);

describe('with the link', () => {
  it('bodies go out as link frames and come in as events', () => {
    const { path, outbox } = createPath();
    path.send(text('hello'));
    const frame = outbox.next(0) as Uint8Array;
    expect(decodeLinkFrame(frame)).toMatchObject({ kind: LinkKind.MESSAGE, streamId: 0 });
    expect(createPath().path.handleLinkFrame(frame, 0)).toMatchObject({
      type: 'message',
      body: { codec: BodyCodec.PLAIN, bytes: encodeUtf8('hello') },
    });
  });

  it('bare data violate the protocol', () => {
    const { path } = createPath();
    for (const data of ['hello', '', Uint8Array.of(0, 1)])
      expect(errorCode(() => path.handlePlain(data, 0))).toBe('bad_frame');
  });

  it('requests and tensors open streams', () => {
    const { path } = createPath();
    expect(path.hasLink).toBe(true);
    const streams = [path.request(text('x')), path.transfer(transferOf(1))];
    expect(path.openStreams).toBe(streams.length);
    expect(new Set(streams).size).toBe(streams.length);
  });
});

describe('without the link', () => {
  it('bodies go out as bare frames, and requests and tensors are refused', () => {
    const { path, outbox } = createPath({}, WITHOUT_LINK);
    expect(path.hasLink).toBe(false);
    for (const body of [text('hello'), coded(BodyCodec.TOKEN_NATIVE, Uint8Array.of(5))]) {
      path.send(body);
      expect(outbox.next(0)).toEqual(encodePlainFrame(body, 'CL100K_BASE'));
    }
    expect(errorCode(() => path.request(text('x')))).toBe('unsupported');
    expect(errorCode(() => path.transfer(transferOf(1)))).toBe('unsupported');
    expect(outbox.next(0)).toBeUndefined();
  });

  it('bare frames come in as messages', () => {
    const { path } = createPath({}, WITHOUT_LINK);
    expect(path.handlePlain('hello', 0)).toMatchObject({
      type: 'message',
      body: { bytes: encodeUtf8('hello') },
    });
    expect(path.handlePlain(Uint8Array.of(0, 7), 0)).toMatchObject({
      body: { codec: BodyCodec.TOKEN_NATIVE, bytes: Uint8Array.of(7) },
    });
    expect(path.handleLinkFrame(linkFrame(text('x')), 0)).toBeUndefined();
  });

  it('a body without an unambiguous bare form is not sent', () => {
    const { path, outbox } = createPath({}, WITHOUT_LINK);
    expect(errorCode(() => path.send(text('#TK|C|AA==')))).toBe('unrepresentable');
    expect(outbox.next(0)).toBeUndefined();
  });
});

describe('in JSON envelopes', () => {
  const json = () => {
    const envelopes: DataPayload[] = [];
    return {
      ...createPath({ envelopes: { sendData: (payload) => void envelopes.push(payload) } }, WITHOUT_LINK),
      envelopes,
    };
  };

  it('a body is its text form, named by its algorithm, with the size of its content', () => {
    const { path, envelopes, outbox } = json();
    const tokens = { ...coded(BodyCodec.TOKEN_NATIVE, Uint8Array.of(5)), originalLength: 4 };
    path.send(tokens);
    path.send(text('hi'));
    expect(envelopes).toEqual([
      { algorithm: 'TOKEN_NATIVE', content: encodeTextForm(tokens, 'CL100K_BASE'), originalSize: 4 },
      { algorithm: 'NONE', content: 'hi', originalSize: 2 },
    ]);
    expect(outbox.next(0)).toBeUndefined();
  });

  it('tensors are refused', () => {
    const { path, envelopes } = json();
    expect(errorCode(() => path.send(coded(BodyCodec.AVP, encodeUtf8('AV'))))).toBe('unsupported');
    expect(envelopes).toEqual([]);
  });
});

describe('use that was not negotiated', () => {
  const bodies = [
    [BodyCodec.PLAIN, 'NONE'],
    [BodyCodec.TOKEN_NATIVE, 'TOKEN_NATIVE'],
    [BodyCodec.M2M, 'M2M'],
    [BodyCodec.BROTLI, 'BROTLI'],
    [BodyCodec.TOKEN, 'TOKEN'],
    [BodyCodec.DICTIONARY, 'DICTIONARY'],
  ] as const;

  it.each(bodies)('is refused for a body in codec %i if every algorithm but %s was', (codec, algorithm) => {
    const body = coded(codec, encodeUtf8('x'));
    const others = Object.values(Algorithm).filter((name) => name !== algorithm);
    for (const [algorithms, code] of [
      [others, 'bad_frame'],
      [[algorithm], 'none'],
    ] as const) {
      const linked = createPath({}, { algorithms });
      expect(errorCode(() => linked.path.handleLinkFrame(linkFrame(body), 0))).toBe(code);
      const bare = createPath({}, { ...WITHOUT_LINK, algorithms });
      const frame = encodePlainFrame(body, 'CL100K_BASE');
      expect(errorCode(() => bare.path.handlePlain(frame, 0))).toBe(code);
    }
  });

  it('includes context coding, and tensors that are not requests; not an empty body', () => {
    const { path } = createPath({}, { algorithms: [Algorithm.M2M] });
    const read = (body: CodedBody) => errorCode(() => path.handleLinkFrame(linkFrame(body), 0));
    expect(read(coded(BodyCodec.CONTEXT, Uint8Array.of(1)))).toBe('bad_frame');
    expect(read(coded(BodyCodec.AVP, Uint8Array.of(1)))).toBe('bad_frame');
    const tensor = { ...coded(BodyCodec.AVP, Uint8Array.of(1)), kind: LinkKind.REQUEST, streamId: 1 };
    expect(errorCode(() => path.handleLinkFrame(encodeBodyFrame(tensor, 0, 1), 0))).toBe('none');
    expect(read(text(''))).toBe('none');
  });
});

describe('a body is sent at n bytes and refused at n + 1, where n is the smallest of', () => {
  type Case = readonly [string, Partial<ChannelOptions>, Partial<Negotiated>];
  const cases: Case[] = [
    ['the negotiated size', {}, { maxPayloadSize: 100 }],
    [
      'the limit that the server announced',
      { role: 'client' },
      { maxPayloadSize: 200, limits: { maxMessageSize: 100 } },
    ],
    ['its own limit', { limits: resolveLimits({ maxMessageSize: 100 }) }, { maxPayloadSize: 200 }],
  ];
  for (const [name, options, negotiated] of cases) {
    it.each([
      ['link frames', {}],
      ['bare frames', WITHOUT_LINK],
    ])(`${name}, in %s`, (_what, extensions) => {
      const { path } = createPath(options, { ...negotiated, ...extensions });
      const send = (body: CodedBody) => errorCode(() => path.send(body));
      expect([send(text('x'.repeat(100))), send(text('x'.repeat(101)))]).toEqual([
        'none',
        'message_too_large',
      ]);
      // The content counts if it is larger than its coded form.
      const small = coded(BodyCodec.TOKEN_NATIVE, Uint8Array.of(1));
      expect(send({ ...small, originalLength: 100 })).toBe('none');
      expect(send({ ...small, originalLength: 101 })).toBe('message_too_large');
    });
  }

  it('nothing, for limits at a server that only bind clients', () => {
    const { path } = createPath({ role: 'server' }, { limits: { maxMessageSize: 1, maxTransferSize: 1 } });
    expect(errorCode(() => path.send(text('xx')))).toBe('none');
    expect(errorCode(() => path.send(coded(BodyCodec.AVP, encodeUtf8('AV'))))).toBe('none');
  });

  it('the limit of transfers, for a tensor', () => {
    const own = createPath({ limits: resolveLimits({ maxMessageSize: 1, maxTransferSize: 100 }) });
    const told = createPath({ role: 'client' }, { maxPayloadSize: 1, limits: { maxTransferSize: 100 } });
    const stated = createPath({ peerExtensions: { link: '{"max_transfer":100}' } });
    for (const { path } of [own, told, stated]) {
      const send = (size: number) => errorCode(() => path.transfer(transferOf(size)));
      expect([send(100), send(101)]).toEqual(['none', 'transfer_too_large']);
    }
  });
});

describe('sending, by the state of the session', () => {
  const CLOSING = { state: 'closing', isOpen: false } as const;
  const CLOSE_SENT = { ...CLOSING, hasSentClose: true } as const;
  const ENDED = { ...CLOSE_SENT, state: 'closed', hasEnded: true } as const;
  /** A channel with a request of its own on stream 2, written, and a request of the peer on stream 1. */
  const streaming = (state: Partial<ChannelHost>) => {
    const created = createPath();
    const { path, outbox } = created;
    path.request(text('asked'));
    outbox.next(0);
    const frame = encodeBodyFrame({ ...text('x'), kind: LinkKind.REQUEST, streamId: 1 }, 0, 1);
    path.handleLinkFrame(frame, 0);
    Object.assign(created.host, state);
    return created;
  };
  /** Without the acknowledgement of the request, which goes along with the first frame. */
  const written = (outbox: Outbox) => {
    const kinds: number[] = [];
    for (let frame = outbox.next(0); frame !== undefined; frame = outbox.next(0))
      kinds.push(decodeLinkFrame(frame as Uint8Array).kind);
    return kinds.filter((kind) => kind !== LinkKind.ACK);
  };
  const refusal = new ProtocolError('unsupported', 'no');

  it.each([
    ['open', {}, 'none'],
    ['closing', CLOSING, 'session_closed'],
    ['closing, with CLOSE sent', CLOSE_SENT, 'session_closed'],
    ['ended', ENDED, 'session_closed'],
  ] as const)('%s', (_name, state, code) => {
    for (const extensions of [NEGOTIATED.extensions, {}]) {
      const { path } = createPath({}, { extensions }, state);
      expect(errorCode(() => path.send(text('x')))).toBe(code);
    }
    const { path } = createPath({}, {}, state);
    expect(errorCode(() => path.request(text('x')))).toBe(code);
    expect(errorCode(() => path.transfer(transferOf(1)))).toBe(code);
  });

  it.each([
    ['open', {}, [LinkKind.RESPONSE], [LinkKind.CHUNK], [LinkKind.END], [LinkKind.ERROR], [LinkKind.ERROR]],
    ['closing', CLOSING, [], [], [], [], [LinkKind.ERROR]],
    ['closing, with CLOSE sent', CLOSE_SENT, [], [], [], [], []],
    ['ended', ENDED, [], [], [], [], []],
  ] as const)('replies: %s', (_name, state, ...expected) => {
    const verbs = [
      (path: SessionChannel) => path.respond(1, text('x')),
      (path: SessionChannel) => path.chunk(1, text('x')),
      (path: SessionChannel) => path.end(1),
      (path: SessionChannel) => path.fail(1, new Error('x')),
      (path: SessionChannel) => path.refuse(1, refusal),
    ];
    for (const [i, verb] of verbs.entries()) {
      const { path, outbox, touches } = streaming(state);
      const before = touches();
      verb(path);
      expect(written(outbox)).toEqual(expected[i]);
      // The application is at work, so the session is not idle.
      expect(touches()).toBeGreaterThan(before);
    }
  });

  it.each([
    ['open', {}, [LinkKind.CANCEL]],
    ['closing', CLOSING, [LinkKind.CANCEL]],
    ['closing, with CLOSE sent', CLOSE_SENT, []],
    ['ended', ENDED, []],
  ] as const)('a cancel: %s', (_name, state, expected) => {
    const { path, outbox, events } = streaming(state);
    path.cancel(2);
    expect(written(outbox)).toEqual(expected);
    expect(events).toEqual([]);
  });

  it('a cancel of a request that was not written ends its stream at once', () => {
    const { path, outbox, events } = createPath();
    const streamId = path.request(text('x'));
    path.cancel(streamId);
    expect(events).toEqual([{ type: 'end', streamId }]);
    expect(written(outbox)).toEqual([]);
  });

  it('no request after GOAWAY, which counts until the session has ended', () => {
    for (const extensions of [NEGOTIATED.extensions, {}]) {
      for (const [state, error] of [
        [CLOSING, { code: 'draining', retryAfterMs: 5 }],
        [ENDED, { code: 'session_closed' }],
      ] as const) {
        const { path } = createPath({}, { extensions }, state);
        path.draining = { retryAfterMs: 5, deadline: 10 };
        expect(() => path.request(text('x'))).toThrow(expect.objectContaining(error));
      }
    }
  });

  it('nothing is consumed or wanted once the session has ended', () => {
    const { path, host } = streaming({});
    expect(path.isWanted(1)).toBe(true);
    Object.assign(host, ENDED);
    expect([path.isWanted(1), path.consume(1, 1)]).toEqual([false, false]);
  });

  it('before ACCEPT: nothing, and no verb on a stream has an effect', () => {
    const { host, events } = createPath({}, {}, { state: 'connecting', isOpen: false });
    const channel: SessionChannel = new ClosedChannel(host);
    for (const verb of [
      () => channel.send(text('x')),
      () => channel.request(text('x')),
      () => channel.transfer(transferOf(1)),
    ]) {
      expect(verb).toThrow('the session is connecting; nothing can be sent');
    }
    channel.respond(1, text('x'));
    channel.chunk(1, text('x'));
    channel.end(1);
    channel.fail(1, new Error('x'));
    channel.refuse(1, refusal);
    channel.cancel(1);
    channel.feed(1, Uint8Array.of(1));
    channel.holdCredit(true);
    expect([channel.consume(0, 9), channel.isWanted(1), channel.queuedOn(0)]).toEqual([false, false, 0]);
    expect([channel.openStreams, channel.framesUnconfirmed, channel.hasLink]).toEqual([0, 0, false]);
    expect(events).toEqual([]);
  });
});
