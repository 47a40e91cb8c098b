import type { IncomingMessage } from 'node:http';
import type {
  Additions,
  GoAwayPayload,
  Logger,
  Message,
  ProtocolError,
  RequestHandler,
  Session,
  Subprotocol,
} from '@parlance/protocol';
import type { Stated } from '../../session/admission/identify.js';
import type { FeatureSession } from '../../session/feature-session.js';
import type { ServerSession } from '../../session/served-session.js';
import type { Visitor, VisitorSessionOptions } from '../../session/visitors.js';
import type { Arrival, TurnedAway } from '../../transport/http/door.js';
import type { Refusal } from '../../transport/http/site.js';
import type { HttpHandler, Page, PagePort } from '../../transport/http/status.js';
import type { UpgradeTarget } from '../../transport/http/upgrade.js';
import type { Transport } from '../../transport/transport.js';
import type { Slot } from './slot.js';

/** A capability of a server beyond sessions, such as `groups()`. It may be given to several servers. */
export interface Feature {
  /** A server has one feature of a name. Saved state goes by it. */
  readonly name: string;
  /** Services that it may provide, so that features which use them are installed after it. @default none */
  readonly provides?: readonly Service<unknown>[] | undefined;
  /**
   * Features that are installed before this one if they are there: those that provide a service which it uses, and those around
   * it, by name.
   *
   * @default none
   */
  readonly after?: readonly (string | Service<unknown>)[] | undefined;
  /**
   * Called once for each server, before any session.
   *
   * @throws {ProtocolError} `invalid_option`; `createServer` throws it.
   */
  install(host: FeatureHost): FeatureHooks;
}

/** Something that one feature gives to others: a constant that both import. @typeParam Value what is given. */
export class Service<Value> {
  declare readonly value: Value;
  readonly name: string;
  /** @param name for error messages. */
  constructor(name: string) {
    this.name = name;
  }
}

/** The server as its features see it. */
export interface FeatureHost<Served extends FeatureSession = FeatureSession> {
  /** Sessions that were established and have not ended, by ID. */
  readonly sessions: ReadonlyMap<string, Served>;
  /** The path of the WebSockets of sessions, such as `/session`. Features are not asked about it. */
  readonly path: string;
  /** The server's logger; each line has a field `event`. */
  readonly logger: Logger;
  /** One of {@link sessions}, by its ID. */
  find(sessionId: string): Served | undefined;
  /** State of one feature per session, made on first use and gone with the session. */
  slot<State>(create: (session: Served) => State): Slot<State, Served>;
  /** Gives something to the features after this one. */
  provide<Value>(service: Service<Value>, value: Value): void;
  /** Given by a feature before this one; `undefined` if there is none. */
  use<Value>(service: Service<Value>): Value | undefined;
  /**
   * Says that {@link FeatureHooks.save} returns something new for a session. If the session is recorded, the new state
   * is recorded in one step with all other changes of the same tick of the event loop.
   */
  changed(session: Served): void;
  /** Says that {@link DrainHooks.running} may be 0 now. */
  settled(): void;
  /** Checks and counts a request that opens a connection, for transports of sessions. A request counts once. */
  enter(request: IncomingMessage): Arrival | TurnedAway;
  /**
   * Begins with the HELLO that comes over a transport of its own: a session, or what resumes one.
   *
   * @param arrival as {@link enter} has said; its refusal is sent in REJECT.
   * @param subprotocol `m2m.v1` for frames of bytes, `m2m.v1.json` for text.
   */
  begin(transport: Transport, arrival: Arrival, subprotocol: Subprotocol): void;
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
}

/** Hooks of a server that drains: it takes no new sessions, and lets those that it has end. */
export interface DrainHooks<Served extends FeatureSession = FeatureSession> {
  /** How many things have to end beside sessions, such as writes. @default 0 */
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
  /**
   * Whether the client of a session need not know: the session continues elsewhere, or is given up as soon as possible.
   */
  keeps?(session: Served): boolean;
  /**
   * Additions to the GOAWAY for the client of another session.
   *
   * @internal
   */
  farewell?(session: Served): Pick<GoAwayPayload, 'move'> | undefined;
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

/** Columns of the list of sessions that an operator sees, by name. A session without a value has `undefined`. */
export type Labels<Served extends FeatureSession = FeatureSession> = Readonly<
  Record<string, Label<Served>['of']>
>;

/** One of {@link Labels}, as a method. */
export interface Label<Served> {
  of(session: Served): string | undefined;
}

/** Called when a session is here whose state {@link FeatureHooks.load} has read, as a method. */
export interface Loaded<Served> {
  /** @param from the node that has handed the session over; `undefined` if it was restored from its record. */
  begin(session: Served, from: string | undefined): void;
}

/**
 * A feature in one server. Every member is optional. Hooks are called in the order of {@link Feature.after}. One that throws ends
 * the session, the request or the WebSocket that it was called for, and nothing else; the log has `part.failed` or `session.crashed`.
 */
export interface FeatureHooks<Served extends FeatureSession = FeatureSession>
  extends Additions<ServerSession, Served> {
  /** Numbers of the metrics. */
  readonly figures?: readonly Figure[] | undefined;
  /** Columns that an operator sees of each session. No two features have one of a name. */
  readonly labels?: Labels<Served> | undefined;
  /** Called while the server drains. */
  readonly drain?: DrainHooks<Served> | undefined;
  /** A handler around another one: that of the application, or one that refuses if there is none. The first feature is the outermost. */
  wrap?(next: RequestHandler): RequestHandler;
  /**
   * Why no new session is admitted at present, or, if a balancer asks whether the server is ready, why it should send no clients here;
   * its operator reads the message.
   */
  refuses?(asks: 'session' | 'balancer'): Refusal | undefined;
  /** A new session is established. */
  ready?(session: Served): void;
  /** Another connection is about to carry the session. */
  resumed?(session: Served): void;
  /**
   * The application is done with a one-way message of the client, or with a tensor. Called once for each, at whichever
   * node the session is. A change that {@link FeatureHost.changed} reports meanwhile is recorded with the message, or
   * neither is.
   */
  handled?(session: Served, message: Message): void;
  /** The session is over here, also one that was never established and is not in {@link FeatureHost.sessions}. */
  ended?(session: Served, error: ProtocolError | undefined): void;
  /**
   * Returns what the feature needs where the session goes: `undefined` for nothing, or a value of MessagePack, such as numbers, strings,
   * `Uint8Array`, arrays and plain objects. Called when the session moves, when it is recorded, and after
   * {@link FeatureHost.changed}.
   *
   * @param how `move`: another node takes the session now; `record`: one will take it from its record when this one has died.
   * @throws ends the session, with the code of a `ProtocolError` if it is `over_budget`, else with `internal`.
   */
  save?(session: Served, how: 'move' | 'record'): unknown;
  /**
   * Reads what {@link save} has written, before it is decided that the session is taken.
   *
   * @returns is called when the session is here. `from` is the node that has handed it over; `undefined` if it was
   * restored from its record.
   * @throws {ProtocolError} `bad_message`.
   */
  load?(saved: unknown): Loaded<Served>['begin'];
  /**
   * Answers requests at a path: with a page, for GET and HEAD alone, or with a handler. `undefined` if the feature has nothing there. If
   * it throws, the request is answered with HTTP 500.
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
