export { ProtocolError, RequestError } from '@parlance/protocol';
export type { Authenticate, Credentials, Identity } from './admission.js';
export type { ServerOptions } from './options.js';
export { createServer, type Listening, type ListenOptions, type Server } from './server.js';
