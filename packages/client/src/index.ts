export {
  type AgentChange,
  type AgentInfo,
  type AgentOptions,
  type Agents,
  type Body,
  type Message,
  type Part,
  ProtocolError,
  type ReplyStream,
  RequestError,
  type Session,
  Subprotocol,
  type Undeliverable,
} from '@parlance/protocol';
export { type ClientOptions, type ClientSession, connect, type TokenSource } from './client.js';
export type { WebSocketConstructor, WebSocketLike } from './connection.js';
export type { SessionFetch } from './fetch.js';
