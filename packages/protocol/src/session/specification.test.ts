import { describe, expect, it } from 'vitest';
import { CloseCode } from '../base/close-codes.js';
import { encodeUtf8 } from '../base/text.js';
import { encodeControl } from '../control/envelope.js';
import { encodeMap } from '../control/maps.js';
import type { ControlMessage } from '../control/messages.js';
import { createSimulation } from '../testing/simulation.js';

/** Frames with which a client breaks a numbered requirement of the specification, and the close code that follows. */

const { BAD_FRAME, TOO_LARGE } = CloseCode;

const bytes = (digits: string): Uint8Array => Uint8Array.from(Buffer.from(digits.replaceAll(' ', ''), 'hex'));
const control = (message: Pick<ControlMessage, 'type' | 'payload'>, sessionId = 'sess_test'): Uint8Array =>
  encodeControl({ ...message, sessionId, timestamp: 1 } as ControlMessage);
const joined = (head: string, length: number): Uint8Array =>
  Uint8Array.of(...bytes(head), ...new Uint8Array(length).fill(0x61));

const AUTH = control({ type: 'AUTH', payload: { token: 'token' } });

const CASES: readonly (readonly [
  requirement: string,
  what: string,
  frames: readonly Uint8Array[],
  code: number,
])[] = [
  ['CONV-2', 'an overlong varint', [bytes('11 81 00 00')], BAD_FRAME],
  ['WS-12', 'a first byte that begins no frame', [bytes('03')], BAD_FRAME],
  ['WS-12', 'a frame without bytes', [bytes('')], BAD_FRAME],
  ['WS-13', 'bare token IDs', [bytes('00 b2 4d')], BAD_FRAME],
  ['WS-13', 'a bare M2M frame', [encodeUtf8('#M2M|1|')], BAD_FRAME],
  ['WS-13', 'a bare tensor', [bytes('41 56 01 00 00 00 00 00 00 00 00 00')], BAD_FRAME],
  ['CTL-1', 'a type that is not text', [encodeMap({ type: 1, timestamp: 1 })], BAD_FRAME],
  ['CTL-1', 'an envelope without a time', [encodeMap({ type: 'PING' })], BAD_FRAME],
  ['CTL-1', 'a payload that is a list', [encodeMap({ type: 'PING', timestamp: 1, payload: [] })], BAD_FRAME],
  [
    'CTL-1',
    'a code of CLOSE of 65 characters',
    [control({ type: 'CLOSE', payload: { reason: 'NORMAL', message: '', code: 'x'.repeat(65) } })],
    BAD_FRAME,
  ],
  ['CTL-3', 'the ID of another session', [control({ type: 'PING', payload: {} }, 'sess_other')], BAD_FRAME],
  [
    'CTL-7',
    'GOAWAY from a client',
    [control({ type: 'GOAWAY', payload: { retryAfterMs: 0, deadline: 0 } })],
    BAD_FRAME,
  ],
  ['CTL-7', 'WAIT from a client', [encodeMap({ type: 'WAIT', timestamp: 1 })], BAD_FRAME],
  ['CTL-9', 'a control message of 20 KiB and a byte', [joined('81 da 51 00', 20_481)], TOO_LARGE],
  ['CTL-11', 'an extension type', [bytes('81 a4 74 79 70 65 d4 01 00')], BAD_FRAME],
  ['AUTH-4', 'a second AUTH before the answer', [AUTH, AUTH], BAD_FRAME],
  [
    'READY-3',
    'READY that was not agreed on',
    [control({ type: 'READY', payload: { codecs: [] } })],
    BAD_FRAME,
  ],
  [
    'DATA-2',
    'DATA in m2m.v1',
    [control({ type: 'DATA', payload: { algorithm: 'NONE', content: 'a' } })],
    BAD_FRAME,
  ],
  ['LINK-3', 'an unknown kind', [bytes('1a 01')], BAD_FRAME],
  ['LINK-3', 'an unknown codec', [bytes('11 01 08')], BAD_FRAME],
  ['LINK-3', 'a frame that ends before its codec', [bytes('11 01')], BAD_FRAME],
  ['LINK-4', 'a body in context, which was not agreed on', [bytes('11 01 04 00')], BAD_FRAME],
  ['LINK-5', 'a byte behind the count of an ack', [bytes('18 00 00')], BAD_FRAME],
  ['LINK-5', 'a byte behind the limit of credit', [bytes('19 00 01 00')], BAD_FRAME],
  ['LINK-5', 'a byte behind a cancel', [bytes('11 01 00'), bytes('16 01 00')], BAD_FRAME],
  ['LINK-8', 'another codec within a body', [bytes('11 01 10 04 61'), bytes('11 01 03 61 61 61')], BAD_FRAME],
  ['LINK-8', 'another kind within a body', [bytes('11 01 10 04 61'), bytes('12 01 00 61 61 61')], BAD_FRAME],
  ['LINK-8', 'metadata within a body', [bytes('11 01 10 04 61'), bytes('11 01 80 61 61 61')], BAD_FRAME],
  ['LINK-9', 'MORE for a body of 0 bytes', [bytes('11 01 10 00')], BAD_FRAME],
  ['LINK-9', 'MORE although all bytes are there', [bytes('11 01 10 01 61')], BAD_FRAME],
  ['LINK-9', 'a later frame without bytes', [bytes('11 01 10 04 61'), bytes('11 01 10')], BAD_FRAME],
  ['LINK-9', 'fewer bytes than the total', [bytes('11 01 10 04 61'), bytes('11 01 00 61')], BAD_FRAME],
  ['LINK-11', 'a total above the message limit', [bytes('11 01 10 81 80 80 08 61')], TOO_LARGE],
  ['LINK-11', 'an expanded length above it', [bytes('11 01 03 81 80 80 08 61')], TOO_LARGE],
  ['LINK-13', '8 KiB and a byte of metadata', [bytes('11 01 80 81 40')], TOO_LARGE],
  ['STR-1', 'a request on a stream of the server', [bytes('11 02 00')], BAD_FRAME],
  ['STR-1', 'a request on a stream below the last one', [bytes('11 05 00'), bytes('11 03 00')], BAD_FRAME],
  ['STR-2', 'a message on another stream', [bytes('10 01 00')], BAD_FRAME],
  ['STR-2', 'a request on stream 0', [bytes('11 00 00')], BAD_FRAME],
  ['STR-4', 'a part on a stream of its own', [bytes('11 01 00'), bytes('13 01 00')], BAD_FRAME],
  ['STR-4', 'an end of a stream that was never opened', [bytes('14 02')], BAD_FRAME],
  ['STR-4', 'a cancel of a stream that was never opened', [bytes('16 01')], BAD_FRAME],
  ['STR-11', 'a tensor as a message', [bytes('10 00 05')], BAD_FRAME],
  ['ACK-2', 'an ack of a frame that was never written', [bytes('18 01')], BAD_FRAME],
  ['CRED-4', 'credit for a stream that was never opened', [bytes('19 01 01')], BAD_FRAME],
  ['AGT-6', 'an alias without agents', [bytes('17 00 61')], BAD_FRAME],
  ['AGT-6', 'an address without agents', [bytes('11 01 40 00')], BAD_FRAME],
];

describe('a client that breaks', () => {
  it.each(CASES)('%s: %s, is disconnected', (_requirement, _what, frames, code) => {
    const simulation = createSimulation();
    simulation.settle();
    expect(simulation.server.closedWith).toBe(undefined);
    for (const [at, frame] of frames.entries()) {
      if (at === frames.length - 1) expect(simulation.server.closedWith).toBe(undefined);
      simulation.inject('client', frame);
      simulation.settle();
    }
    expect(simulation.server.closedWith?.code).toBe(code);
    expect(simulation.server.core.state).toBe('closed');
  });
});
