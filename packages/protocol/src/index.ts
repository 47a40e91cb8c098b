/** The public API of `@parlance/protocol`: codecs, and the session core without sockets or clocks. */

// Names of the protocol

export {
  Algorithm,
  EncodingName,
  Extension,
  NESTED_PROTOCOL_VERSION,
  Prefix,
  PROTOCOL_VERSION,
  Subprotocol,
} from './base/constants.js';
export type { StringMap } from './base/fields.js';
export { FrameKind, frameKind } from './base/frame-kind.js';

// Errors and close codes

export { CLOSE_CODES, CloseCode, type CloseCodeName, isRetryableCloseCode } from './base/close-codes.js';
export {
  ERROR_CODES,
  type ErrorCode,
  type ErrorSide,
  isProtocolError,
  ProtocolError,
  type ProtocolErrorOptions,
  type Rejection,
  RequestError,
  type RequestErrorOptions,
} from './base/errors.js';

// Limits and timers

export {
  ANNOUNCED_LIMITS,
  DEFAULT_LIMITS,
  DEFAULT_TIMERS,
  type Limits,
  MAX_ASSEMBLED_SIZE,
  resolveLimits,
  resolveTimers,
  type Timers,
} from './base/limits.js';

// Sessions of applications

export type { ContextDetails, LastSelection } from './codec/auto/deferred.js';
export type { SecurityStatus } from './codec/body.js';
export type { Negotiated } from './control/agreement.js';
export type { AgentChange, AgentInfo, Agents } from './endpoint/agents/agents.js';
export type { Undelivered } from './endpoint/agents/delivery.js';
export type { AgentOptions } from './endpoint/agents/description.js';
export type { Message } from './endpoint/messages/message.js';
export type { Metadata, MetadataValue } from './endpoint/messages/metadata.js';
export type { Body, Part } from './endpoint/messages/part.js';
export type { CapabilityOptions } from './endpoint/options.js';
export type { Logger } from './endpoint/ports.js';
export type { BatchOptions } from './endpoint/requests/batch.js';
export type { ReplyStream } from './endpoint/requests/reply.js';
export type { RequestContext, RequestHandler } from './endpoint/requests/responder.js';
export type {
  CloseResult,
  RequestOptions,
  SendOptions,
  SendTensorOptions,
  Session,
  SessionEvents,
  SessionReset,
} from './endpoint/session.js';
export type { AlgorithmStats, DirectionStats, SessionStats } from './endpoint/stats.js';
export type { TransferMode } from './endpoint/tensors/receiver.js';
export type {
  AssembledTensor,
  ReceivedTensor,
  StreamedTensor,
  TensorInput,
} from './endpoint/tensors/tensor.js';
export type { SessionState, Unconfirmed, UnconfirmedBody } from './session/types.js';

// Text codecs

export type { Selection, SelectionRule, Trial } from './codec/auto/contest.js';
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
export type {
  BareFields,
  FinishReason,
  FixedHeader,
  M2MFields,
  M2MHeader,
  M2MSchema,
  M2MSecurityMode,
  RequestFields,
  ResponseFields,
  Role,
} from './codec/m2m/fields.js';
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
export type { M2MSecurity } from './codec/m2m/security.js';

// Keys

export { agreeKey, createKeyPair, type KeyPair, sharedSecret } from './codec/crypto/key-agreement.js';
export { deriveKey, keyFromHex, keyPath, KeyPurpose } from './codec/crypto/keys.js';

// AVP

export type { AvpAgreement, AvpOptions } from './codec/avp/agreement.js';
export {
  bfloat16ToFloat32,
  float16ToFloat32,
  float32ToBfloat16,
  float32ToFloat16,
} from './codec/avp/float16.js';
export {
  type AvpInput,
  type AvpMessage,
  decodeAvp,
  encodeAvp,
  type EncodeAvpOptions,
} from './codec/avp/frame.js';
export type { AvpDescription, AvpHead, AvpMetadataInput, DecodeAvpOptions } from './codec/avp/head.js';
export { type AvpHeader, readAvpHeader } from './codec/avp/header.js';
export { type AvpTextMessage, decodeAvpTextMessage, type JsonObject } from './codec/avp/hello.js';
export {
  modelHash,
  type ModelIdentity,
  modelIdentity,
  tokenizerHash,
  type VocabularyEntries,
} from './codec/avp/identity.js';
export type { AvpMetadata, AvpMode, PayloadType } from './codec/avp/metadata.js';
export { type Compatibility, type ResolutionPath, resolveCompatibility } from './codec/avp/resolve.js';
export type { Dtype, Tensor, TypedTensor } from './codec/avp/tensor.js';

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
export { getEncoding, isEncodingAvailable, loadEncoding, type LoadOptions } from './tokenizer/load.js';
export { VOCABULARY_HASHES } from './tokenizer/vocabulary.js';

// Control messages and negotiation

export { decodeControl, decodeControlJson, encodeControl, encodeControlJson } from './control/envelope.js';
export {
  type CapabilityShape,
  CloseReason,
  type ControlMessage,
  type DataPayload,
  type GoAwayPayload,
  type HelloPayload,
  RejectCode,
  type RejectPayload,
  type ResumeOffer,
  ResumeRefusal,
  type UnknownMessage,
} from './control/messages.js';
export { type Agreement, type Capabilities, negotiate, type Negotiation } from './control/negotiate.js';

// Link frames and bodies

export { algorithmOf, type BodyForm } from './codec/algorithms.js';
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
export type { ContextUse } from './link/context-coding.js';
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
  sessionMachine,
  stepLifecycle,
} from './session/lifecycle.js';
export { createSession } from './session/session.js';
export type { AcceptOptions, Channel, SessionCore, SessionEvent, SessionOptions } from './session/types.js';
