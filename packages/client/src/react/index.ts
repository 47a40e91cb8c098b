'use client';

/** Sessions in React. The states are codes, for which applications have their own words. */

export { type AgentsView, useAgents } from './agents.js';
export type { Failure } from './failure.js';
export { useMessages } from './messages.js';
export {
  type FollowOptions,
  type FollowView,
  type Readable,
  type ReadOptions,
  type ReplyStatus,
  type ReplyView,
  type StreamView,
  useReply,
  useStream,
} from './reply.js';
export { type RoomCalls, type RoomView, useRoom } from './room.js';
export {
  type SessionOptions,
  type SessionSource,
  type SessionStatus,
  type SessionView,
  useSession,
} from './session.js';
