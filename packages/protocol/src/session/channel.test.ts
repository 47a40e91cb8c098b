import { describe, expect, it } from 'vitest';
import { Algorithm } from '../base/constants.js';
import { resolveLimits } from '../base/limits.js';
import { encodeUtf8 } from '../base/text.js';
import { BodyCodec, type CodedBody, plainBody } from '../codec/body.js';
import type { Negotiated } from '../control/agreement.js';
import type { DataPayload } from '../control/messages.js';
import { decodeLinkFrame, encodeBodyFrame, LinkKind } from '../link/frame.js';
import { createOutbox } from '../link/outbox.js';
import { errorCode } from '../testing/error-code.js';
import { encodeBareFrame, encodeTextForm } from './bare.js';
import { DataPath, type DataPathOptions } from './channel.js';

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
const createPath = (change: Partial<DataPathOptions> = {}, negotiated: Partial<Negotiated> = {}) => {
  const outbox = createOutbox();
  const path = new DataPath({
    role: 'server',
    limits: resolveLimits(),
    negotiated: { ...NEGOTIATED, ...negotiated },
    ownExtensions: {},
    peerExtensions: {},
    outbox,
    sendData: undefined,
    ...change,
  });
  return { path, outbox };
};
const WITHOUT_LINK = { extensions: {} };
const coded = (codec: BodyCodec, bytes: Uint8Array): CodedBody => ({ ...plainBody(bytes), codec });
const text = (value: string) => plainBody(encodeUtf8(value));
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

  it('bare data break the protocol', () => {
    const { path } = createPath();
    for (const data of ['hello', '', Uint8Array.of(0, 1)])
      expect(errorCode(() => path.handleBare(data, 0))).toBe('bad_frame');
  });

  it('a body is handed to the link that asks for it', () => {
    const { path } = createPath();
    expect(path.linkFor(text('x'))).toBe(path.link);
  });
});

describe('without the link', () => {
  it('bodies go out as bare frames, and nothing else does', () => {
    const { path, outbox } = createPath({}, WITHOUT_LINK);
    expect(path.link).toBeUndefined();
    for (const body of [text('hello'), coded(BodyCodec.TOKEN_NATIVE, Uint8Array.of(5))]) {
      path.send(body);
      expect(outbox.next(0)).toEqual(encodeBareFrame(body, 'CL100K_BASE'));
    }
    expect(errorCode(() => path.linkFor(text('x')))).toBe('unsupported');
    expect(outbox.next(0)).toBeUndefined();
  });

  it('bare frames come in as messages', () => {
    const { path } = createPath({}, WITHOUT_LINK);
    expect(path.handleBare('hello', 0)).toMatchObject({
      type: 'message',
      body: { bytes: encodeUtf8('hello') },
    });
    expect(path.handleBare(Uint8Array.of(0, 7), 0)).toMatchObject({
      body: { codec: BodyCodec.TOKEN_NATIVE, bytes: Uint8Array.of(7) },
    });
    expect(path.handleLinkFrame(linkFrame(text('x')), 0)).toBeUndefined();
  });

  it('a body that has no unambiguous bare form sends nothing', () => {
    const { path, outbox } = createPath({}, WITHOUT_LINK);
    expect(errorCode(() => path.send(text('#TK|C|AA==')))).toBe('unrepresentable');
    expect(outbox.next(0)).toBeUndefined();
  });
});

describe('in JSON envelopes', () => {
  const json = () => {
    const envelopes: DataPayload[] = [];
    return {
      ...createPath({ sendData: (payload) => envelopes.push(payload) }, WITHOUT_LINK),
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

  it('there are no tensors', () => {
    const { path, envelopes } = json();
    expect(errorCode(() => path.send(coded(BodyCodec.AVP, encodeUtf8('AV'))))).toBe('unsupported');
    expect(envelopes).toEqual([]);
  });
});

describe('what was not negotiated', () => {
  const bodies = [
    [BodyCodec.PLAIN, 'NONE'],
    [BodyCodec.TOKEN_NATIVE, 'TOKEN_NATIVE'],
    [BodyCodec.M2M, 'M2M'],
    [BodyCodec.BROTLI, 'BROTLI'],
    [BodyCodec.TOKEN, 'TOKEN'],
    [BodyCodec.DICTIONARY, 'DICTIONARY'],
  ] as const;

  it.each(bodies)(
    'is refused where a body is in codec %i and only others than %s were',
    (codec, algorithm) => {
      const body = coded(codec, encodeUtf8('x'));
      const others = Object.values(Algorithm).filter((name) => name !== algorithm);
      for (const [algorithms, code] of [
        [others, 'bad_frame'],
        [[algorithm], 'none'],
      ] as const) {
        const linked = createPath({}, { algorithms });
        expect(errorCode(() => linked.path.handleLinkFrame(linkFrame(body), 0))).toBe(code);
        const bare = createPath({}, { ...WITHOUT_LINK, algorithms });
        const frame = encodeBareFrame(body, 'CL100K_BASE');
        expect(errorCode(() => bare.path.handleBare(frame, 0))).toBe(code);
      }
    },
  );

  it('includes context coding, and tensors but as requests; not an empty body', () => {
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
  type Case = readonly [string, Partial<DataPathOptions>, Partial<Negotiated>];
  const cases: Case[] = [
    ['what was negotiated', {}, { maxPayloadSize: 100 }],
    [
      'what the server announced',
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
      // The content counts where it is larger than its coded form.
      const small = coded(BodyCodec.TOKEN_NATIVE, Uint8Array.of(1));
      expect(send({ ...small, originalLength: 100 })).toBe('none');
      expect(send({ ...small, originalLength: 101 })).toBe('message_too_large');
    });
  }

  it('nothing, where a server would be told what only clients are', () => {
    const { path } = createPath({ role: 'server' }, { limits: { maxMessageSize: 1, maxTransferSize: 1 } });
    expect(errorCode(() => path.send(text('xx')))).toBe('none');
    expect(errorCode(() => path.send(coded(BodyCodec.AVP, encodeUtf8('AV'))))).toBe('none');
  });

  it('the limit of transfers, for a tensor', () => {
    const own = createPath({ limits: resolveLimits({ maxMessageSize: 1, maxTransferSize: 100 }) });
    const told = createPath({ role: 'client' }, { maxPayloadSize: 1, limits: { maxTransferSize: 100 } });
    const stated = createPath({ peerExtensions: { link: '{"max_transfer":100}' } });
    for (const { path } of [own, told, stated]) {
      const send = (size: number) => errorCode(() => path.linkForTransfer({ payloadSize: size }));
      expect([send(100), send(101)]).toEqual(['none', 'transfer_too_large']);
    }
    expect(errorCode(() => createPath({}, WITHOUT_LINK).path.linkForTransfer({ payloadSize: 1 }))).toBe(
      'unsupported',
    );
  });
});
