import type {
  Limits,
  Logger,
  ProtocolError,
  RequestHandler,
  SessionOptions,
  Subprotocol,
} from '@parlance/protocol';
import {
  type Clock,
  type EndpointOptions,
  type EventRoute,
  type Mailbox,
  type MemoryBudget,
  type ServerSessionCore,
  systemClock,
} from '@parlance/protocol/internal';
import type { LoopShares } from '../base/loop-shares.js';
import type { LoopQueue } from '../transport/loop-queue.js';
import type { HandshakeHost } from './admission/handshake.js';
import type { ServerEndpoint, ServerEndpointOptions } from './endpoint.js';
import type { SessionObserver } from './observer.js';

/** What a connection needs from its server. */
export interface ConnectionHost extends HandshakeHost {
  /** Options that the cores of all sessions share. */
  sessionOptions(subprotocol: Subprotocol): SessionOptions;
  readonly onRequest: RequestHandler | undefined;
  /** The memory of all sessions together. */
  readonly memory: MemoryBudget;
  /** The time of the event loop. */
  readonly loop: LoopShares;
  /** The HELLO has arrived: from now on the client waits for the server. */
  onHello(session: ServerEndpoint): void;
  /** A session that was admitted is over. */
  release(address: string, principal: string | undefined): void;
  /** The connection that `own` began on is led to another node. */
  onLed(own: ServerEndpoint): void;
  /** The session is established and may be handed to the application. */
  onReady(session: ServerEndpoint): void;
  /** The session has lost its connection; another one may resume it. */
  onWireLost(session: ServerEndpoint): void;
  /** The session is over. */
  onEnded(session: ServerEndpoint, error: ProtocolError | undefined): void;
}

/** The options of one session, most of which are those of its server. */
export abstract class SessionSettings implements ServerEndpointOptions {
  readonly role = 'server';
  abstract readonly core: ServerSessionCore;
  abstract readonly session: ServerEndpoint;
  protected abstract readonly host: ConnectionHost;
  protected abstract readonly queue: LoopQueue;

  get clock(): Clock {
    return systemClock;
  }
  get limits(): Limits {
    return this.host.options.limits;
  }
  get memory(): MemoryBudget {
    return this.host.memory;
  }
  get maxAssembledSize(): number {
    return this.host.options.maxAssembledSize;
  }
  get yield(): () => Promise<void> {
    return () => this.queue.next();
  }
  get takesMessages(): boolean {
    return this.host.options.onSession !== undefined;
  }
  get onRequest(): RequestHandler | undefined {
    return this.host.onRequest;
  }
  get mailbox(): Mailbox | undefined {
    return this.host.parts.endpoint.createMailbox?.();
  }
  get readerOf(): ServerEndpointOptions['readerOf'] {
    return this.host.parts.endpoint.readerOf;
  }
  get onHandled(): ServerEndpointOptions['onHandled'] {
    return this.host.parts.onHandled;
  }
  get observer(): SessionObserver | undefined {
    return this.host.observer;
  }
  get batch(): EndpointOptions['batch'] {
    return this.host.parts.endpoint.batch;
  }
  get security(): EndpointOptions['security'] {
    return this.host.options.security;
  }
  get keeper(): EndpointOptions['keeper'] {
    return this.host.parts.endpoint.keeper;
  }
  get createScanner(): EndpointOptions['createScanner'] {
    return this.host.parts.endpoint.createScanner;
  }
  get transfers(): EndpointOptions['transfers'] {
    return this.host.parts.endpoint.transfers;
  }
  onRest(): void {
    this.queue.rest();
  }
  get logger(): Logger {
    return this.host.options.logger;
  }
  get route(): EventRoute | undefined {
    return this.host.parts.routeOf(this.session);
  }
}
