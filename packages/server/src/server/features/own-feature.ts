import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import type {
  CapabilityOptions,
  CodedBody,
  HelloPayload,
  ProtocolError,
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
import type { LookupQuery, LookupResult } from '../../session/admission/lookup.js';
import type { Origin } from '../../session/admission/renewal.js';
import type { ServerEndpoint } from '../../session/endpoint.js';
import type { Admission, FeatureEndpoint } from '../../session/hooks.js';
import type { SessionHost } from '../../session/host.js';
import type { ServerObserver } from '../../session/observer.js';
import type { Refusal } from '../../transport/http/site.js';
import type { PagePort } from '../../transport/http/status.js';
import type { DrainOptions, DrainProgress, DrainResult } from '../drain-options.js';
import type { ResolvedServerOptions } from '../options.js';
import { type FeatureHooks, type FeatureHost, type Figure, type Labels, Service } from './feature.js';

/** Hooks that the features of this package have besides: they take part in how sessions begin, leave and are coded. */

export interface OwnHost extends FeatureHost<ServerEndpoint> {
  /** The options of the server itself. */
  readonly options: ResolvedServerOptions;
  /** The memory of all sessions together. */
  readonly memory: MemoryBudget;
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
  /** Names of all features, in their order. Complete once all are installed. */
  order(): readonly string[];
  /** Of all features. Complete once all are installed. */
  figures(): readonly Figure[];
  /** Of all features, as {@link figures}. */
  labels(): Labels;
  /** Answers a request for one of the server's pages. Returns `false` for other requests. */
  respond(request: IncomingMessage, response: ServerResponse, port: PagePort): boolean;
}

/** As {@link FeatureHooks}; a fault in a hook ends the session that it was called for, and no other. */
export interface OwnHooks extends FeatureHooks<ServerEndpoint> {
  readonly core?: CoreOptions | undefined;
  readonly endpoint?: FeatureEndpoint | undefined;
  readonly offer?: Offer | undefined;
  /** By name. */
  readonly names?: Readonly<Record<string, OwnName>> | undefined;
  /** Names of extensions that sessions may agree on because it is there. */
  readonly extensions?: readonly string[] | undefined;
  /** Takes the events that are not for the application. The first feature is the outermost. */
  route?(session: ServerEndpoint, next: EventRoute | undefined): EventRoute | undefined;
  /** Looks for a session that is not here. `undefined` if the feature does not look for it. Never rejects. */
  lookup?(wanted: LookupQuery): Promise<LookupResult> | undefined;
  /** As `SessionHooks.begins`. */
  begins?(key: string, sessionId: string, over: string | undefined): Promise<string> | undefined;
  /** Before a new session is made and counted: how it begins, or why it does not. @default it may begin */
  admit?(hello: HelloPayload, identity: CheckedIdentity, origin: Origin): Admission | Refusal | undefined;
  readonly others?: OthersOfSession | undefined;
  /**
   * Whether the handler of a stream continues at the node to which the session goes: at once, or when another node
   * reads its record.
   */
  leaves?(session: ServerEndpoint, stream: number, how: 'move' | 'record'): boolean;
  /**
   * The session takes nothing any more, and is about to be forgotten here.
   *
   * @param node which has it now; `undefined` if one will take it from its record.
   */
  moved?(session: ServerEndpoint, node: string | undefined): void;
  /** The session stays. */
  release?(session: ServerEndpoint): void;
}

/** Messages and requests between a session that may leave and others. */
export interface OthersOfSession {
  /** The session may leave: what others have for it waits from now on. Again is allowed. */
  hold(session: ServerEndpoint): void;
  /** Whether nothing is under way between a session that is held and others. */
  isQuiet(session: ServerEndpoint): boolean;
  /** The time to leave is over: calls that keep a session here end with `reason`. */
  settle(session: ServerEndpoint, reason: ProtocolError): void;
}

/** Brings sessions and connections to the server that did not begin on one of its own. */
export const SESSIONS = new Service<SessionHost>('sessions');

/** The observer of events for which no hook is called. `undefined` until it is loaded. */
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
  /** To other nodes and from them; `undefined` if none can be reached. */
  readonly pipes?: NodePipes | undefined;
}

/**
 * Streams of bytes between a feature of this node and of another one. In each direction 64 KiB are under way until they are read. A pipe
 * is closed without an end if the node is gone, has no such feature or no memory, and if the two nodes lose each other.
 */
export interface NodePipes {
  /** Whether a node lives, as far as is known; else {@link open} asks the engine. */
  knows(node: string): boolean;
  /** Begins a pipe. @param about goes before the bytes. */
  open(node: string, service: string, about: string): Duplex;
  /** Takes the pipes that other nodes begin. An error that `onPipe` throws ends all that is between the two nodes. */
  serve(service: string, onPipe: (pipe: Duplex, about: string) => void): void;
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

/** Options that the cores of all sessions get from one feature. No two features give the same. */
export type CoreOptions = Pick<SessionOptions, 'avp' | 'maxRecordSize' | 'tellsBeside'>;

/** Capabilities that HELLO may agree on because a feature is there. */
export type Offer = Pick<CapabilityOptions, 'securityScanning'>;

/** An address that the server answers itself; it begins with `@`. */
export interface OwnName {
  /** Only sessions that have agreed on it have the name. */
  readonly extension: string;
  /** @param said what a node that has died has answered. */
  handlerFor(session: ServerEndpoint, stream: number, said: readonly CodedBody[] | undefined): OwnHandler;
}
