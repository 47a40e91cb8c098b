/** The public API of `@parlance/client`: the client, and every type that its signatures mention. */

export * from '@parlance/protocol/application';

// The client

export { connect } from './client.js';
export type { ClientOptions, TokenSource } from './options.js';
export type { WebSocketConstructor, WebSocketLike } from './connection.js';
export type { SessionFetch } from '@parlance/protocol/http';
export type { FetchContext, FetchHandler, FetchSession } from '@parlance/protocol/serve-http';
export type { ReconnectOptions } from './reconnect.js';
export type { ClientSession } from './session.js';
export type { SharingOptions } from './shared/options.js';
export type { SessionStore } from './store.js';

// Vocabularies

export { loadEncoding } from './vocabulary.js';
export type { LoadOptions, LoadProgress, VocabularySource } from '@parlance/protocol';
