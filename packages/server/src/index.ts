export {
  type AssembledTensor,
  type AvpOptions,
  type BatchOptions,
  type Body,
  type CloseResult,
  type ErrorCode,
  isProtocolError,
  type Limits,
  type Logger,
  type M2MSecurity,
  type Message,
  type Metadata,
  type Negotiated,
  type Part,
  ProtocolError,
  type ReceivedTensor,
  type ReplyStream,
  type RequestContext,
  RequestError,
  type RequestHandler,
  type RequestOptions,
  type SendOptions,
  type SendTensorOptions,
  type Session,
  type SessionEvents,
  type SessionReset,
  type SessionState,
  type SessionStats,
  type StreamedTensor,
  type TensorInput,
  type Timers,
  type Undeliverable,
} from '@parlance/protocol';
export type { Authenticate, Credentials, Identity } from './admission/admission.js';
export type {
  AgentName,
  AgentsOptions,
  Party,
  RelayKind,
  RelayQuestion,
  RouteQuestion,
} from './agents/policy.js';
export type { RelayStats } from './agents/transit.js';
export type { Listening, Server } from './api.js';
export type { DrainOptions, DrainResult } from './drain.js';
export type { ListenOptions } from './http/listener.js';
export type { ServerOptions } from './options.js';
export { createServer } from './server.js';
export type { Scan, ScanContext, Verdict } from './agents/scan.js';
