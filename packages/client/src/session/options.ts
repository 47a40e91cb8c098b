import type {
  AgentOptions,
  AvpOptions,
  BatchOptions,
  CapabilityOptions,
  Limits,
  Logger,
  M2MSecurity,
  OnError,
  RequestHandler,
  Timers,
} from '@parlance/protocol';
import { CAPABILITY_KINDS, type OptionKinds, type Subprotocol } from '@parlance/protocol/client';
import type { FetchHandler } from '@parlance/protocol/serve-http';
import type { ReconnectOptions } from '../connection/backoff.js';
import type { TransportName } from '../connection/transport.js';
import type { WebSocketConstructor } from '../connection/web-socket.js';
import type { ClientSession } from './session.js';
import type { SessionModule } from './session-module.js';

/**
 * Credentials, or a function that returns them: it is called for each connection, and again before they
 * expire. One that does not answer within `acceptTimeoutMs`, 30 s, is called again; its answer counts, if it comes after all. Before
 * the first session, `connect` rejects with `connection_failed` then, or within `connectWithinMs` if that is stated. One that fails
 * for longer than the credentials last leaves the session without a connection, which waits for others within its window. If the
 * server refuses a token of a function, the function is called again, up to three times within a minute, and once for the first
 * session; a token that is a text is final.
 */
export type TokenSource = string | (() => string | Promise<string>);

export interface ClientOptions extends CapabilityOptions {
  /** Credentials for the server, 1 to 16,384 characters. @default none */
  readonly token?: TokenSource | undefined;
  /**
   * Who this client is: the agent ID that it asks for, its description for other agents, and the model behind it.
   *
   * @default none
   */
  readonly agent?: AgentOptions | undefined;
  /** Short for `agent.id`. @default none */
  readonly agentId?: string | undefined;
  /** Short for `agent.model`. @default none */
  readonly avp?: AvpOptions | undefined;
  /** @default the WebSocket class of the runtime; on Node 20, which has none, that of the package `ws`, if it is installed */
  readonly WebSocket?: WebSocketConstructor | undefined;
  /** Stops connecting; it has no effect on an established session. */
  readonly signal?: AbortSignal | undefined;
  /**
   * Answers requests of the server and of other agents, see `request.from`.
   *
   * @default answers `unsupported`
   */
  readonly onRequest?: RequestHandler | undefined;
  /**
   * Answers what the server sends with `session.fetch`: `app.fetch` of Hono or any other function of a `Request`. Paths
   * that `onRequest` serves, as the OpenAI gateway does, go to that.
   *
   * @default HTTP requests go to `onRequest`
   */
  readonly onFetch?: FetchHandler<ClientSession> | undefined;
  /**
   * Joins the parts of replies; a handler may change it for its reply.
   *
   * @default each part is sent by itself
   */
  readonly batch?: BatchOptions | undefined;
  /**
   * Protects every body, in both directions. The session then uses M2M alone, without context coding, tokens
   * and tensors. A received body without protection ends it with `security_required`. Metadata and errors are
   * not protected.
   *
   * @default none
   */
  readonly security?: M2MSecurity | undefined;
  /**
   * Delays between attempts to connect again after a lost connection, with full jitter; `true` stands for the
   * default. `false` never connects again and switches the extension `resume` off: a lost connection, or a server
   * that drains, ends the session. In pages, a first attempt that has failed is repeated as well; see `connectWithinMs`.
   *
   * @default { minDelayMs: 100, maxDelayMs: 10_000 }
   */
  readonly reconnect?: ReconnectOptions | boolean | undefined;
  /**
   * Whether `connect` tries again if the server cannot be reached, refuses for now or says nothing: for 60 s, or
   * `reconnect.connectWithinMs`. Then it rejects with the error of the last attempt.
   *
   * @default false: in pages and their workers 15 s, elsewhere one attempt
   */
  readonly waitForServer?: boolean | undefined;
  /** The subprotocol to offer: 'm2m.v1' is binary, 'm2m.v1.json' is for debugging. @default 'm2m.v1' */
  readonly subprotocol?: Subprotocol | undefined;
  /**
   * HELLO travels in the header `Sec-WebSocket-Protocol` of the upgrade request, if it has at most 3 KiB, and the answer comes
   * right behind that of the request: the session is ready a round trip earlier, as it is after a lost connection. HELLO has
   * the token and the token to resume with, and a proxy may log headers. It has no effect with 'm2m.v1.json', and on
   * servers that do not know it.
   *
   * @default true, but false if `token` is a string: it is probably valid for long, as nothing renews it
   */
  readonly earlyHello?: boolean | undefined;
  /**
   * How the session reaches its server, in the order in which it is tried: the second one if the first has failed, has not opened within 4 s,
   * or was lost three times in a row within 5 s of opening; at most once in 10 s while neither opens. An `acceptTimeoutMs` of at most 4 s leaves
   * no time for the second one behind a silent one. A later connection begins with the one that was answered last. A session over HTTP looks
   * for a WebSocket after 30 s, 2 and 10 minutes, and moves to it. `http` needs a server with sessions over HTTP, which is the default, and
   * 'm2m.v1'.
   *
   * @default ['websocket', 'http'], whose code for HTTP is loaded when it is needed; ['websocket'] with 'm2m.v1.json', and with a class
   * given as `WebSocket`, whose headers, proxies and certificates HTTP would not have
   */
  readonly transports?: readonly TransportName[] | undefined;
  /**
   * Pages: the code of codecs is not loaded before this promise has settled, for example when the user begins to write. Until then
   * content travels as it is, in both directions. It has no effect on Node.
   *
   * @default it is loaded with the first reply, or one second after the session has begun
   */
  readonly codecsAfter?: PromiseLike<unknown> | undefined;
  /** Limits of received data. @default DEFAULT_LIMITS */
  readonly limits?: Partial<Record<keyof Limits, number | undefined>> | undefined;
  /** Times in milliseconds. @default DEFAULT_TIMERS */
  readonly timers?: Partial<Record<keyof Timers, number | undefined>> | undefined;
  /**
   * Where the page keeps what the next page needs to rebuild its session: `'session'` is its `sessionStorage`. The session then
   * survives that the page is loaded again. The entry has a resume token, which is a secret of this origin. It is used
   * by one session of the page and server at a time, and never by two pages; each frame of a page has its own. On Node, `file(path)` of `@parlance/client/file`
   * keeps it over the death of the process.
   *
   * @default none: a page that is loaded again begins a new session
   */
  readonly store?: SessionStore | 'session' | undefined;
  /**
   * Gets a line for each thing that happens, with neither content nor tokens nor messages of the application's errors.
   *
   * @default silent, but see {@link onError}
   */
  readonly logger?: Logger | undefined;
  /**
   * Called with each error that a handler, a listener or another function of the application throws, in full.
   *
   * @default prints them with `console.error` if there is no `logger`, else nothing; 20 at once, then one a second
   */
  readonly onError?: OnError | undefined;
  /**
   * Called for each request. Returns the W3C `traceparent` to send as metadata, so that the trace of the
   * handler continues that of the caller.
   *
   * @default none
   */
  readonly traceparent?: (() => string | undefined) | undefined;
  /**
   * Pages: tabs of one origin that connect with equal URL, options and credential use one session, in a shared worker
   * or in one of the tabs. It has no effect on Node. Cannot be combined with `onRequest`, `onFetch`, `batch`, `agent`,
   * `agentId`, `avp`, `transfers`, `security`, `store` and `WebSocket`.
   *
   * @default false
   */
  readonly shared?: boolean | SharingOptions | undefined;
  /**
   * The additions to the session: methods and events of its own, and answers to requests of the server.
   *
   * @default none
   */
  readonly modules?: readonly SessionModule[] | undefined;
}

/** Where a page keeps what the next page needs to rebuild its session; `sessionStorage` is one. */
export interface SessionStore {
  /**
   * Only one process has the store, and what it has set is there when it dies: the next process may then take the session up, and nothing is
   * acknowledged before the store has been told.
   *
   * @default false: a session is taken up that was left with `detach`, or, in pages, whose page is gone
   */
  readonly isExclusive?: boolean | undefined;
  getItem(key: string): string | null | Promise<string | null>;
  setItem(key: string, value: string): void | Promise<void>;
  removeItem(key: string): void | Promise<void>;
}

/** How tabs share a session. */
export interface SharingOptions {
  /**
   * The URL of the script of the worker, at the origin of the page. Needed if the bundler does not find it by itself:
   * esbuild and Rollup; build `@parlance/client/shared-worker` as a file of its own.
   *
   * @default the script of this package, as Vite, webpack and Parcel bundle it
   */
  readonly worker?: string | URL | undefined;
}

export const KINDS: OptionKinds<ClientOptions> = {
  ...CAPABILITY_KINDS,
  token: ['text', 'function'],
  agentId: 'text',
  agent: 'object',
  WebSocket: 'class',
  signal: 'signal',
  onRequest: 'function',
  onFetch: 'function',
  batch: 'object',
  security: 'object',
  reconnect: ['object', 'flag'],
  waitForServer: 'flag',
  subprotocol: 'text',
  earlyHello: 'flag',
  transports: 'list',
  codecsAfter: 'object',
  limits: 'object',
  timers: 'object',
  store: ['text', 'object'],
  logger: 'logger',
  onError: 'function',
  traceparent: 'function',
  shared: ['flag', 'object'],
  modules: 'list',
};
