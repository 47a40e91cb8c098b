// Wire words

export { CLOSE_CODES, CloseCode, type CloseCodeName, isRetryableCloseCode } from './base/close-codes.js';
export {
  Algorithm,
  EncodingName,
  Extension,
  NESTED_PROTOCOL_VERSION,
  PROTOCOL_VERSION,
  Prefix,
  Subprotocol,
} from './base/constants.js';
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
  toProtocolError,
} from './base/errors.js';
export type { StringMap } from './base/fields.js';
export { FrameKind, frameKind } from './base/frame-kind.js';
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
export { MemoryBudget, overBudget, type Reservation, SessionMemory } from './base/memory.js';
export { assertOptions, type OptionKinds } from './base/options.js';
export { TokenBucket } from './base/token-bucket.js';
export { algorithmOf, type BodyForm } from './codec/algorithms.js';
export type { BodyCoder } from './codec/auto/coder.js';
export type { ContextDetails, LastSelection } from './codec/auto/deferred.js';
export type { Selection } from './codec/auto/select.js';
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
  type EncodeAvpOptions,
  encodeAvp,
} from './codec/avp/frame.js';
export type { DecodeAvpOptions } from './codec/avp/head.js';
export { readAvpHeader } from './codec/avp/header.js';
export { type AvpTextMessage, decodeAvpTextMessage } from './codec/avp/hello.js';
export { type ModelIdentity, modelHash, modelIdentity, tokenizerHash } from './codec/avp/identity.js';
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
export type { PayloadType } from './codec/avp/metadata.js';
export { type Compatibility, resolveCompatibility } from './codec/avp/resolve.js';
export type { Dtype, Tensor } from './codec/avp/tensor.js';
// Codecs
export { decodeBase64, encodeBase64 } from './codec/base64.js';
export type { ReceivedBody } from './codec/body.js';
export { BodyCodec, type CodedBody, type SecurityStatus } from './codec/body.js';
// Session context
export { type ContextDescription, describeContextBody } from './codec/context/body.js';
// Keys
export { agreeKey, createKeyPair, type KeyPair, sharedSecret } from './codec/crypto/key-agreement.js';
export { deriveKey, KeyPurpose, keyFromHex, keyPath } from './codec/crypto/keys.js';
export { type LoadableCodec, loadCodecs } from './codec/load.js';
export { type CostTable, DEFAULT_COST_TABLE, estimateCost } from './codec/m2m/cost.js';
export type { M2MHeader } from './codec/m2m/fields.js';
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
export { type M2MSecurity, resolveSecurity } from './codec/m2m/security.js';
export { decodeBrotli, encodeBrotli } from './codec/text/brotli.js';
export { decodeDictionary, encodeDictionary } from './codec/text/dictionary.js';
export { type DetectedAlgorithm, decodeText, detectAlgorithm, encodeText } from './codec/text/tagged.js';
export { decodeToken, encodeToken } from './codec/text/token.js';
export {
  decodeTokenNative,
  decodeTokenNativeText,
  encodeTokenNative,
  encodeTokenNativeText,
  type TokenNativeFrame,
} from './codec/text/token-native.js';
export type { Negotiated } from './control/agreement.js';
// AVP
export { AgreementCache } from './control/agreement.js';
export { isStatedAgentId } from './control/capabilities.js';
// Control messages and negotiation
export {
  decodeControl,
  decodeControlJson,
  encodeControl,
  encodeControlJson,
} from './control/envelope.js';
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
export { type Agreement, type Capabilities, type Negotiation, negotiate } from './control/negotiate.js';
export {
  type AgentChange,
  type AgentInfo,
  type Agents,
  type DirectoryNews,
  type DirectoryQuery,
  newsFields,
} from './endpoint/agents/agents.js';
export { encodeUndeliverable, type Undeliverable } from './endpoint/agents/delivery.js';
export {
  type AgentDescription,
  type AgentOptions,
  MAX_AGENT_METADATA,
  readAgent,
} from './endpoint/agents/description.js';
export { Endpoint } from './endpoint/endpoint.js';
export type { EndpointOptions } from './endpoint/endpoint-options.js';
export {
  attempt,
  type Crashable,
  catchLate,
  GuardedClock,
  guard,
  guardLater,
  guardLogger,
} from './endpoint/guard.js';
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
export { type LoggableError, loggable } from './endpoint/loggable.js';
export type { BodyEvent } from './endpoint/messages/intake.js';
export type { Message } from './endpoint/messages/message.js';
export type { Metadata, MetadataValue } from './endpoint/messages/metadata.js';
export type { Body, Part } from './endpoint/messages/part.js';
export {
  CAPABILITY_KINDS,
  type CapabilityOptions,
  resolveCapabilities,
  sweepInterval,
} from './endpoint/options.js';
export { type EventRoute, type Logger, SILENT_LOGGER, type Wire } from './endpoint/ports.js';
// Endpoints: sessions as their users see them, driven by a transport
export {
  type BatchOptions,
  type ResolvedBatchOptions,
  resolveBatchOptions,
} from './endpoint/requests/batch.js';
export type { ReplyStream } from './endpoint/requests/reply.js';
export type { RequestContext, RequestHandler } from './endpoint/requests/responder.js';
export type { Scan, ScanContext, Verdict } from './endpoint/scan.js';
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
// Explaining frames
export type {
  ExplainedFault,
  ExplainedField,
  ExplainedKind,
  ExplainOptions,
  Explanation,
} from './inspect/explanation.js';
export { explainFrame } from './inspect/frame.js';
export { createSessionExplainer, type Direction, type SessionExplainer } from './inspect/session.js';
export { printable } from './inspect/wording.js';
export { DELIVERY, DIRECTORY, isAgentAddress, isAgentId } from './link/addressing.js';
export type { ContextUse } from './link/context-coding.js';
export { decodeLinkFrame, LinkFlag, type LinkFrame, LinkKind } from './link/frame.js';
export { type BodyToSend, type LinkEvent, TRANSFER_OVERHEAD } from './link/link.js';
export { MAX_PIECE_SIZE } from './link/outbox.js';
export type { BodyPiece } from './link/pieces.js';
export { type Clock, createSweep, type Sweep, type Sweepable, systemClock } from './platform/clock.js';
export { closeReasonOf } from './session/close-reason.js';
// The session core
export {
  type LifecycleContext,
  LifecycleEffect,
  LifecycleEvent,
  LifecycleState,
  type LifecycleStep,
  sessionMachine,
  stepLifecycle,
} from './session/lifecycle.js';
export { newSessionId } from './session/random-id.js';
export { createSession } from './session/session.js';
export type {
  AcceptOptions,
  SessionCore,
  SessionEvent,
  SessionOptions,
  SessionState,
  Undelivered,
  UndeliveredBody,
} from './session/types.js';
// Tokenizer
export type { Encoding } from './tokenizer/encoding.js';
export { getEncoding, isEncodingAvailable, type LoadOptions, loadEncoding } from './tokenizer/load.js';
export { VOCABULARY_HASHES } from './tokenizer/vocabulary.js';
