/** The public API of `@parlance/client`: the client, and every type that its signatures mention. */

// The client

export { type ClientOptions, connect, type TokenSource } from './client.js';
export type { WebSocketConstructor, WebSocketLike } from './connection.js';
export type { SessionFetch } from './fetch.js';
export type { ReconnectOptions } from './reconnect.js';
export type { ClientSession } from './session.js';
export { Subprotocol } from '@parlance/protocol';

// Sessions

export type {
  CapabilityOptions,
  CloseResult,
  Limits,
  Logger,
  Negotiated,
  RequestOptions,
  SendOptions,
  Session,
  SessionEvents,
  SessionReset,
  SessionState,
  StringMap,
  Timers,
  Unconfirmed,
  UnconfirmedBody,
} from '@parlance/protocol';

// Messages, requests and replies

export type {
  BatchOptions,
  Body,
  Message,
  Metadata,
  MetadataValue,
  Part,
  ReplyStream,
  RequestContext,
  RequestHandler,
} from '@parlance/protocol';

// Errors and close codes

export {
  CloseCode,
  type CloseCodeName,
  type ErrorCode,
  type ErrorSide,
  isProtocolError,
  ProtocolError,
  type ProtocolErrorOptions,
  type Rejection,
  RequestError,
  type RequestErrorOptions,
} from '@parlance/protocol';

// Agents

export type { AgentChange, AgentInfo, AgentOptions, Agents, Undelivered } from '@parlance/protocol';

// Tensors, and the models that they belong to

export type {
  AssembledTensor,
  AvpAgreement,
  AvpDescription,
  AvpHead,
  AvpHeader,
  AvpInput,
  AvpMessage,
  AvpMetadata,
  AvpMetadataInput,
  AvpMode,
  AvpOptions,
  Compatibility,
  Dtype,
  JsonObject,
  ModelIdentity,
  PayloadType,
  ReceivedTensor,
  ResolutionPath,
  SendTensorOptions,
  StreamedTensor,
  Tensor,
  TensorInput,
  TransferMode,
  TypedTensor,
} from '@parlance/protocol';
export { modelIdentity, type VocabularyEntries } from '@parlance/protocol';

// Codecs and M2M headers

export type {
  Algorithm,
  BareFields,
  BodyForm,
  EncodingName,
  FinishReason,
  FixedHeader,
  M2MFields,
  M2MHeader,
  M2MSchema,
  M2MSecurity,
  M2MSecurityMode,
  RequestFields,
  ResponseFields,
  Role,
  SecurityStatus,
} from '@parlance/protocol';

// Statistics

export type {
  AlgorithmStats,
  ContextDetails,
  ContextUse,
  DirectionStats,
  LastSelection,
  Selection,
  SelectionRule,
  SessionStats,
  Trial,
} from '@parlance/protocol';
