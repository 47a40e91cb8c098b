import type { IncomingMessage, ServerResponse } from 'node:http';
import type {
  CapabilityOptions,
  CodedBody,
  GoAwayPayload,
  HelloPayload,
  Message,
  ProtocolError,
  RequestHandler,
  ResumeOffer,
  Session,
  SessionOptions,
} from '@parlance/protocol';
import {
  type EventRoute,
  type MemoryBudget,
  newIncarnation,
  type OwnHandler,
  type Traffic,
} from '@parlance/protocol/internal';
import type { Engine } from '../../engine/engine.js';
import type { CheckedIdentity } from '../../session/admission/admission.js';
import type { Stated } from '../../session/admission/identify.js';
import type { Origin } from '../../session/admission/renewal.js';
import type { Sought, Wanted } from '../../session/admission/seek.js';
import type { ServerEndpoint } from '../../session/endpoint.js';
import type { FeatureEndpoint } from '../../session/hooks.js';
import type { SessionHost } from '../../session/host.js';
import type { ServerObserver } from '../../session/observer.js';
import type { Visitor, VisitorSessionOptions } from '../../session/visitors.js';
import type { Door } from '../../transport/http/door.js';
import type { Refusal } from '../../transport/http/site.js';
import type { HttpHandler, Page, PagePort } from '../../transport/http/status.js';
import type { UpgradeTarget } from '../../transport/http/upgrade.js';
import type { DrainOptions, DrainProgress, DrainResult } from '../drain-options.js';
import type { ResolvedServerOptions } from '../options.js';
import type { Slot } from './slot.js';

/** A capability of a server beyond sessions, such as `groups()`. It may be given to several servers. */
export interface Feature {
  /** A server has one feature of a name. */
  readonly name: string;
  /**
   * Ports that it may provide, for features that come after one which does.
   *
   * @internal
   */
  readonly provides?: readonly Service<unknown>[] | undefined;
  /**
   * Features that are installed before this one if they are there: those that provide a port which it uses, and those around it,
   * by name.
   *
   * @internal
   */
  readonly after?: readonly (string | Service<unknown>)[] | undefined;
  /**
   * Called once for each server, before any session.
   *
   * @internal
   * @throws {ProtocolError} `invalid_option`.
   */
  install(host: FeatureHost): FeatureHooks;
}

/** Something that one feature gives to others, by its type. */
export class Service<Value> {
  declare readonly value: Value;
  readonly name: string;
  constructor(name: string) {
    this.name = name;
  }
}

/** The server as its features see it. */
export interface FeatureHost {
  /** The options of the server itself. */
  readonly options: ResolvedServerOptions;
  /** The memory of all sessions together. */
  readonly memory: MemoryBudget;
  /** Sessions that were established and have not ended, by ID. */
  readonly sessions: ReadonlyMap<string, ServerEndpoint>;
  /** Those that are here, established or about to be. */
  readonly connections: ReadonlySet<ServerEndpoint>;
  /** Connections that have no session yet. */
  readonly greetings: { readonly size: number };
  /** Bytes on connections that got no session. */
  readonly unserved: Traffic;
  /** `undefined` unless the server drains. */
  readonly drainProgress: DrainProgress | undefined;
  /** @throws {ProtocolError} `invalid_option`. */
  drain(options: DrainOptions): Promise<DrainResult>;
  /** The deadline of the drain is now. */
  finishDrain(): void;
  find(sessionId: string): ServerEndpoint | undefined;
  /** State of one feature per session, made on first use and gone with the session. */
  slot<State>(create: (session: ServerEndpoint) => State): Slot<State, ServerEndpoint>;
  provide<Value>(port: Service<Value>, value: Value): void;
  /** What a feature before this one has provided. */
  use<Value>(port: Service<Value>): Value | undefined;
  /**
   * What the feature saves of a session has changed: that goes on record, if the session is, in one turn with what happens
   * in the same turn of the event loop.
   */
  changed(session: ServerEndpoint): void;
  /** What has kept the server from having drained may be over. */
  settled(): void;
  /** Of all features. Complete once all are installed. */
  figures(): readonly Figure[];
  /** Of all features, as {@link figures}. */
  labels(): Labels;
  /** Checks and counts each request that opens a connection, for what carries sessions. */
  readonly door: Pick<Door, 'enter'>;
  /**
   * Asks the application's `authenticate` who has sent a request, as for a session: with the same checks of host, origin and rates,
   * and in the same time. A request counts once, also one whose WebSocket a feature takes.
   *
   * @param stated what the client says of itself beside its headers.
   * @throws {ProtocolError} if the client is refused: `unauthenticated`, `forbidden`, `rate_limited`, `draining`, or `internal` if
   * `authenticate` has failed. A handler of HTTP that throws it answers with 401, 403, 429, 503 or 500.
   */
  identify(request: IncomingMessage, stated?: Stated): Promise<Visitor>;
  /**
   * Begins a session of a visitor within this process, for an endpoint that speaks another protocol. It is one of the server's
   * sessions, with the same handlers, hooks and limits, and ends with `close` at either end, when the credentials expire, or when
   * the server drains and nothing is under way. It is not resumed.
   *
   * @returns the client's end.
   * @throws {ProtocolError} as {@link identify} if the session is refused; `invalid_argument` for what `identify` has not returned.
   */
  session(visitor: Visitor, options?: VisitorSessionOptions): Promise<Session>;
  /** Answers a request for one of the server's pages. Returns `false` for other requests. */
  respond(request: IncomingMessage, response: ServerResponse, port: PagePort): boolean;
}

/** What brings sessions and connections to the server that did not begin on one of its own. */
export const SESSIONS = new Service<SessionHost>('sessions');

/** Who is told what no hook is called for. `undefined` until it is loaded. */
export const METER = new Service<{ readonly observer: ServerObserver | undefined }>('meter');

/** This process: a node of a cluster, or a single one. It owns what it writes to the engine. */
export interface ThisNode {
  /** Names it in the IDs of its sessions and in records. Each process has another one. */
  readonly incarnation: string;
  /** `undefined` if the memory of the process is its engine. */
  readonly engine: Engine | undefined;
  /** The engine does not answer, as far as is known. */
  readonly isStalled: boolean;
  /** No other process takes this one for dead. */
  readonly hasLease: boolean;
  /** Whether the engine has a lease of another node. Rejects if the engine does not answer. */
  lives(incarnation: string): Promise<boolean>;
}

export const NODE = new Service<ThisNode>('node');

/** The node of a server without an engine. */
export const nodeInMemory = (): ThisNode => ({
  incarnation: newIncarnation(),
  engine: undefined,
  isStalled: false,
  hasLease: true,
  lives: async () => false,
});

/** What the cores of all sessions get from one feature. No two features give the same. */
export type CoreOptions = Pick<SessionOptions, 'avp' | 'maxRecordSize' | 'tellsBeside'>;

/** What HELLO may agree on because a feature is there. */
export type Offer = Pick<CapabilityOptions, 'securityScanning'>;

/** An address that the server answers itself; it begins with `@`. */
export interface OwnName {
  /** Only sessions that have agreed on it have the name. */
  readonly extension: string;
  /** @param said what a node that has died has answered. */
  handlerFor(session: ServerEndpoint, stream: number, said: readonly CodedBody[] | undefined): OwnHandler;
}

/** What a feature does while its server drains. */
export interface DrainHooks {
  /** What has to end beside sessions. */
  readonly running?: number | undefined;
  /** Another server takes sessions and clients from this one. @default false */
  readonly isElsewhere?: boolean | undefined;
  /**
   * The drain begins. Sessions are told when this has resolved.
   *
   * @param deadline Unix milliseconds.
   * @param returnWithinMs clients come back within this time.
   */
  announce?(deadline: number, returnWithinMs: number): Promise<void> | void;
  /** Whether the client of a session need not know: the session goes on elsewhere, or is given up when it can be. */
  keeps?(session: ServerEndpoint): boolean;
  /** What the client of another session is told besides. */
  farewell?(session: ServerEndpoint): Pick<GoAwayPayload, 'move'> | undefined;
  /** It is the deadline: sessions that are left go elsewhere, if they can. Never rejects. */
  park?(): Promise<void>;
  /** Sessions that are left are about to be closed. */
  cut?(reason: ProtocolError): void;
  /** The sessions are closed. */
  finish?(): Promise<void>;
}

/** A number of the metrics. */
export interface Figure {
  /** Without `parlance_` and `_total`. */
  readonly name: string;
  readonly help: string;
  /** @default none */
  readonly labels?: readonly string[] | undefined;
  /** It only grows. @default false */
  readonly isCount?: boolean | undefined;
  /** An operator sees it first, with its name. @default false */
  readonly isShown?: boolean | undefined;
  /** Calls `set` with each value that it has now. */
  read(set: (value: number, labels?: Readonly<Record<string, string>>) => void): void;
}

/** What an operator sees of a session beside what all sessions have, by name; `undefined` of those without it. */
export type Labels = Readonly<Record<string, (session: ServerEndpoint) => string | undefined>>;

/**
 * A feature in one server. Every member is optional. Hooks are called in the order of {@link Feature.after}; one that throws
 * ends the session that it was called for, and no other.
 */
export interface FeatureHooks {
  readonly core?: CoreOptions | undefined;
  readonly endpoint?: FeatureEndpoint | undefined;
  readonly offer?: Offer | undefined;
  /** By name. */
  readonly names?: Readonly<Record<string, OwnName>> | undefined;
  /** Names of extensions that sessions may agree on because it is there. */
  readonly extensions?: readonly string[] | undefined;
  readonly figures?: readonly Figure[] | undefined;
  /** No two features have one of a name. */
  readonly labels?: Labels | undefined;
  readonly drain?: DrainHooks | undefined;
  /** A handler around another one. The first feature is the outermost. */
  wrap?(next: RequestHandler): RequestHandler;
  /** Takes the events that are not for the application. The first feature is the outermost. */
  route?(session: ServerEndpoint, next: EventRoute | undefined): EventRoute | undefined;
  /** Why no new session is admitted at present. */
  refuses?(): Refusal | undefined;
  /** Why a balancer should send no clients here, as one clause for the operator; `undefined` if the feature knows of nothing. */
  unready?(): string | undefined;
  /** Looks for a session that is not here. `undefined` if the feature does not look for it. Never rejects. */
  seek?(wanted: Wanted): Promise<Sought> | undefined;
  /** Whether a new session is put on record, or why it is refused; `undefined` if the feature does not decide that. */
  records?(hello: HelloPayload, identity: CheckedIdentity, origin: Origin): boolean | Refusal | undefined;
  /** Before ACCEPT, when it is known who the client is. */
  claim?(session: ServerEndpoint, hello: HelloPayload): Refusal | undefined;
  /** A new session was accepted. @param resume the one that its client would have resumed. */
  accepted?(session: ServerEndpoint, resume: ResumeOffer | undefined): void;
  /** A new session is established. */
  ready?(session: ServerEndpoint): void;
  /** Another connection is about to carry the session. */
  resumed?(session: ServerEndpoint): void;
  /**
   * The application is done with a one-way message of the client, or with a tensor: each is told once, wherever the session goes.
   * What {@link FeatureHost.changed} saves meanwhile is on record with it, or neither is.
   */
  handled?(session: ServerEndpoint, message: Message): void;
  /** The session is over here, also one that was never established and is not in {@link FeatureHost.sessions}. */
  ended?(session: ServerEndpoint, error: ProtocolError | undefined): void;
  /** The session may leave: what others have for it waits from now on. Again is allowed. */
  hold?(session: ServerEndpoint): void;
  /** Whether nothing is under way between a session that is held and others. */
  quiet?(session: ServerEndpoint): boolean;
  /** Whether the handler of a stream goes on where the session goes: at once, or when another node reads its record. */
  leaves?(session: ServerEndpoint, stream: number, how: 'move' | 'record'): boolean;
  /** There is no more time: what keeps a session here ends with `reason`. */
  settle?(session: ServerEndpoint, reason: ProtocolError): void;
  /**
   * The session takes nothing any more, and is about to be forgotten here.
   *
   * @param node which has it now; `undefined` if one will take it from its record.
   */
  moved?(session: ServerEndpoint, node: string | undefined): void;
  /** The session stays. */
  release?(session: ServerEndpoint): void;
  /**
   * What the feature has to know where the session goes, as a value of MessagePack; `undefined` for nothing. It is asked when the
   * session moves, when it goes on record, and when {@link FeatureHost.changed} is called.
   *
   * @param how another node takes it now, or from its record when this one has died.
   */
  save?(session: ServerEndpoint, how: 'move' | 'record'): unknown;
  /**
   * Reads what {@link save} has written, before it is decided that the session is taken.
   *
   * @returns is called when the session is here. `from` is the node that has handed it over; `undefined` if it was on record.
   * @throws {ProtocolError} `bad_message`.
   */
  load?(saved: unknown): (session: ServerEndpoint, from: string | undefined) => void;
  /**
   * Answers requests at a path: a page, for GET alone, or a handler. `undefined` if the feature has nothing there. What it throws is
   * answered with HTTP 500.
   *
   * @param path without the query; it begins with `/`.
   */
  http?(path: string, port: PagePort): Page | HttpHandler | undefined;
  /**
   * Takes WebSockets at a path, of any protocol; `undefined` if the feature takes none there. An error that it throws ends the
   * WebSocket that it was called for.
   */
  upgrade?(path: string): UpgradeTarget | undefined;
  /** Loads what it needs, before clients are admitted. Called again if that has failed. */
  start?(): Promise<void> | void;
  /** Called about once a second, after {@link start}. */
  tick?(): void;
  /** The server closes: its sessions are about to be closed. */
  leave?(): Promise<void> | void;
  /** The sessions of the server are closed. The last feature is the first. */
  close?(reason: ProtocolError): Promise<void> | void;
}
