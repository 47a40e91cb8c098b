import type {
  CloseResult,
  CloseStatement,
  Limits,
  Logger,
  Negotiated,
  SessionEnd,
  SessionEvents,
  SessionState,
  SessionStats,
  Timers,
} from '@parlance/protocol';
import {
  attempt,
  type Clock,
  EndOfSession,
  Listeners,
  loggable,
  ProtocolError,
} from '@parlance/protocol/client';
import type { Backoff } from '../connection/backoff.js';
import type { ClientSession, ClientSessionHost } from '../session/session.js';
import { WaitingOutbound } from '../session/waiting.js';
import { nextToken } from './asking.js';
import { MAX_UNREAD } from './bounds.js';
import type { SharedOptions } from './options.js';
import { packError, unpackError } from './packed-error.js';
import { chargeOfMessage, type PackedMessage, SharedMessage } from './packed-message.js';
import type { HostPipe } from './pipe.js';
import { holdLock, type Locks, watchPeer } from './presence.js';
import type { FromHost, FromTab, Status } from './protocol.js';
import { HostLost, LEFT, type Link, presentOf } from './tab-link.js';
import { TabMailbox } from './tab-mailbox.js';
import { TabOutbound, type TabOutboundOptions } from './tab-outbound.js';

export interface TabOptions extends Pick<TabOutboundOptions, 'Queue'> {
  /** Finds the host: a worker, or a tab. */
  readonly attach: () => Promise<HostPipe>;
  readonly key: string;
  readonly url: string;
  readonly options: SharedOptions;
  /** The credential that the key was made of. */
  readonly firstToken: string | undefined;
  /** Asks the application for credentials; `undefined` if the first ones are final. */
  readonly askToken: (() => Promise<string>) | undefined;
  readonly limits: Limits;
  readonly timers: Pick<Timers, 'acceptTimeoutMs' | 'closingTimeoutMs' | 'resumeWindowMs'>;
  /** Delays before a lost session is replaced; `undefined` if it is not. */
  readonly backoff: Backoff | undefined;
  readonly logger: Logger | undefined;
  readonly traceparent: (() => string | undefined) | undefined;
  readonly clock: Pick<Clock, 'after' | 'now'>;
  /** `undefined` in a page without TLS. */
  readonly locks: Locks | undefined;
  /** The object that the application holds. */
  readonly createSession: (host: ClientSessionHost) => ClientSession;
  /** The tab does not use the session any more; called once. */
  readonly onEnded: () => void;
}

/** The reader's progress is reported when it has read this much. */
const REPORT = MAX_UNREAD / 64;

/** A session that a tab shares with others, as its application holds it. The connection is elsewhere. */
export class Tab implements ClientSessionHost {
  readonly reachesAgents = true;
  readonly principal = undefined;
  readonly isRebuilt = false;
  readonly isShared = true;
  readonly listeners = new Listeners();
  readonly mailbox = new TabMailbox();
  readonly outbound: WaitingOutbound;
  readonly session: ClientSession;
  readonly logger: Logger;
  readonly #options: TabOptions;
  #status: Status | undefined;
  #state: SessionState = 'connecting';
  #link: Link | undefined;
  #lock: { readonly name: string; readonly release: () => void } | undefined;
  #closing: Promise<CloseResult> | undefined;
  #onLeft: ((result: CloseResult) => void) | undefined;
  #hasEnded = false;
  readonly #over = new EndOfSession();

  constructor(options: TabOptions, logger: Logger) {
    this.#options = options;
    this.logger = logger;
    this.outbound = new WaitingOutbound({
      present: () => presentOf(this.#link, this.#state),
      isComing: () => this.#link?.hasJoined !== true && !this.#hasEnded && this.#closing === undefined,
      clock: options.clock,
      windowMs: () => options.timers.resumeWindowMs,
    });
    this.session = options.createSession(this);
  }

  /** Resolves when the session is established. @throws {ProtocolError} as `connect`. */
  async open(): Promise<void> {
    const { locks, firstToken } = this.#options;
    try {
      if (locks !== undefined) {
        const name = `parlance:tab:${crypto.randomUUID()}`;
        const release = await holdLock(locks, name);
        this.#lock = { name, release };
        if (this.#hasEnded) release();
      }
      await this.#joinAny(firstToken);
    } catch (error) {
      this.#end(error instanceof ProtocolError ? error : undefined);
      throw error;
    }
  }

  // --- as the host of the application's session

  get id(): string {
    return this.#status?.id ?? '';
  }
  get state(): SessionState {
    return this.#state;
  }
  get agentId(): string | undefined {
    return this.#status?.agentId;
  }
  get transport(): ClientSession['transport'] | undefined {
    return this.#status?.transport;
  }
  get negotiated(): Negotiated {
    const negotiated = this.#status?.negotiated;
    if (negotiated !== undefined) return negotiated;
    throw new ProtocolError('session_closed', 'the session has not been negotiated yet');
  }

  async detach(): Promise<void> {
    throw new ProtocolError('unsupported', 'detach: a shared session has no store');
  }

  async flush(): Promise<void> {
    await this.outbound.wait(0, {}, () => presentOf(this.#link, this.#state).flush());
  }

  stats(): SessionStats {
    if (this.#status !== undefined) return this.#status.stats;
    throw new ProtocolError('session_closed', 'the session has not been established yet');
  }

  get closed(): Promise<SessionEnd> {
    return this.#over.promise;
  }

  /** Leaves the session, which continues for the other tabs. The code and the reason reach the server from no tab. */
  close(): Promise<CloseResult> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  /** Leaves without waiting, as with the page. */
  leaveNow(): void {
    const link = this.#link;
    if (link !== undefined) attempt(() => link.pipe.post({ type: 'leave' } satisfies FromTab));
    this.#end(undefined);
  }

  async #close(): Promise<CloseResult> {
    const link = this.#link;
    if (link?.hasJoined === true && !this.#hasEnded) {
      this.#report('closing');
      const result = await this.#within(this.#leave(link));
      const unacknowledged = link.outbound.openCalls;
      this.leaveNow();
      return result ?? { unacknowledged };
    }
    this.leaveNow();
    return { unacknowledged: 0 };
  }

  /** Resolves when the host has everything that this tab has sent, or is gone, and its pipe closed. */
  async #leave(link: Link): Promise<CloseResult> {
    const left = new Promise<CloseResult>((resolve) => {
      this.#onLeft = resolve;
    });
    await link.outbound.sent();
    link.outbound.end(new ProtocolError('session_closed', 'the session was closed'));
    attempt(() => link.pipe.post({ type: 'leave' } satisfies FromTab));
    return await left;
  }

  /** Resolves with `undefined` when closing takes too long. */
  #within<Result>(work: Promise<Result>): Promise<Result | undefined> {
    return new Promise((resolve, reject) => {
      const { clock, timers } = this.#options;
      const cancel = clock.after(timers.closingTimeoutMs, () => resolve(undefined));
      work.then(resolve, reject).finally(cancel);
    });
  }

  // --- the host

  /** Joins a host. If that goes away before it answers, the next one. */
  async #joinAny(token: string | undefined): Promise<void> {
    for (;;) {
      try {
        return await this.#join(token);
      } catch (error) {
        if (!(error instanceof HostLost) || this.#options.backoff === undefined || this.#hasEnded)
          throw error;
        await this.#wait(this.#options.backoff.next());
      }
    }
  }

  async #join(token: string | undefined): Promise<void> {
    const { attach, key, url, options, askToken, logger } = this.#options;
    const closed = new ProtocolError('session_closed', 'closed while connecting');
    if (this.#hasEnded) throw closed;
    const pipe = await attach();
    if (this.#hasEnded) {
      pipe.close();
      throw closed;
    }
    await new Promise<void>((resolve, reject) => {
      const onStats = (stats: SessionStats): void => {
        if (this.#status !== undefined) this.#status = { ...this.#status, stats };
      };
      const outbound = new TabOutbound({ ...this.#options, pipe, status: () => this.#status, onStats });
      const beat = () => pipe.post({ type: 'here' } satisfies FromTab);
      const watch = watchPeer(this.#options, pipe.lock, beat, () => this.#handleLost(link));
      const link: Link = { pipe, outbound, watch, hasJoined: false, resolve, reject, read: 0 };
      this.#link = link;
      pipe.listen((message) => {
        if (this.#link !== link || this.#hasEnded) return;
        // Something is missing that could not be read.
        if (typeof message !== 'object' || message === null) return this.#handleLost(link);
        link.watch.heard();
        this.#handle(link, message as FromHost);
      });
      pipe.post({
        type: 'join',
        key,
        url,
        options,
        token,
        isTokenRenewed: askToken !== undefined,
        lock: this.#lock?.name,
        logs: logger !== undefined,
      } satisfies FromTab);
    });
  }

  #handle(link: Link, message: FromHost): void {
    const { outbound } = link;
    switch (message.type) {
      case 'joined':
        return this.#handleJoined(link, message.status);
      case 'refused':
        this.#link = undefined;
        link.watch.stop();
        link.pipe.close();
        return link.reject(unpackError(message.error));
      case 'status':
        this.#status = message.status;
        return this.#report(message.status.state);
      case 'reset':
        return this.notify('reset', message.event);
      case 'failed':
        return this.notify('error', unpackError(message.error));
      case 'undelivered':
        return this.notify('undelivered', message.event);
      case 'throttled':
        return this.notify('throttled', message.event);
      case 'message':
        return this.mailbox.push(this.#received(link, message.message));
      case 'interrupted':
        return this.mailbox.interrupt(unpackError(message.error));
      case 'begun':
        return outbound.handleBegun(message);
      case 'part':
        return outbound.handlePart(message);
      case 'end':
        return outbound.handleEnd(message);
      case 'ask':
        return void this.#answer(link, message.ask);
      case 'log':
        return this.logger[message.level](message.fields, message.text);
      case 'left':
        return this.#onLeft?.(message.result);
      case 'over':
        return this.#end(message.error && unpackError(message.error), message.end);
      case 'gone':
        return this.#handleLost(link);
    }
  }

  #handleJoined(link: Link, status: Status): void {
    link.hasJoined = true;
    this.#options.backoff?.reset();
    this.#status = status;
    this.outbound.ready();
    this.#report(status.state);
    link.resolve();
  }

  #received(link: Link, packed: PackedMessage): SharedMessage {
    const charge = chargeOfMessage(packed);
    const onTaken = (): void => {
      link.read += charge;
      if (link.read < REPORT || this.#link !== link) return;
      link.pipe.post({ type: 'taken', call: 0, charge: link.read } satisfies FromTab);
      link.read = 0;
    };
    return new SharedMessage(packed, { limits: link.outbound.limits, onTaken });
  }

  async #answer(link: Link, ask: number): Promise<void> {
    let answer: FromTab;
    try {
      answer = { type: 'token', ask, token: (await this.#options.askToken?.()) ?? '' };
    } catch (error) {
      this.logger.warn({ event: 'token.failed', err: loggable(error) }, 'the token function failed');
      answer = { type: 'token', ask, error: packError(error) };
    }
    if (this.#link === link) link.pipe.post(answer);
  }

  /** The host is gone, and with it the session. Another one takes its place. */
  #handleLost(link: Link): void {
    if (this.#link !== link || this.#hasEnded) return;
    const error = new HostLost();
    this.#link = undefined;
    link.watch.stop();
    // The host may be there after all.
    attempt(() => link.pipe.post({ type: 'leave' } satisfies FromTab));
    link.pipe.close();
    if (!link.hasJoined) return link.reject(error);
    const { notSent, unknown } = link.outbound.unconfirmed();
    link.outbound.end(error);
    this.#onLeft?.({ unacknowledged: notSent.length + unknown.length });
    if (this.#closing !== undefined) return;
    const { backoff } = this.#options;
    if (backoff === undefined) {
      this.notify('error', error);
      return this.#end(error);
    }
    this.notify('reset', { code: 'session_lost', reason: error.message, notSent, unknown });
    this.#report('connecting');
    void this.#rejoin(backoff);
  }

  async #rejoin(backoff: Backoff): Promise<void> {
    const isOver = (): boolean => this.#hasEnded;
    while (!isOver()) {
      try {
        return await this.#joinAny(await nextToken(this.#options, this.logger, isOver));
      } catch (error) {
        if (isOver()) return;
        if (error instanceof ProtocolError && !error.retryable) {
          this.notify('error', error);
          return this.#end(error);
        }
        this.logger.warn({ event: 'shared.rejoin', err: loggable(error) }, 'the session is not back yet');
        await this.#wait(backoff.next());
      }
    }
  }

  #wait(ms: number): Promise<void> {
    return new Promise((resolve) => void this.#options.clock.after(ms, resolve));
  }

  // --- the application

  notify<Name extends keyof SessionEvents>(name: Name, event: SessionEvents[Name]): void {
    this.listeners.notify(name, event, this);
  }

  #report(state: SessionState): void {
    if (state === this.#state) return;
    this.#state = state;
    this.notify('state', state);
  }

  /** The tab does not use the session any more. */
  #end(error: ProtocolError | undefined, end: CloseStatement = LEFT): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    this.#over.settle(end, error);
    const link = this.#link;
    this.#link = undefined;
    link?.watch.stop();
    const failure = error ?? new ProtocolError('session_closed', 'the session was closed');
    for (const outbound of [link?.outbound, this.outbound]) outbound?.end(failure);
    link?.reject(error ?? new ProtocolError('session_closed', 'closed while connecting'));
    link?.pipe.close();
    this.mailbox.end(error);
    this.#lock?.release();
    this.#report('closed');
    this.#onLeft?.({ unacknowledged: 0 });
    this.#options.onEnded();
  }
}
