/** The public API of `@parlance/server`: the server, and every type that its signatures mention. */

// The server

export type { Authenticate, Credentials, Identity } from './admission/admission.js';
export type { Listening, Server } from './api.js';
export type { DrainOptions, DrainResult } from './drain.js';
export type { ListenOptions } from './http/listener.js';
export type { ServerOptions } from './options.js';
export { createServer } from './server.js';

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

export type { AgentChange, AgentInfo, Agents, Undelivered } from '@parlance/protocol';
export type {
  AgentName,
  AgentsOptions,
  Party,
  RelayKind,
  RelayQuestion,
  RouteQuestion,
} from './agents/policy.js';
export type { RelayStats } from './agents/transit.js';

// Scans

export type { Scan, ScanContext, Verdict } from './agents/scan.js';

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
