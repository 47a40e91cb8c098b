import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Algorithm, EncodingName, Extension, Subprotocol } from '../base/constants.js';
import { resolveLimits, resolveTimers } from '../base/limits.js';
import type { SessionOptions } from '../session/types.js';
import { anyCapabilities } from '../testing/capabilities.js';
import { errorCode } from '../testing/error-code.js';
import {
  AgreementCache,
  acceptOf,
  clientAgreement,
  helloOf,
  linkParameters,
  offerKey,
  offerOf,
  serverAgreement,
} from './agreement.js';
import { decodeControl, decodeControlJson, encodeControl, encodeControlJson } from './envelope.js';
import type { AcceptPayload, ControlMessage, HelloPayload, UnknownMessage } from './messages.js';
import { type Capabilities, negotiate } from './negotiate.js';

const CAPABILITIES: Capabilities = {
  algorithms: [Algorithm.M2M, Algorithm.TOKEN_NATIVE, Algorithm.NONE],
  encodings: [EncodingName.O200K_BASE, EncodingName.CL100K_BASE],
  vocabularies: {},
  securityScanning: true,
  maxPayloadSize: 1_000,
  extensions: { link: '{}', telepathy: '{"range":1}' },
};
const optionsWith = (capabilities: Partial<Capabilities> = {}, more: Partial<SessionOptions> = {}) =>
  ({
    role: 'server',
    subprotocol: Subprotocol.BINARY,
    capabilities: { ...CAPABILITIES, ...capabilities },
    limits: resolveLimits(),
    timers: resolveTimers(),
    ...more,
  }) satisfies SessionOptions;

const OFFER: HelloPayload = helloOf(optionsWith(), undefined);
const ACCEPT: AcceptPayload = {
  shape: 'flat',
  version: '1.0',
  algorithms: [Algorithm.NONE, Algorithm.M2M],
  encoding: EncodingName.CL100K_BASE,
  encodings: [],
  securityScanning: true,
  sessionTimeoutMs: 1,
  maxPayloadSize: 500,
  limits: { maxStreams: 3 },
  extensions: { link: '{"max_streams":3}' },
};
const accepted = (change: Partial<AcceptPayload>, offer: Partial<HelloPayload> = {}) =>
  clientAgreement({ ...OFFER, ...offer }, { ...ACCEPT, ...change });

describe('both ends', () => {
  const wires = {
    [Subprotocol.BINARY]: (message: ControlMessage) => decodeControl(encodeControl(message)),
    [Subprotocol.JSON]: (message: ControlMessage) => decodeControlJson(encodeControlJson(message)),
  };

  const payloadOf = <Payload>(message: ControlMessage | UnknownMessage) =>
    (message as { payload: unknown }).payload as Payload;

  it('pin the same facts, in every shape and envelope', () => {
    const shapes = fc.constantFrom('flat' as const, 'nested' as const);
    const subprotocols = fc.constantFrom(...Object.values(Subprotocol));
    fc.assert(
      fc.property(
        anyCapabilities,
        anyCapabilities,
        shapes,
        subprotocols,
        (client, server, shape, subprotocol) => {
          const wire = wires[subprotocol];
          const envelope = { sessionId: 's', timestamp: 1 };
          const offer = helloOf(optionsWith(client, { shape }), 'token');
          const hello = payloadOf<HelloPayload>(wire({ type: 'HELLO', ...envelope, payload: offer }));
          const options = optionsWith(server, { subprotocol });
          const outcome = negotiate(hello, options.capabilities);
          if (!outcome.accepted) return;
          const there = serverAgreement(outcome.agreement, hello, options);
          const payload = acceptOf(there, hello, options, undefined, undefined);
          const answer = wire({ type: 'ACCEPT', ...envelope, payload });
          const here = clientAgreement(offer, payloadOf<AcceptPayload>(answer));
          // The reference's shape cannot carry limits; the reasons stay at the server.
          const { reasons: _reasons, limits, ...facts } = there;
          expect(here).toMatchObject(facts);
          if (shape === 'flat') expect(here.limits).toEqual(limits);
          expect(Object.isFrozen(here) && Object.isFrozen(there)).toBe(true);
        },
      ),
      { numRuns: 500 },
    );
  });

  it('state the limits that the peer must respect, without unlimited ones', () => {
    const limits = resolveLimits({ maxStreams: 7, bytesPerSecond: Infinity, maxHandshakeSize: 9 });
    const options = optionsWith({}, { limits, timers: resolveTimers({ idleTimeoutMs: Infinity }) });
    const outcome = negotiate(OFFER, options.capabilities);
    if (!outcome.accepted) throw new Error('nothing in common');
    const pinned = serverAgreement(outcome.agreement, OFFER, options);
    expect(pinned.limits).toEqual({
      maxMessageSize: 16_777_216,
      maxTransferSize: 1_073_741_824,
      maxMetadataSize: 8_192,
      maxStreams: 7,
      messagesPerMinute: 6_000,
    });
    expect(acceptOf(pinned, OFFER, options, 'agent', undefined)).toMatchObject({
      sessionTimeoutMs: 0,
      agentId: 'agent',
      encodings: [pinned.encoding],
    });
  });

  it('have a link, and the extensions that need it, only in the binary subprotocol', () => {
    const extensions = { link: '{"max_streams":9}', resume: '{}', telepathy: '{}' };
    const agreedOn = (subprotocol: Subprotocol, offered: object) => {
      const options = optionsWith({ extensions }, { subprotocol });
      const outcome = negotiate({ ...OFFER, extensions: { ...offered } }, options.capabilities);
      return outcome.accepted && { ...serverAgreement(outcome.agreement, OFFER, options).extensions };
    };
    expect(agreedOn(Subprotocol.BINARY, extensions)).toEqual(extensions);
    expect(agreedOn(Subprotocol.JSON, extensions)).toEqual({ telepathy: '{}' });
    expect(agreedOn(Subprotocol.BINARY, { resume: '{}' })).toEqual({});
  });

  it('agree on no resume in the nested shape, whose ACCEPT could not carry a token', () => {
    const extensions = { link: '{}', resume: '{}', move: '1' };
    const options = optionsWith({ extensions });
    const offer = { ...OFFER, shape: 'nested', extensions } as const;
    const outcome = negotiate(offer, options.capabilities);
    const agreed = outcome.accepted ? serverAgreement(outcome.agreement, offer, options).extensions : {};
    expect({ ...agreed }).toEqual({ link: '{}' });
  });
});

describe('a HELLO', () => {
  it('states the capabilities of the client, the preferred ones first, and its token', () => {
    expect(helloOf(optionsWith({}, { agentId: 'a' }), 'secret')).toEqual({
      shape: 'flat',
      version: '1.0',
      algorithms: CAPABILITIES.algorithms,
      encodings: CAPABILITIES.encodings,
      preferredEncoding: null,
      securityScanning: true,
      maxPayloadSize: 1_000,
      supportsStreaming: false,
      agentId: 'a',
      extensions: CAPABILITIES.extensions,
      auth: { token: 'secret' },
    });
    expect(helloOf(optionsWith({ encodings: [] }), undefined)).toMatchObject({
      preferredEncoding: null,
      auth: undefined,
    });
    expect(helloOf(optionsWith({}, { shape: 'nested' }), undefined).version).toBe('3.0');
  });
});

it('an offer is the same for any agent and any session to resume, and different offers differ', () => {
  const resume = { sessionId: 's', token: 't', received: 1, attempt: 1 };
  const equal = (a: HelloPayload, b: HelloPayload) => offerKey(offerOf(a)) === offerKey(offerOf(b));
  expect(equal(OFFER, { ...OFFER, agentId: 'a', auth: { token: 'x' }, resume })).toBe(true);
  for (const change of [
    { algorithms: [Algorithm.NONE] },
    { algorithms: [...OFFER.algorithms].reverse() },
    { encodings: [] },
    { preferredEncoding: 'CL100K_BASE' },
    { maxPayloadSize: 1 },
    { extensions: {} },
    { version: '1.1' },
    { shape: 'nested' },
  ] satisfies Partial<HelloPayload>[])
    expect(equal(OFFER, { ...OFFER, ...change })).toBe(false);
});

describe('the answers of a server', () => {
  const answer = (cache: AgreementCache, hello: HelloPayload, scope = '') =>
    cache.recall(hello, scope, (offer, key) => ({
      offer,
      key,
      outcome: negotiate(offer, CAPABILITIES),
      negotiated: undefined,
    }));

  it('are shared by equal offers and hold nothing about their clients', () => {
    const cache = new AgreementCache();
    const first = answer(cache, { ...OFFER, agentId: 'a', auth: { token: 'secret' } });
    expect(answer(cache, { ...OFFER, agentId: 'b', auth: { token: 'other' } })).toBe(first);
    expect(JSON.stringify(first)).not.toContain('secret');
    expect(answer(cache, OFFER, 'another subprotocol')).not.toBe(first);
    expect(answer(cache, { ...OFFER, encodings: [] })).not.toBe(first);
  });

  it('are bounded in number and size against generated offers', () => {
    const cache = new AgreementCache();
    const first = answer(cache, OFFER);
    for (let size = 1; size <= 63; size++) answer(cache, { ...OFFER, maxPayloadSize: size });
    expect(answer(cache, OFFER)).toBe(first);
    answer(cache, { ...OFFER, maxPayloadSize: 64 });
    expect(answer(cache, OFFER)).not.toBe(first);
    const large = { ...OFFER, extensions: { x: 'x'.repeat(5000) } };
    expect(answer(cache, large)).not.toBe(answer(cache, large));
  });
});

describe('an ACCEPT', () => {
  it('is accepted unchanged if it stays within the offer, in the order of the offer', () => {
    expect(accepted({})).toEqual({
      version: '1.0',
      algorithms: ['M2M', 'NONE'],
      encoding: 'CL100K_BASE',
      securityScanning: true,
      maxPayloadSize: 500,
      limits: { maxStreams: 3 },
      extensions: Object.assign(Object.create(null), { link: '{"max_streams":3}' }),
      reasons: [],
    });
  });

  it.each<[string, Partial<AcceptPayload>]>([
    ['an algorithm', { algorithms: ['M2M', 'DICTIONARY'] }],
    ['no algorithm', { algorithms: [] }],
    ['TOKEN_NATIVE without an encoding', { algorithms: ['TOKEN_NATIVE'], encoding: null }],
    ['an encoding', { encoding: 'LLAMA_BPE' }],
    ['an extension', { extensions: { seal: '{}' } }],
    ['an extension that only a prototype has', { extensions: { constructor: '{}' } }],
    ['a larger payload', { maxPayloadSize: 1_001 }],
    ['a version', { version: '2.0' }],
    ['no version', { version: '' }],
  ])('that goes beyond the offer with %s is refused', (_what, change) => {
    expect(errorCode(() => accepted(change))).toBe('bad_acceptance');
  });

  it('that names no algorithm agrees on all that were offered, if the two ends leave out standard values', () => {
    const extensions = { std: '1' };
    const all = accepted({ algorithms: undefined, extensions }, { extensions });
    expect(all.algorithms).toEqual(OFFER.algorithms);
    expect(() => accepted({ algorithms: [] })).toThrow('no usable algorithm');
    // None that is known here is not all of them.
    expect(() => accepted({ algorithms: [], extensions }, { extensions })).toThrow('no usable algorithm');
    expect(() => accepted({ algorithms: undefined, extensions })).toThrow(
      'an extension that was not offered',
    );
  });

  it('may state the offered size, no size, or any size if none was offered', () => {
    expect(accepted({ maxPayloadSize: 1_000 }).maxPayloadSize).toBe(1_000);
    expect(accepted({ maxPayloadSize: 0 }).maxPayloadSize).toBe(1_000);
    expect(accepted({ maxPayloadSize: 9_999 }, { maxPayloadSize: 0 }).maxPayloadSize).toBe(9_999);
  });

  it('does not enable scanning that was not offered', () => {
    expect(accepted({}, { securityScanning: false }).securityScanning).toBe(false);
    expect(accepted({ securityScanning: false }).securityScanning).toBe(false);
  });

  it('is refused if it agrees on TOKEN_NATIVE but on no encoding', () => {
    const refused = (algorithms: Algorithm[]) => errorCode(() => accepted({ algorithms, encoding: null }));
    expect(refused(['TOKEN_NATIVE', 'NONE'])).toBe('bad_acceptance');
    expect(refused(['NONE'])).toBe('none');
  });

  it('is refused if it chooses an encoding with another vocabulary of that name', () => {
    const stated = (hashes: object) => ({ [Extension.VOCABULARIES]: JSON.stringify(hashes) });
    const refused = (ours: object, theirs: object) =>
      errorCode(() => accepted({ extensions: stated(theirs) }, { extensions: stated(ours) }));
    expect(refused({ CL100K_BASE: 'a' }, { CL100K_BASE: 'b' })).toBe('bad_acceptance');
    for (const [ours, theirs] of [
      [{ CL100K_BASE: 'a' }, { CL100K_BASE: 'a' }],
      [{ CL100K_BASE: 'a' }, {}],
      [{}, { CL100K_BASE: 'b' }],
      [{ O200K_BASE: 'a' }, { O200K_BASE: 'b' }],
    ] as const) {
      expect(refused(ours, theirs)).toBe('none');
    }
  });
});

describe('a nested ACCEPT states the capabilities of the server, so it', () => {
  const nested = (change: Partial<AcceptPayload>, offer: Partial<HelloPayload> = {}) =>
    accepted({ shape: 'nested', version: '3.0', encodings: ['CL100K_BASE'], ...change }, offer);

  it('may go beyond the offer, and is reduced to it', () => {
    const result = nested({ algorithms: Object.values(Algorithm), extensions: { seal: '', link: '' } });
    expect(result.algorithms).toEqual(OFFER.algorithms);
    expect(Object.keys(result.extensions)).toEqual(['link']);
  });

  it('agrees on the smaller size of the two that are stated', () => {
    expect(nested({ maxPayloadSize: 500 }).maxPayloadSize).toBe(500);
    expect(nested({ maxPayloadSize: 5_000 }).maxPayloadSize).toBe(1_000);
    expect(nested({ maxPayloadSize: 0 }).maxPayloadSize).toBe(1_000);
  });

  it.each<[EncodingName | null, EncodingName[], EncodingName | null]>([
    ['CL100K_BASE', ['CL100K_BASE', 'O200K_BASE'], 'CL100K_BASE'],
    ['LLAMA_BPE', ['LLAMA_BPE', 'CL100K_BASE'], 'CL100K_BASE'],
    [null, ['CL100K_BASE', 'O200K_BASE'], 'O200K_BASE'],
    ['CL100K_BASE', ['O200K_BASE'], 'O200K_BASE'],
    ['CL100K_BASE', [], null],
    ['LLAMA_BPE', ['LLAMA_BPE'], null],
  ])('with the preference %s and the list %j agrees on %s', (encoding, encodings, expected) => {
    expect(nested({ encoding, encodings }).encoding).toBe(expected);
  });

  it('is reduced to the encodings for which both ends have the same vocabulary', () => {
    const stated = (hashes: object) => ({ [Extension.VOCABULARIES]: JSON.stringify(hashes) });
    const both = ['O200K_BASE', 'CL100K_BASE'] as const;
    const result = nested(
      { encoding: 'O200K_BASE', encodings: both, extensions: stated({ O200K_BASE: 'b', CL100K_BASE: 'c' }) },
      { extensions: stated({ O200K_BASE: 'a', CL100K_BASE: 'c' }) },
    );
    expect(result.encoding).toBe('CL100K_BASE');
  });
});

describe('link parameters', () => {
  const parameters = (link: string | undefined) =>
    linkParameters(link === undefined ? {} : { [Extension.LINK]: link });
  const UNSTATED = {
    takesMessages: true,
    maxStreams: Infinity,
    messageWindow: Infinity,
    streamWindow: Infinity,
    maxTransfer: Infinity,
  };

  it('have the stated values; unstated ones are unlimited', () => {
    const all = '{"max_streams":5,"message_window":6,"stream_window":7,"max_transfer":8,"x":9}';
    expect(parameters(all)).toEqual({
      takesMessages: true,
      maxStreams: 5,
      messageWindow: 6,
      streamWindow: 7,
      maxTransfer: 8,
    });
    expect(parameters('{"messages":false}')).toEqual({ ...UNSTATED, takesMessages: false });
    for (const read of ['{"messages":true}', '{"messages":null}']) expect(parameters(read)).toEqual(UNSTATED);
    expect(() => parameters('{"messages":0}')).toThrow('messages must be true or false');
    expect(parameters('{"stream_window":7}')).toEqual({ ...UNSTATED, streamWindow: 7 });
    for (const empty of [undefined, '{}', '{"max_streams":null}'])
      expect(parameters(empty)).toEqual(UNSTATED);
    expect(parameters('{"max_streams":1}').maxStreams).toBe(1);
    expect(parameters('{"max_streams":1e300}').maxStreams).toBe(1e300);
  });

  const NAMES = ['max_streams', 'message_window', 'stream_window', 'max_transfer'];
  it.each(['0', '-1', '1.5', '"5"', 'true', '{}', '[1]'])('of %s are refused', (value) => {
    for (const name of NAMES) expect(errorCode(() => parameters(`{"${name}":${value}}`))).toBe('bad_message');
  });

  it('that are not a JSON object are refused', () => {
    for (const broken of ['', '{', 'yes', 'null', '[]', '"x"', '5'])
      expect(errorCode(() => parameters(broken))).toBe('bad_message');
  });
});
