import type { ForeignNames } from '@parlance/protocol/internal';

/** Names of other servers, and what has their place here. */

const LISTEN = 'server.listen({ port, host }) opens a port';
const SESSIONS = 'onSession is called with each session, and reads its messages with for await';
const ADMIT = 'authenticate gets the token and the headers, cookies included, and returns who it is';
const SIZE = 'limits: { maxMessageSize } has it';
const SAVE =
  'clients come back to their session by themselves; durable() keeps it over the death of the process';

export const FOREIGN_OPTIONS: ForeignNames = {
  cors: "origins lists the pages that may connect, such as ['https://app.example']",
  allowedOrigins: 'origins has them',
  onMessage: SESSIONS,
  onmessage: SESSIONS,
  onConnection: SESSIONS,
  onConnect: SESSIONS,
  onOpen: SESSIONS,
  onClose: 'session.closed resolves when a session is over',
  server: 'server.attach(httpServer) serves sessions on an HTTP server that you have',
  httpServer: 'server.attach(httpServer) serves sessions on an HTTP server that you have',
  port: LISTEN,
  host: LISTEN,
  hostname: LISTEN,
  headers: ADMIT,
  auth: ADMIT,
  cookie: ADMIT,
  allowRequest: ADMIT,
  verifyClient: ADMIT,
  pingInterval: 'timers: { pingIntervalMs } has it',
  pingTimeout: 'timers: { pongTimeoutMs } has it',
  heartbeatInterval: 'timers: { pingIntervalMs } has it',
  connectTimeout: 'timers: { helloTimeoutMs } has it',
  idleTimeout: 'timers: { idleTimeoutMs } has it',
  maxPayload: SIZE,
  maxPayloadLength: SIZE,
  maxHttpBufferSize: SIZE,
  adapter: 'engine is what several processes share, and cluster() joins them',
  redis: "engine: redis({ url }) of '@parlance/server/redis'",
  connectionStateRecovery: SAVE,
  trustProxy: 'trustedProxies has the addresses of the proxies',
};

const GROUPS =
  "server.group('name').send(message) reaches its members; server.group('name').add(session) makes one";

/** Of a server. */
export const FOREIGN_OF_SERVER: ForeignNames = {
  on: `${SESSIONS}; session.on has the events of one`,
  to: GROUPS,
  in: GROUPS,
  broadcast: GROUPS,
  emit: `${GROUPS}; for one session there is session.emit, with events() of '@parlance/server/contract'`,
  of: "groups take the place of namespaces: server.group('name')",
  use: 'authenticate decides who is admitted, and hooks([…]) in features run around requests and messages',
  fetchSockets: 'server.sessions has the sessions of this process',
  disconnectSockets: 'close each session: for (const session of server.sessions.values()) session.close()',
};

/** Of its sessions. */
export const FOREIGN_OF_SESSIONS: ForeignNames = {
  join: "server.group('name').add(session) makes it a member",
  leave: "server.group('name').delete(session) ends that",
  to: "server.group('name').send(message, { except: session }) reaches the others",
  in: "server.group('name').send(message) reaches the members of a group",
  broadcast: "server.group('name').send(message, { except: session }) reaches the others",
  emit: "give the server events(contract) of '@parlance/server/contract'; session.send(body) sends a message",
  once: 'session.on(name, listener) returns a function that removes the listener',
  off: 'session.on(name, listener) returns a function that removes the listener',
  disconnect: 'session.close({ code, reason }) ends it',
  terminate: 'session.close({ code, reason }) ends it',
  use: 'hooks([…]) in the features of the server run around requests and messages',
};
