// Wire words

// AVP
export { AgreementCache } from './agreement-cache.js';
export type { AvpAgreement, AvpOptions } from './avp/agreement.js';
export {
  bfloat16ToFloat32,
  float16ToFloat32,
  float32ToBfloat16,
  float32ToFloat16,
} from './avp/float16.js';
export { type AvpInput, type AvpMessage, decodeAvp, type EncodeAvpOptions, encodeAvp } from './avp/frame.js';
export type { DecodeAvpOptions } from './avp/head.js';
export { readAvpHeader } from './avp/header.js';
export { type AvpTextMessage, decodeAvpTextMessage } from './avp/hello.js';
export { type ModelIdentity, modelHash, modelIdentity, tokenizerHash } from './avp/identity.js';
export {
  decodeKvCache,
  decodeKvCacheHeader,
  encodeKvCache,
  encodeKvCacheHeader,
  estimateKvCacheSize,
  KV_CACHE_HEADER_SIZE,
  type KvCache,
  kvCacheParts,
} from './avp/kv-cache.js';
export type { PayloadType } from './avp/metadata.js';
export { type Compatibility, resolveCompatibility } from './avp/resolve.js';
export type { Dtype, Tensor } from './avp/tensor.js';
// Codecs
export { decodeBase64, encodeBase64 } from './base64.js';
export { isStatedAgentId } from './capabilities.js';
export { CLOSE_CODES, CloseCode, type CloseCodeName, isRetryableCloseCode } from './close-codes.js';
export { closeReasonOf } from './close-reason.js';
export { decodeBrotli, encodeBrotli } from './codec/brotli.js';
export { decodeDictionary, encodeDictionary } from './codec/dictionary.js';
export { type LoadableCodec, loadCodecs } from './codec/load.js';
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
} from './codec/m2m.js';
export { type CostTable, DEFAULT_COST_TABLE, estimateCost } from './codec/m2m-cost.js';
export type { M2MHeader } from './codec/m2m-fields.js';
export { type M2MSecurity, resolveSecurity } from './codec/m2m-security.js';
export type { Selection } from './codec/select.js';
export { type DetectedAlgorithm, decodeText, detectAlgorithm, encodeText } from './codec/tagged.js';
export { decodeToken, encodeToken } from './codec/token.js';
export {
  decodeTokenNative,
  decodeTokenNativeText,
  encodeTokenNative,
  encodeTokenNativeText,
  type TokenNativeFrame,
} from './codec/token-native.js';
export {
  Algorithm,
  EncodingName,
  Extension,
  NESTED_PROTOCOL_VERSION,
  PROTOCOL_VERSION,
  Prefix,
  Subprotocol,
} from './constants.js';
// Session context
export { type ContextDescription, describeContextBody } from './context/body.js';
// Keys
export { agreeKey, createKeyPair, type KeyPair, sharedSecret } from './crypto/exchange.js';
export { deriveKey, KeyPurpose, keyFromHex, keyPath } from './crypto/keys.js';
export {
  type AgentDescription,
  type AgentOptions,
  MAX_AGENT_METADATA,
  readAgent,
} from './endpoint/agent-description.js';
export {
  type AgentChange,
  type AgentInfo,
  type Agents,
  type DirectoryNews,
  type DirectoryQuery,
  newsFields,
} from './endpoint/agents.js';
// Endpoints: sessions as their users see them, driven by a transport
export { type BatchOptions, type ResolvedBatchOptions, resolveBatchOptions } from './endpoint/batch.js';
export type { BodyCoder } from './endpoint/body-coder.js';
export { encodeUndeliverable, type Undeliverable } from './endpoint/delivery.js';
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
export type { BodyEvent } from './endpoint/intake.js';
export type { ContextDetails, LastSelection } from './endpoint/late-coder.js';
export { type LoggableError, loggable } from './endpoint/loggable.js';
export type { Message } from './endpoint/message.js';
export type { Metadata, MetadataValue } from './endpoint/metadata.js';
export {
  CAPABILITY_KINDS,
  type CapabilityOptions,
  resolveCapabilities,
  sweepInterval,
} from './endpoint/options.js';
export type { Body, Part } from './endpoint/part.js';
export { type EventRoute, type Logger, SILENT_LOGGER, type Wire } from './endpoint/ports.js';
export type { ReplyStream } from './endpoint/reply.js';
export type { RequestContext, RequestHandler } from './endpoint/responder.js';
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
export type { AssembledTensor, ReceivedTensor, StreamedTensor, TensorInput } from './endpoint/tensor.js';
export type { TransferMode } from './endpoint/tensor-receiver.js';
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
} from './errors.js';
export { FrameKind, frameKind } from './frame.js';
// HTTP in a session
export { encodeEventPart, eventTextOf, type ServerSentEvent } from './http/events.js';
export {
  decodeHttpRequest,
  decodeHttpResponse,
  encodeHttpRequest,
  encodeHttpResponse,
  type HttpHeaders,
  type HttpRequestHead,
  type HttpResponseHead,
} from './http/head.js';
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
// The session core
export {
  type LifecycleContext,
  LifecycleEffect,
  LifecycleEvent,
  LifecycleState,
  type LifecycleStep,
  sessionMachine,
  stepLifecycle,
} from './lifecycle.js';
export {
  ANNOUNCED_LIMITS,
  DEFAULT_LIMITS,
  DEFAULT_TIMERS,
  type Limits,
  MAX_ASSEMBLED_SIZE,
  resolveLimits,
  resolveTimers,
  type Timers,
} from './limits.js';
export { DELIVERY, DIRECTORY, isAgentAddress, isAgentId } from './link/addressing.js';
export { algorithmOf, type BodyForm } from './link/algorithms.js';
export type { ReceivedBody } from './link/assembly.js';
export type { ContextUse } from './link/context.js';
export { decodeLinkFrame, LinkCodec, LinkFlag, type LinkFrame, LinkKind } from './link/header.js';
export { type CodedBody, type LinkEvent, TRANSFER_OVERHEAD } from './link/link.js';
export { MAX_PIECE_SIZE } from './link/outbox.js';
export type { BodyPiece } from './link/pieces.js';
export { MemoryBudget, overBudget, type Reservation, SessionMemory } from './memory.js';
// Control messages and negotiation
export {
  decodeControl,
  decodeControlJson,
  encodeControl,
  encodeControlJson,
} from './message-codec.js';
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
  type SecurityStatus,
  type StringMap,
  type UnknownMessage,
} from './messages.js';
export { type Agreement, type Capabilities, type Negotiation, negotiate } from './negotiate.js';
export { assertOptions, type OptionKinds } from './option-kinds.js';
export { type Clock, createSweep, type Sweep, type Sweepable, systemClock } from './platform/clock.js';
export { createSession } from './session.js';
export type {
  AcceptOptions,
  Negotiated,
  SessionCore,
  SessionEvent,
  SessionOptions,
  SessionState,
  Undelivered,
  UndeliveredBody,
} from './session-core.js';
export { newSessionId } from './session-id.js';
export { TokenBucket } from './token-bucket.js';
// Tokenizer
export type { Encoding } from './tokenizer/encoding.js';
export { getEncoding, isEncodingAvailable, type LoadOptions, loadEncoding } from './tokenizer/load.js';
export { VOCABULARY_HASHES } from './tokenizer/vocabulary.js';
