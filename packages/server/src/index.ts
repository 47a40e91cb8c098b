export { ProtocolError, RequestError, type Scan, type ScanContext, type Verdict } from '@parlance/protocol';
export type { Authenticate, Credentials, Identity } from './admission.js';
export type { Listening, Server } from './api.js';
export type { DrainOptions, DrainResult } from './drain.js';
export type { ListenOptions } from './listener.js';
export type { ServerOptions } from './options.js';
export type {
  AgentName,
  AgentsOptions,
  Party,
  RelayKind,
  RelayQuestion,
  RouteQuestion,
} from './relay/policy.js';
export type { RelayStats } from './relay/transit.js';
export { createServer } from './server.js';
