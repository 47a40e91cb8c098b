import { randomBytes } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { MAX_EARLY_HELLO } from '@parlance/protocol/internal';
import { describe, expect, it } from 'vitest';
import { takeEarlyHello } from './early-hello.js';

const request = (...values: readonly string[]): IncomingMessage =>
  ({
    headers: { host: 'a', 'sec-websocket-protocol': values.join(', ') },
    rawHeaders: ['Host', 'a', ...values.flatMap((value) => ['Sec-WebSocket-Protocol', value])],
  }) as unknown as IncomingMessage;

const offer = (bytes: Uint8Array) => `hello.${Buffer.from(bytes).toString('base64url')}`;
const offers = (...more: readonly string[]) => `m2m.v1, m2m.v1.hello, ${more.join(', ')}`;
const BYTES = Uint8Array.of(0xfb, 0xff, 0xfe, 0x81);

describe('HELLO in an upgrade request', () => {
  it('is taken out of the headers, in each form that they have', () => {
    const one = request(offers(offer(BYTES)));
    expect(takeEarlyHello(one)).toEqual(Buffer.from(BYTES));
    expect(one.headers['sec-websocket-protocol']).toBe('m2m.v1, m2m.v1.hello');
    expect(one.rawHeaders).toEqual(['Host', 'a', 'Sec-WebSocket-Protocol', 'm2m.v1, m2m.v1.hello']);
    const several = request('m2m.v1', `m2m.v1.hello,${offer(BYTES)}`);
    expect(takeEarlyHello(several)).toEqual(Buffer.from(BYTES));
    expect(JSON.stringify([several.headers, several.rawHeaders])).not.toContain('hello.-');
  });

  it.each([1, 2, 3, MAX_EARLY_HELLO - 1, MAX_EARLY_HELLO])('is read with %i bytes', (size) => {
    const bytes = randomBytes(size);
    expect(takeEarlyHello(request(offers(offer(bytes))))).toEqual(bytes);
  });

  it.each([
    ['one byte too many', offers(offer(randomBytes(MAX_EARLY_HELLO + 1)))],
    ['no bytes', offers('hello.')],
    ['padding', offers('hello.AA==')],
    ['the other alphabet', offers('hello.+/8A')],
    ['bits behind the last byte', offers('hello.AB')],
    ['a single character', offers('hello.A')],
    ['a length that no bytes have', offers('hello.AAAAA')],
    ['another character', offers('hello.AA~A')],
    ['a character beyond ASCII', offers('hello.AAéA')],
    ['a space', offers('hello.AA AA')],
    ['a NUL', offers('hello.AA\0A')],
    ['a second one', offers(offer(BYTES), offer(Uint8Array.of(1)))],
    ['the same one again', offers(offer(BYTES), offer(BYTES))],
    ['no name for a server that has read it', `m2m.v1, ${offer(BYTES)}`],
  ])('is not read with %s, and still in no header', (_what, header) => {
    const one = request(header);
    expect(takeEarlyHello(one)).toBeUndefined();
    expect(JSON.stringify([one.headers, one.rawHeaders])).not.toMatch(/[ ,"]hello\./);
    expect(one.headers['sec-websocket-protocol']).toContain('m2m.v1');
  });

  it('leaves other headers as they are', () => {
    for (const header of ['m2m.v1', 'm2m.v1, m2m.v1.hello', 'hello, m2m.v1', 'm2m.v1.hello.AAAA, m2m.v1']) {
      const one = request(header);
      expect(takeEarlyHello(one)).toBeUndefined();
      expect(one.headers['sec-websocket-protocol']).toBe(header);
    }
    const none = { headers: {}, rawHeaders: [] } as unknown as IncomingMessage;
    expect(takeEarlyHello(none)).toBeUndefined();
    expect(none.headers).toEqual({});
  });
});
