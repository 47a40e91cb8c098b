import { RequestError } from '../../packages/protocol/src/base/errors.js';
import type { AcceptPayload } from '../../packages/protocol/src/control/messages.js';
import { STANDARD_VALUES } from '../../packages/protocol/src/control/standard.js';
import { encodeMetadata, REDELIVERED } from '../../packages/protocol/src/endpoint/messages/metadata.js';
import {
  type CodedBody,
  decodeAvp,
  decodeControl,
  decodeLinkFrame,
  decodeM2M,
  decodeText,
  decodeToken,
  encodeAvp,
  encodeBrotli,
  encodeControl,
  encodeControlJson,
  encodeDictionary,
  encodeKvCache,
  encodeM2M,
  encodeToken,
  encodeTokenNative,
  encodeTokenNativeText,
  type HelloPayload,
  loadCodecs,
  loadEncoding,
} from '../../packages/protocol/src/index.js';
import { encodeFailure } from '../../packages/protocol/src/link/failure.js';
import { encodeBodyFrame, encodeSignalFrame, LinkKind } from '../../packages/protocol/src/link/frame.js';

import { contextFrames } from './context-examples.js';
import { creditTable } from './credit-example.js';
import { httpBodies } from './http-examples.js';
import { fence, hex } from './markdown.js';
import { durableRebuildMaps, rebuildMaps } from './rebuild-examples.js';
import { repliesFrames } from './replies-examples.js';
import { jsonSession, sessionSteps } from './session-example.js';
import { tensorFrames } from './tensor-examples.js';

/** Example bytes for the documentation, written by the codecs themselves and decoded again as a check. */

const TIMESTAMP = 1_700_000_000_000;
const CHAT = '{"model":"gpt-4o","messages":[{"role":"user","content":"Hello"}]}';
const SESSION_ID = 'sess_0123456789abcdefghij';

const HELLO: HelloPayload = {
  shape: 'flat',
  version: '1.0',
  algorithms: ['TOKEN_NATIVE', 'NONE'],
  encodings: ['CL100K_BASE'],
  preferredEncoding: 'CL100K_BASE',
  securityScanning: false,
  maxPayloadSize: 0,
  supportsStreaming: true,
  extensions: { link: '{}' },
};

/** Maps the name of each section in the documentation to its Markdown. */
export async function buildExamples(): Promise<ReadonlyMap<string, string>> {
  const encoding = await loadEncoding('CL100K_BASE');
  await loadCodecs(['BROTLI', 'M2M', 'CONTEXT']);
  const ids = encoding.encode('Hello, world!');
  const body = (kind: LinkKind, streamId: number, codec: number, bytes: Uint8Array) =>
    encodeBodyFrame(
      { kind, streamId, codec, bytes, originalLength: 5, secret: false, metadata: undefined } as CodedBody & {
        kind: 0;
        streamId: number;
      },
      0,
      bytes.length,
    );

  const hi = {
    codec: 0,
    bytes: new TextEncoder().encode('hi'),
    originalLength: 2,
    secret: false,
    alias: 0,
  } as const;
  const addressed = encodeBodyFrame(
    { ...hi, kind: LinkKind.REQUEST, streamId: 3, metadata: undefined },
    0,
    2,
  );
  const mark = encodeMetadata({ [REDELIVERED]: true }, 64);
  const redelivered = encodeBodyFrame({ ...hi, kind: LinkKind.MESSAGE, streamId: 0, metadata: mark }, 0, 2);
  const hello = encodeControl({ type: 'HELLO', sessionId: null, timestamp: TIMESTAMP, payload: HELLO });
  const withNonce = {
    type: 'HELLO',
    sessionId: null,
    timestamp: TIMESTAMP,
    payload: {
      ...HELLO,
      algorithms: ['NONE'],
      encodings: [],
      preferredEncoding: null,
      supportsStreaming: false,
      extensions: { link: '{}', resume: '{}' },
      nonce: Uint8Array.from({ length: 16 }, (_, i) => 0xf0 + i),
    },
  } as const;
  const helloWithNonce = encodeControl(withNonce);
  decodeControl(helloWithNonce);
  const ping = encodeControl({ type: 'PING', sessionId: SESSION_ID, timestamp: TIMESTAMP, payload: {} });
  const close = encodeControl({
    type: 'CLOSE',
    sessionId: SESSION_ID,
    timestamp: TIMESTAMP,
    payload: { reason: 'NORMAL', message: '' },
  });
  const reject = encodeControl({
    type: 'REJECT',
    sessionId: null,
    timestamp: TIMESTAMP,
    payload: { code: 'RATE_LIMITED', message: 'too many sessions', retryable: true, retryAfterMs: 6_200 },
  });
  const auth = encodeControl({
    type: 'AUTH',
    sessionId: SESSION_ID,
    timestamp: TIMESTAMP,
    payload: { expiresAt: TIMESTAMP + 3_600_000 },
  });
  const [goAway, goAwayMove] = [undefined, true].map((move) =>
    encodeControl({
      type: 'GOAWAY',
      sessionId: SESSION_ID,
      timestamp: TIMESTAMP,
      payload: { retryAfterMs: 2_750, deadline: TIMESTAMP + 30_000, move },
    }),
  ) as [Uint8Array, Uint8Array];
  const ready = encodeControl({
    type: 'READY',
    sessionId: SESSION_ID,
    timestamp: TIMESTAMP,
    payload: { codecs: ['CONTEXT', 'DICTIONARY'] },
  });
  const acceptPayload: AcceptPayload = {
    shape: 'flat',
    version: '1.0',
    algorithms: ['TOKEN_NATIVE', 'NONE'],
    encoding: 'CL100K_BASE',
    encodings: ['CL100K_BASE'],
    securityScanning: false,
    sessionTimeoutMs: 300_000,
    maxPayloadSize: 0,
    limits: { maxStreams: 128 },
    extensions: { link: '{}' },
  };
  const accept = encodeControl({
    type: 'ACCEPT',
    sessionId: SESSION_ID,
    timestamp: TIMESTAMP,
    payload: acceptPayload,
  });
  const standardAccept = encodeControl({
    type: 'ACCEPT',
    sessionId: SESSION_ID,
    timestamp: TIMESTAMP,
    payload: {
      ...acceptPayload,
      algorithms: [],
      sessionTimeoutMs: STANDARD_VALUES.sessionTimeoutMs,
      maxPayloadSize: STANDARD_VALUES.maxPayloadSize,
      limits: STANDARD_VALUES.limits,
      resume: undefined,
      extensions: { link: '{"std":1}', std: '1' },
    },
  });
  const [rebuildHello, rebuildAccept] = rebuildMaps(HELLO, acceptPayload);
  const [durableHello, durableAccept] = durableRebuildMaps(HELLO, acceptPayload);
  for (const bytes of [hello, ping, close, reject, auth, goAway, goAwayMove, accept]) decodeControl(bytes);

  const m2m = encodeM2M(CHAT);
  expect(decodeM2M(m2m).json, CHAT);
  const avp = encodeAvp({
    data: Float32Array.of(0.5, -2),
    shape: [2],
    dtype: 'float32',
    payloadType: 'hidden_state',
    metadata: { modelId: 'm' },
  });
  expect(decodeAvp(avp).toTyped().join(), '0.5,-2');
  const texts = [
    encodeToken(CHAT),
    encodeBrotli(CHAT),
    encodeDictionary(CHAT),
    encodeTokenNativeText(CHAT, encoding),
  ];
  for (const text of texts.slice(1)) expect(decodeText(text), CHAT);
  const [token, brotli, dictionary, tokenNativeText] = texts as [string, string, string, string];

  const message = body(LinkKind.MESSAGE, 0, 1, encoding.encodeVarints('Hello, world!'));
  decodeLinkFrame(message);
  const request = body(LinkKind.REQUEST, 1, 0, new TextEncoder().encode('hi'));
  const failure = encodeSignalFrame(
    LinkKind.ERROR,
    1,
    encodeFailure(new RequestError('no_such_model', 'not here')),
  );

  return new Map([
    ['example hello', hex(hello)],
    [
      'example hello-json',
      fence(
        'json',
        encodeControlJson({ type: 'HELLO', sessionId: null, timestamp: TIMESTAMP, payload: HELLO }),
      ),
    ],
    ['example hello-nonce', hex(helloWithNonce)],
    ['example hello-nonce-json', fence('json', encodeControlJson(withNonce))],
    ['example accept', hex(accept)],
    ['example accept-standard', hex(standardAccept)],
    ['example reject', hex(reject)],
    ['example auth', hex(auth)],
    ['example goaway', hex(goAway)],
    ['example goaway-move', hex(goAwayMove)],
    ['example ready', hex(ready)],
    ['example rebuild-hello', hex(rebuildHello)],
    ['example rebuild-accept', hex(rebuildAccept)],
    ['example rebuild-durable-hello', hex(durableHello)],
    ['example rebuild-durable-accept', hex(durableAccept)],
    ['example ping', hex(ping)],
    ['example close', hex(close)],
    [
      'example data-json',
      fence(
        'json',
        encodeControlJson({
          type: 'DATA',
          sessionId: SESSION_ID,
          timestamp: TIMESTAMP,
          payload: {
            algorithm: 'TOKEN_NATIVE',
            content: encodeTokenNativeText('Hello, world!', encoding),
            originalSize: 13,
          },
        }),
      ),
    ],
    [
      'example token-native',
      `Token IDs ${[...ids].join(', ')}:\n\n${hex(encodeTokenNative('Hello, world!', encoding))}`,
    ],
    ['example token-native-text', fence('text', tokenNativeText)],
    ['example m2m', hex(m2m)],
    ['example token', fence('text', token)],
    ['example brotli', fence('text', brotli)],
    ['example dictionary', fence('text', dictionary)],
    ['example avp', hex(avp)],
    ['example link-message', hex(message)],
    ['example link-request', hex(request)],
    ['example link-response', hex(body(LinkKind.RESPONSE, 1, 0, new TextEncoder().encode('ok')))],
    ['example link-chunk', hex(body(LinkKind.CHUNK, 1, 1, encoding.encodeVarints(' blue')))],
    ['example link-end', hex(encodeSignalFrame(LinkKind.END, 1))],
    ['example link-error', hex(failure)],
    ['example link-ack', hex(encodeSignalFrame(LinkKind.ACK, 32))],
    ['example link-credit', hex(encodeSignalFrame(LinkKind.CREDIT, 0, Uint8Array.of(0x80, 0x80, 0x40)))],
    ['example link-alias', hex(encodeSignalFrame(LinkKind.ALIAS, 0, new TextEncoder().encode('worker-1')))],
    ['example link-addressed', hex(addressed)],
    ['example link-redelivered', hex(redelivered)],
    [
      'example hello-nested',
      fence(
        'json',
        encodeControlJson({
          type: 'HELLO',
          sessionId: null,
          timestamp: TIMESTAMP,
          payload: { ...HELLO, shape: 'nested', version: '3.0' },
        }),
      ),
    ],
    ['example t1-expanded', fence('text', `${token}\n${decodeToken(token)}`)],
    [
      'example kv-cache',
      hex(
        encodeKvCache([{ key: Int8Array.of(1, 2, 3, 4), value: Int8Array.of(5, 6, 7, 8) }], {
          numKvHeads: 1,
          headDim: 2,
          seqLen: 2,
          dtype: 'int8',
        }),
      ),
    ],
    ['example json-session', jsonSession()],
    ['example session', sessionSteps()],
    ['table credit', creditTable()],
    ['example link-cancel', hex(encodeSignalFrame(LinkKind.CANCEL, 1))],
    ...[...contextFrames(), ...tensorFrames(), ...repliesFrames(), ...httpBodies(request)].map(
      ([name, frame]) => [`example ${name}`, hex(frame)] as const,
    ),
  ]);
}

function expect(actual: string, expected: string): void {
  if (actual !== expected) throw new Error(`an example decodes to ${JSON.stringify(actual)}`);
}
