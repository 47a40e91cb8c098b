/** The public API of `@parlance/server`: the server, and every type that its signatures mention. */

export * from '@parlance/protocol/application';

// The server

export type { Authenticate, Credentials, Identity } from './session/admission/admission.js';
export type { Server } from './create-server.js';
export type { CloseServerOptions, DrainOptions, DrainResult } from './server/drain-options.js';
export type {
  Group,
  GroupAddOptions,
  GroupSendOptions,
  GroupSent,
  GroupSentElsewhere,
  Member,
  MembersOptions,
  MembersPage,
  Presence,
  PresenceChange,
} from './groups/group.js';
export type { GroupsOptions } from './groups/options.js';
export type {
  Hook,
  HookContext,
  HookReply,
  MessageHookContext,
  RequestHookContext,
} from './server/hooks/hook.js';
export type { DurabilityOptions, DurableCandidate, DurablePolicy } from './durable/options.js';
export type { Listening, ListenOptions } from './transport/http/listener.js';
export type { ServerOptions } from './server/server-options.js';
export type { AdminOptions } from './operate/admin/options.js';
export type { CommitOptions, ServerSession } from './session/served-session.js';
export { createServer } from './create-server.js';

// Features of your own

export {
  type DrainHooks,
  type Feature,
  type FeatureHooks,
  type FeatureHost,
  type Figure,
  type Label,
  type Labels,
  type Loaded,
  Service,
} from './server/features/feature.js';
export type { Slot, Slotted } from './server/features/slot.js';
export type { FeatureSession } from './session/feature-session.js';
export type { Stated } from './session/admission/identify.js';
export type { Visitor, VisitorSessionOptions } from './session/visitors.js';
export type { Arrival, Peer, TurnedAway } from './transport/http/door.js';
export type { Refusal } from './transport/http/site.js';
export type { RejectCode } from '@parlance/protocol';
export type { HttpHandler, Page, PagePort } from './transport/http/status.js';
export type { OpenSocket, UpgradeTarget } from './transport/http/upgrade.js';
export type { Transport, TransportEvents } from './transport/transport.js';
export type { Traffic, Wire } from '@parlance/protocol/internal';

// Features

export { without } from './server/features/choose-features.js';
export { admin } from './operate/admin/feature.js';
export { agents } from './agents/feature.js';
export { batching } from './replies/batching.js';
export { durable } from './durable/feature.js';
export { groups } from './groups/feature.js';
export { hooks } from './server/hooks/feature.js';
export { httpStream } from './server/http-stream/feature.js';
export { keptReplies } from './replies/feature.js';
export { metrics, type MetricsOptions } from './operate/observe/feature.js';
export { cluster } from './cluster/feature.js';
export { scan } from './agents/scan-feature.js';
export { sealed } from './engine/seal/sealed.js';
export { tensors, type TensorsOptions } from './server/tensors/feature.js';
export { tracing } from './operate/observe/tracing-feature.js';

// HTTP in a session

export type { SessionFetch } from '@parlance/protocol/http';
export type { FetchContext, FetchHandler, FetchSession } from '@parlance/protocol/serve-http';

// Clusters

export type { Engine } from './engine/engine.js';
export { memoryCluster } from './engine/memory.js';
export type { ClusterOptions } from './cluster/options.js';

// Agents

export type {
  AgentName,
  AgentsOptions,
  Party,
  RelayKind,
  RelayQuestion,
  RouteQuestion,
} from './agents/policy.js';
export type { RelayStats } from './agents/transit.js';

// Kept replies

export type { RepliesOptions, ReplyQuestion } from './replies/options.js';
export type { KeepPolicy } from './session/keep-policy.js';
export type { SealOptions } from './engine/seal/keys.js';

// Scans

export type { Scan, ScanContext, Verdict } from './agents/scan.js';
