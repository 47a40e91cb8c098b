/** Typed requests and events over a session, as `@parlance/client/contract` and `@parlance/server/contract`. */

export {
  type CallingSession,
  type ContractClient,
  contractClient,
  type FollowedProcedure,
  type ProcedureReply,
} from './client.js';
export {
  type CallInput,
  type CallOutput,
  type CallPart,
  type Contract,
  type ContractOptions,
  defineContract,
  type EventInput,
  type EventKind,
  type EventKinds,
  type EventOutput,
  type Handler,
  type Handlers,
  type NoEvents,
  type Procedure,
  type Procedures,
} from './contract.js';
export { ContractError, type ContractErrorCode } from './error.js';
export type { EmittedEvents, EventHandler, EventHandlers, EventName, EventsOf } from './events.js';
export type { Issue } from './issues.js';
export type { Schema } from './schema.js';
export { type ServeOptions, serve } from './serve.js';
