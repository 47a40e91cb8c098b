import { BodyCodec, type LaterCodec, type Negotiated, type ReceivedBody } from '@parlance/protocol';
import { decodeMetadata, encodeMetadata } from '@parlance/protocol/internal';
import { describe, expect, it } from 'vitest';
import { errorCode } from '../../../protocol/src/testing/error-code.js';
import * as recoding from '../session/recode.js';
import * as addressing from './addressed.js';

const having = (algorithms: Negotiated['algorithms'], encoding: Negotiated['encoding'] = 'CL100K_BASE') =>
  ({ algorithms, encoding }) as Negotiated;
const body = (codec: BodyCodec, bytes: Uint8Array = Uint8Array.of(1)): ReceivedBody => ({
  codec,
  bytes,
  originalLength: undefined,
  secret: false,
  metadata: undefined,
  charge: 16,
});
const NOTHING = new Uint8Array(0);
const isSharedCoding = (
  received: ReceivedBody,
  from: Negotiated,
  to: Negotiated,
  awaited: readonly LaterCodec[] = [],
) => recoding.isSharedCoding(received, from, to, new Set(awaited));

describe('a body', () => {
  const all = having(['M2M', 'TOKEN_NATIVE', 'BROTLI', 'NONE']);

  it.each([
    ['M2M', BodyCodec.M2M],
    ['TOKEN_NATIVE', BodyCodec.TOKEN_NATIVE],
    ['BROTLI', BodyCodec.BROTLI],
    ['NONE', BodyCodec.PLAIN],
  ] as const)('in %s is forwarded unchanged if the receiver has that codec too', (algorithm, codec) => {
    expect(isSharedCoding(body(codec), all, having([algorithm]))).toBe(true);
    expect(isSharedCoding(body(codec), all, having([]))).toBe(false);
  });

  it('is coded again while the receiver has not loaded its codec', () => {
    expect(isSharedCoding(body(BodyCodec.BROTLI), all, all, ['BROTLI', 'CONTEXT'])).toBe(false);
    expect(isSharedCoding(body(BodyCodec.BROTLI), all, all, ['CONTEXT'])).toBe(true);
  });

  it('of tokens is forwarded if both sessions have the same encoding', () => {
    const tokens = body(BodyCodec.TOKEN_NATIVE);
    expect(isSharedCoding(tokens, all, having(['TOKEN_NATIVE'], 'O200K_BASE'))).toBe(false);
  });

  it('coded against earlier ones is never forwarded unchanged', () => {
    expect(isSharedCoding(body(BodyCodec.CONTEXT), all, all)).toBe(false);
  });

  it('that is empty and plain is always forwarded, but an empty one in another codec is not', () => {
    const none = having([]);
    expect(isSharedCoding(body(BodyCodec.PLAIN, NOTHING), all, none)).toBe(true);
    for (const codec of [BodyCodec.M2M, BodyCodec.TOKEN_NATIVE, BodyCodec.BROTLI])
      expect(isSharedCoding(body(codec, NOTHING), all, none)).toBe(false);
  });
});

describe('a message', () => {
  const sent = (metadata: Record<string, boolean | string> | undefined) => ({
    ...{ codec: BodyCodec.PLAIN, bytes: Uint8Array.of(1), originalLength: 1, secret: false },
    metadata: encodeMetadata(metadata, 1_000),
  });
  const marked = (
    metadata: Record<string, boolean | string> | undefined,
    isRedelivered: boolean,
    most = 1_000,
  ) => decodeMetadata(addressing.marked(sent(metadata), isRedelivered, most).metadata, 4);

  it('says that it may have been delivered before only if the server says so', () => {
    expect(marked(undefined, false)).toEqual({});
    expect(marked({ a: 'b', '@redelivered': true }, false)).toEqual({ a: 'b' });
    expect(marked({ '@redelivered': true }, false)).toEqual({});
    expect(marked(undefined, true)).toEqual({ '@redelivered': true });
    expect(marked({ a: 'b', '@redelivered': false }, true)).toEqual({ a: 'b', '@redelivered': true });
  });

  it('is refused if it cannot say so', () => {
    const size = 1 + '@redelivered'.length + 2;
    expect(marked(undefined, true, size)).toEqual({ '@redelivered': true });
    expect(errorCode(() => marked(undefined, true, size - 1))).toBe('metadata_too_large');
    const broken = { ...sent(undefined), metadata: Uint8Array.of(0xc1) };
    expect(errorCode(() => addressing.marked(broken, false, 1_000))).toBe('bad_message');
  });
});
