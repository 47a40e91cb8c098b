/** The public API of `@parlance/client`: the client, and every type that its signatures mention. */

export * from '@parlance/protocol/application';

// The client

export { connect } from './client.js';
export type { ClientOptions, SessionStore, SharingOptions, TokenSource } from './session/options.js';
export type { WebSocketConstructor, WebSocketLike } from './connection/web-socket.js';
export type { SessionFetch } from '@parlance/protocol/http';
export type { FetchContext, FetchHandler, FetchSession } from '@parlance/protocol/serve-http';
export type { TransportName } from './connection/transport.js';
export type { ReconnectOptions } from './connection/backoff.js';
export type { ClientSession } from './session/session.js';
export type { SessionModule, SessionModuleHooks } from './session/session-module.js';

// Vocabularies

export { loadEncoding } from './session/vocabulary.js';
export type { LoadOptions, LoadProgress, VocabularySource } from '@parlance/protocol';
