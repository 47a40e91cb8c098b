import type { Message } from '@parlance/protocol';
import { decodeUtf8, ProtocolError, RequestError, resolveLimits } from '@parlance/protocol/client';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { packError, unpackError } from './packed-error.js';
import {
  buffersOf,
  chargeOfMessage,
  type PackedMessage,
  packMessage,
  SharedMessage,
} from './packed-message.js';

/** Messages that cross between threads, as structured clone leaves them. */

const LIMITS = resolveLimits();

function messageOf(bytes: Uint8Array, changes: Partial<Message> = {}): Message {
  return {
    from: 'agent-1',
    algorithm: 'NONE',
    bytes,
    get text() {
      return decodeUtf8(bytes);
    },
    tokens: undefined,
    header: undefined,
    tensor: undefined,
    metadata: {},
    securityStatus: undefined,
    codedLength: bytes.length,
    json: () => expect.fail('not used by the host'),
    ...changes,
  };
}

function cross(message: Message): SharedMessage {
  const packed = packMessage(message);
  const clone: PackedMessage = structuredClone(packed, { transfer: [...buffersOf(packed)] });
  return new SharedMessage(clone, { limits: LIMITS });
}

describe('a message that crosses to a tab', () => {
  it('keeps any bytes, and its text if they are text', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 300 }), (bytes) => {
        const message = cross(messageOf(bytes));
        expect(message.bytes).toEqual(bytes);
        expect(message).toMatchObject({ from: 'agent-1', algorithm: 'NONE', codedLength: bytes.length });
        const text = () => decodeUtf8(bytes);
        try {
          expect(message.text).toBe(text());
        } catch (error) {
          expect(text).toThrow(expect.objectContaining({ code: (error as ProtocolError).code }));
        }
      }),
    );
  });

  it('keeps any text and JSON', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), fc.jsonValue(), (text, value) => {
        expect(cross(messageOf(new TextEncoder().encode(text))).text).toBe(text);
        const json = JSON.stringify(value);
        expect(cross(messageOf(new TextEncoder().encode(json))).json()).toEqual(JSON.parse(json));
      }),
    );
  });

  it('does not take the memory around its bytes along', () => {
    const memory = new Uint8Array(10_000).fill(0xff);
    const packed = packMessage(messageOf(memory.subarray(5, 8)));
    expect(packed.bytes?.buffer.byteLength).toBe(3);
    structuredClone(packed, { transfer: [...buffersOf(packed)] });
    expect(memory.length).toBe(10_000);
    expect(chargeOfMessage(packMessage(messageOf(memory)))).toBe(10_256);
  });

  it('keeps the text, the tokens and the bytes of tokens that end inside a character', () => {
    const part = {
      algorithm: 'TOKEN_NATIVE',
      tokens: Uint32Array.of(1, 2),
      text: 'whole and ',
    } as const;
    const message = cross(messageOf(Uint8Array.of(0x61, 0xf0, 0x9f), part));
    expect(message.text).toBe('whole and ');
    expect(message.tokens).toEqual(part.tokens);
    expect(message.bytes).toEqual(Uint8Array.of(0x61, 0xf0, 0x9f));
  });

  it('keeps a tensor, and the errors of what cannot be decoded', () => {
    const data = new Uint8Array(new Float32Array([1, 2]).buffer);
    const tensor = { data, shape: [2], dtype: 'float32', byteLength: 8 } as unknown as Message['tensor'];
    const message = cross(messageOf(data, { algorithm: 'AVP', tensor }));
    expect(message.tensor).toEqual(tensor);
    expect(message.bytes).toEqual(data);
    expect(() => message.json()).toThrow(expect.objectContaining({ code: 'unsupported' }));

    const broken = messageOf(data);
    Object.defineProperty(broken, 'bytes', {
      get: () => {
        throw new ProtocolError('bad_compression', 'broken');
      },
    });
    expect(() => cross(broken).bytes).toThrow(expect.objectContaining({ code: 'bad_compression' }));
  });
});

describe('an error that crosses', () => {
  it('keeps its class and everything that it says', () => {
    fc.assert(
      fc.property(
        fc.jsonValue(),
        fc.string(),
        fc.boolean(),
        fc.nat(),
        (data, message, retryable, retryAfterMs) => {
          const options = { side: 'remote', retryable, retryAfterMs } as const;
          const own = new RequestError('quota_1', message, { ...options, data });
          const ours = new ProtocolError('rejected', message, { ...options, closeCode: 4_403 });
          for (const error of [own, ours]) {
            const crossed = unpackError(structuredClone(packError(error)));
            expect(crossed).toBeInstanceOf(error.constructor);
            expect({ ...crossed, message: crossed.message }).toEqual({ ...error, message: error.message });
          }
        },
      ),
    );
  });

  it('is internal, without its text, if it is not one of Parlance', () => {
    const crossed = unpackError(structuredClone(packError(new TypeError('a secret'))));
    expect(crossed.code).toBe('internal');
    expect(crossed.message).not.toContain('secret');
  });
});
