/** The public API of `@parlance/protocol`: codecs, and the session core without sockets or clocks. */

export * from './endpoint/application.js';

// Names of the protocol

export { Extension, NESTED_PROTOCOL_VERSION, Prefix, PROTOCOL_VERSION } from './base/constants.js';
export { FrameKind, frameKind } from './base/frame-kind.js';

// Errors and close codes

export { CLOSE_CODES } from './base/close-code-meanings.js';
export { isRetryableCloseCode } from './base/close-codes.js';
export { ERROR_CODES } from './base/errors.js';

// Limits and timers

export {
  ANNOUNCED_LIMITS,
  DEFAULT_LIMITS,
  DEFAULT_TIMERS,
  MAX_ASSEMBLED_SIZE,
  resolveLimits,
  resolveTimers,
} from './base/limits.js';

// Text codecs

export { decodeBase64, encodeBase64 } from './codec/base64.js';
export { type LoadableCodec, loadCodecs } from './codec/load.js';
export { decodeBrotli, encodeBrotli } from './codec/text/brotli.js';
export { decodeDictionary, encodeDictionary } from './codec/text/dictionary.js';
export { decodeText, detectAlgorithm, type DetectedAlgorithm, encodeText } from './codec/text/tagged.js';
export {
  decodeTokenNative,
  decodeTokenNativeText,
  encodeTokenNative,
  encodeTokenNativeText,
  type TokenNativeFrame,
} from './codec/text/token-native.js';
export { decodeToken, encodeToken } from './codec/text/token.js';

// M2M v1

export { type CostTable, DEFAULT_COST_TABLE, estimateCost } from './codec/m2m/cost.js';
export {
  decodeM2M,
  decodeM2MBody,
  encodeM2M,
  encodeM2MBody,
  encodeM2MText,
  type M2MDecodeOptions,
  type M2MEncodeOptions,
  type M2MMessage,
  readM2MBodyHeader,
  readM2MHeader,
} from './codec/m2m/m2m.js';

// Keys

export { agreeKey, createKeyPair, type KeyPair, sharedSecret } from './codec/crypto/key-agreement.js';
export { deriveKey, keyFromHex, keyPath, KeyPurpose } from './codec/crypto/keys.js';

// AVP

export {
  bfloat16ToFloat32,
  float16ToFloat32,
  float32ToBfloat16,
  float32ToFloat16,
} from './codec/avp/float16.js';
export { decodeAvp, encodeAvp, type EncodeAvpOptions } from './codec/avp/frame.js';
export type { DecodeAvpOptions } from './codec/avp/head.js';
export { readAvpHeader } from './codec/avp/header.js';
export { type AvpTextMessage, decodeAvpTextMessage } from './codec/avp/hello.js';
export { modelHash, tokenizerHash } from './codec/avp/identity.js';
export { resolveCompatibility } from './codec/avp/resolve.js';

// KV-caches

export {
  decodeKvCache,
  decodeKvCacheHeader,
  encodeKvCache,
  encodeKvCacheHeader,
  estimateKvCacheSize,
  KV_CACHE_HEADER_SIZE,
  type KvCache,
  kvCacheParts,
} from './codec/avp/kv-cache.js';

// Tokenizer

export type { Encoding } from './tokenizer/encoding.js';
export {
  getEncoding,
  isEncodingAvailable,
  loadEncoding,
  type LoadOptions,
  type LoadProgress,
} from './codec/vocabulary/load.js';
export type { VocabularySource } from './codec/vocabulary/source.js';
export { VOCABULARY_HASHES } from './tokenizer/hashes.js';

// Control messages and negotiation

export { decodeControl, decodeControlJson, encodeControl, encodeControlJson } from './control/envelope.js';
export {
  type CapabilityShape,
  CloseReason,
  type CloseStatement,
  type ControlMessage,
  type DataPayload,
  type GoAwayPayload,
  type HelloPayload,
  type LaterCodec,
  RejectCode,
  type RejectPayload,
  type ResumeOffer,
  ResumeRefusal,
  type UnknownMessage,
} from './control/messages.js';
export { type Agreement, type Capabilities, negotiate, type Negotiation } from './control/negotiate.js';

// Link frames and bodies

export { algorithmOf } from './codec/algorithms.js';
export {
  BodyCodec,
  type BodyCount,
  type BodyCounts,
  type CodedBody,
  type DeferredBody,
  type DeferredEncoding,
  type ReceivedBody,
} from './codec/body.js';
export { type ContextDescription, describeContextBody } from './codec/context/body.js';
export { decodeLinkFrame, LinkFlag, type LinkFrame, LinkKind } from './link/frame.js';
export type { BodyToSend, LinkEvent, OutgoingTransfer } from './link/link.js';
export type { BodyPiece } from './link/reassembly.js';

// HTTP in a session

export { encodeEventPart, eventTextOf, type ServerSentEvent } from './endpoint/http/events.js';
export {
  decodeHttpRequest,
  decodeHttpResponse,
  encodeHttpRequest,
  encodeHttpResponse,
  type HttpHeaders,
  type HttpRequestHead,
  type HttpResponseHead,
} from './endpoint/http/head.js';

// The session core, for drivers of other transports

export {
  type LifecycleContext,
  LifecycleEffect,
  LifecycleEvent,
  LifecycleState,
  type LifecycleStep,
} from './session/lifecycle.js';
export { stepLifecycle } from '#lifecycle';
export { createSession } from './session/create.js';
export type { AcceptOptions, Channel, SessionCore, SessionEvent, SessionOptions } from './session/types.js';
