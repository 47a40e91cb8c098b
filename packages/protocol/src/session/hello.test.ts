import { describe, expect, it } from 'vitest';
import { CloseCode } from '../base/close-codes.js';
import { Extension, PROTOCOL_VERSION, Subprotocol } from '../base/constants.js';
import { toProtocolError } from '../base/errors.js';
import { DEFAULT_LIMITS, DEFAULT_TIMERS } from '../base/limits.js';
import { encodeMap } from '../control/maps.js';
import type { ControlMessage, HelloPayload } from '../control/messages.js';
import { ALL_CODE } from './all-code.js';
import { closeReasonOf, withCloseCode } from './close-reason.js';
import { encodeControl } from './control-writer.js';
import { createServerSession } from './create-server.js';
import { readHello, rejectFrame, waitFrame } from './hello.js';
import { answerTo } from './resuming.js';
import type { SessionOptions } from './types.js';

const NOW = 1_000;
const OFFER = {
  version: PROTOCOL_VERSION,
  algorithms: ['NONE'],
  encodings: [],
  securityScanning: false,
  maxPayloadSize: 0,
  extensions: {},
} as const;
const HELLO: HelloPayload = { ...OFFER, shape: 'flat', preferredEncoding: null, supportsStreaming: false };

const optionsFor = (subprotocol: Subprotocol): SessionOptions => ({
  role: 'server',
  subprotocol,
  capabilities: { ...OFFER, algorithms: ['NONE'], encodings: [], extensions: {}, vocabularies: {} },
  limits: DEFAULT_LIMITS,
  timers: DEFAULT_TIMERS,
  timeOrigin: 0,
});

/** The answer of a session to `data` as the first message: its HELLO, or the error with which it ends. */
function toldBySession(data: Uint8Array | string, options: SessionOptions): unknown {
  const core = createServerSession(options);
  core.handleConnected(NOW);
  core.handleMessage(data, NOW);
  for (let event = core.pollEvent(); event !== undefined; event = core.pollEvent()) {
    if (event.type === 'hello') return event.hello;
    if (event.type === 'ended' && event.error !== undefined) return told(event.error);
  }
  return undefined;
}

function toldBefore(data: Uint8Array | string, options: SessionOptions): unknown {
  try {
    return readHello(data, options);
  } catch (error) {
    return told(
      withCloseCode(toProtocolError(error, 'internal', 'the handshake failed'), CloseCode.BAD_FRAME),
    );
  }
}

const told = (error: ReturnType<typeof withCloseCode>) => [error.closeCode, closeReasonOf(error)];

const hello = (extensions: Readonly<Record<string, string>> = {}) => ({
  type: 'HELLO' as const,
  payload: { ...HELLO, extensions },
});

type Fields = Pick<ControlMessage, 'type'> & { readonly payload: unknown };

const MESSAGES: readonly (readonly [string, Fields])[] = [
  ['HELLO', hello()],
  ['HELLO with malformed link parameters', hello({ [Extension.LINK]: '{"max_streams":-1}' })],
  ['HELLO with malformed parameters of context', hello({ [Extension.CONTEXT]: '[]' })],
  ['HELLO with malformed codecs', hello({ [Extension.READY]: '{"codecs":7}' })],
  ['PING', { type: 'PING', payload: {} }],
  ['PONG', { type: 'PONG', payload: {} }],
  ['AUTH', { type: 'AUTH', payload: { token: 'secret' } }],
  ['CLOSE', { type: 'CLOSE', payload: { reason: 'normal', message: '' } }],
  ['REJECT', { type: 'REJECT', payload: { code: 'UNKNOWN', message: 'no' } }],
];

describe.each(Object.values(Subprotocol))('before a session, on %s', (subprotocol) => {
  const options = optionsFor(subprotocol);
  const encode = (message: Fields) =>
    encodeControl({ ...message, sessionId: null, timestamp: NOW } as ControlMessage, subprotocol, ALL_CODE);
  const unknown = (type: string) => {
    const fields = { type, session_id: null, timestamp: NOW, payload: {} };
    return subprotocol === Subprotocol.JSON ? JSON.stringify(fields) : encodeMap(fields);
  };

  it.each(MESSAGES)('%s is told apart as a session does it', (name, message) => {
    const frame = encode(message);
    const expected = toldBySession(frame, options);
    expect(expected).toEqual(name === 'HELLO' ? message.payload : [expect.any(Number), expect.any(String)]);
    expect(toldBefore(frame, options)).toEqual(expected);
  });

  it.each([
    ['a link frame', Uint8Array.of(0x40, 0, 0)],
    ['bytes that are nothing', Uint8Array.of(1, 2, 3)],
    ['an empty message', new Uint8Array(0)],
    ['a text', 'hello'],
    ['a text that begins as an envelope', '{"type":"HELLO"'],
    ['a message of the largest size', new Uint8Array(DEFAULT_LIMITS.maxHandshakeSize)],
    ['one byte more', new Uint8Array(DEFAULT_LIMITS.maxHandshakeSize + 1)],
    ['WAIT', waitFrame(subprotocol, NOW)],
  ])('%s is refused as a session does it', (_name, data) => {
    const refusal = toldBefore(data, options);
    expect(refusal).toEqual([expect.any(Number), expect.any(String)]);
    expect(refusal).toEqual(toldBySession(data, options));
  });

  it('a message of unknown type is ignored', () => {
    expect(toldBefore(unknown('NEWS'), options)).toBeUndefined();
    expect(toldBySession(unknown('NEWS'), options)).toBeUndefined();
  });

  it('REJECT is the one of a session', () => {
    const refusal = { code: 'UNKNOWN', message: 'not now', retryAfterMs: 50 } as const;
    for (const closeCode of [CloseCode.DRAINING, CloseCode.FORBIDDEN]) {
      const core = createServerSession(options);
      core.handleConnected(NOW);
      core.reject(refusal, closeCode, NOW);
      expect(rejectFrame(refusal, closeCode, subprotocol, NOW)).toEqual(core.pollTransmit());
    }
  });

  it('a session is accepted with the answer that was worked out before', () => {
    const core = createServerSession(options);
    const answer = answerTo(HELLO, options, false);
    core.greet(HELLO, answer, NOW);
    expect(core.accept('session', NOW)).toBe(answer.outcome);
    expect(core.state).toBe('established');
    expect(Buffer.from(core.pollTransmit() ?? '').includes('ACCEPT')).toBe(true);
  });
});
