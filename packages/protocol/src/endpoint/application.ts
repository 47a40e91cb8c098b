/**
 * The common ground of the applications of a server and of a client: sessions, messages, errors, tensors. Both
 * `@parlance/server` and `@parlance/client` export all of it.
 */

// Sessions

export type { StringMap } from '../base/fields.js';
export type { Limits, Timers } from '../base/limits.js';
export type { Negotiated } from '../control/agreement.js';
export type { AsyncDisposal } from './disposal.js';
export type { AsJson } from './as-json.js';
export type { CapabilityOptions } from './options.js';
export type { ErrorContext, OnError } from './error-report.js';
export type { Logger } from './ports.js';
export type {
  CloseOptions,
  CloseResult,
  OwnEvents,
  RequestOptions,
  SendOptions,
  Session,
  SessionEvents,
  SessionReset,
  UnreadMessages,
} from './session.js';
export type { SessionEnd } from './session-end.js';
export type { Additions, SessionPort, Verb, Verbs } from './verbs.js';
export type { RateName } from '../link/rates.js';
export type { SessionState, Throttled, Unconfirmed, UnconfirmedBody } from '../session/types.js';

// Messages, requests and replies

export type { Message } from './messages/message.js';
export type { Metadata, MetadataValue } from './messages/metadata.js';
export type { Body, JsonPart, Part } from './messages/part.js';
export type { BatchOptions } from './requests/batch-options.js';
export type { FollowedReply, FollowOptions, ReplyInfo } from './requests/follow.js';
export type { KeepOptions, KeptReply } from './requests/keeping.js';
export type { ReplyStream } from './requests/reply.js';
export type { RequestContext } from './requests/handler-context.js';
export type { HandlerReply } from './requests/handler-reply.js';
export type { RequestHandler } from './requests/responder.js';

// Errors and close codes

export { CloseCode, type CloseCodeName } from '../base/close-codes.js';
export {
  type ErrorCode,
  type ErrorSide,
  isProtocolError,
  ProtocolError,
  type ProtocolErrorConstructor,
  type ProtocolErrorOptions,
  type Rejection,
  RequestError,
  type RequestErrorOptions,
} from '../base/errors.js';

// Other clients of the server

export type { AgentOptions } from './agents/introduction.js';
export type { AgentChange, AgentInfo, Agents } from './agents/agents.js';
export type { Undelivered } from './messages/delivery.js';

// Tensors, and the models that they belong to

export type { AvpAgreement, AvpOptions } from '../codec/avp/agreement.js';
export type { AvpInput, AvpMessage } from '../codec/avp/frame.js';
export type { AvpDescription, AvpHead, AvpMetadataInput } from '../codec/avp/head.js';
export type { AvpHeader } from '../codec/avp/header.js';
export type { JsonObject } from '../codec/avp/hello.js';
export { type ModelIdentity, modelIdentity, type VocabularyEntries } from '../codec/avp/identity.js';
export type { AvpMetadata, AvpMode, PayloadType } from '../codec/avp/metadata.js';
export type { Compatibility, ResolutionPath } from '../codec/avp/resolve.js';
export type { Dtype, Tensor, TypedTensor } from '../codec/avp/tensor.js';
export type { SendTensorOptions } from './tensors/send-options.js';
export type { TransferMode } from './tensors/receiver.js';
export type {
  AssembledTensor,
  ReceivedTensor,
  StreamedTensor,
  TensorInput,
} from './tensors/tensor.js';

// Codecs and M2M headers

export { Algorithm, EncodingName } from '../base/constants.js';
export type { BodyForm } from '../codec/algorithms.js';
export type { SecurityStatus } from '../codec/body.js';
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
} from '../codec/m2m/fields.js';
export type { M2MSecurity } from '../codec/m2m/security.js';

// Statistics

export type { Selection, SelectionRule, Trial } from '../codec/auto/codec-trial.js';
export type { ContextDetails, LastSelection } from '../codec/auto/deferred.js';
export type { AlgorithmStats, DirectionStats, SessionStats } from './stats.js';
export type { ContextUse } from '../link/context-coding.js';

// Subprotocols

export { Subprotocol } from '../base/constants.js';
