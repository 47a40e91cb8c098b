import type { Logger } from '@parlance/protocol';
import {
  type Clock,
  CloseCode,
  type Crashable,
  guard,
  guardLater,
  loggable,
  ProtocolError,
  type Wire,
} from '@parlance/protocol/client';
import type { Backoff } from './backoff.js';
import { connectionFailure } from './cannot-connect.js';
import type { ClientTransport, ConnectionFailure, Frame } from './transport.js';

export interface DialerOptions {
  readonly url: URL;
  readonly transport: ClientTransport;
  /** Those of the session. An attempt that hangs is abandoned after `acceptTimeoutMs`, which is changed with each one that does. */
  readonly timers: { acceptTimeoutMs: number };
  /** The same while no server has answered yet, for the connection and for the first message. */
  readonly firstTimeoutMs: number;
  /** The delays between attempts; `undefined` if a lost connection is not replaced. */
  readonly backoff: Backoff | undefined;
  readonly clock: Clock;
  readonly logger: Logger | undefined;
  /** Called before each attempt except the first. */
  readonly askToken: () => Promise<string | undefined>;
  /** The session that connections are opened for. */
  readonly session: DialingSession;
}

export interface DialingSession extends Crashable {
  /** The session needs a connection: it has none, or shall leave its present one for it. */
  readonly needsWire: boolean;
  /** The server has accepted a session before, so a failed attempt is repeated. */
  readonly isAccepted: boolean;
  /** HELLO for the request for the next connection; `undefined` if it has to wait until that is open. */
  hello(token: string | undefined): Frame | undefined;
  /** @param hello has arrived with the request for the connection. */
  handleConnected(wire: Wire, token: string | undefined, hello: Frame | undefined): void;
  handleMessage(data: Frame, wire: Wire): void;
  handleWritable(): void;
  /** The connection in use, if there is one, may be gone. */
  probe(): void;
  handleDisconnected(code: number, reason: string, wire: Wire): void;
  /** The first attempt has failed. */
  abort(error: ProtocolError): void;
}

/**
 * An overloaded server works for attempts that were given up, unless its clients wait longer and longer. More than this, the
 * default, would leave a client for minutes with a connection that a network has swallowed.
 */
const MAX_LIMIT_MS = 30_000;
/** How long an attempt may still take that may have gone with the network, in milliseconds. */
const DOUBTED_MS = 10_000;

/** Opens the connections of one client, one at a time, beside the one in use if asked to, and repeats attempts that fail. */
export class Dialer {
  readonly #options: DialerOptions;
  /** How long an attempt may take if none before has hung. */
  readonly #usualMs: number;
  /** The connection that is being opened. */
  #dialing: Wire | undefined;
  /** Clock reading from which on the present attempt, until it succeeds, has taken all of its time; 0 if it was abandoned. */
  #due = Infinity;
  /** Something has accepted the connection of the present attempt. */
  isAnswered = false;
  /** The first message of the present attempt, until a server accepts a session. */
  firstMessage: Frame | undefined;
  #cancelRetry: (() => void) | undefined;
  /** Clock reading at which the attempt begins that is waited for. */
  #retryAt = 0;
  #cancelAsking: (() => void) | undefined;
  #cancelMove: (() => void) | undefined;
  /** The close code of a connection that opens when none is wanted any more; `undefined` until then. */
  #stopCode: number | undefined;
  /** The last attempt had HELLO in its request and got no further, so the next one goes without. */
  #isPlain = false;
  /** The server asked to wait, so signs of life do not shorten the wait. */
  #isAskedToWait = false;

  constructor(options: DialerOptions) {
    this.#options = options;
    this.#usualMs = options.timers.acceptTimeoutMs;
  }

  /**
   * Opens a connection, if one is needed and none is being opened.
   *
   * @throws {ProtocolError} `invalid_option` if the transport cannot open connections.
   */
  dial(token: string | undefined): void {
    if (!this.#isNeeded) return;
    const { url, transport, clock, session, firstTimeoutMs, timers } = this.#options;
    const isFirst = !session.isAccepted;
    const limitMs = isFirst ? firstTimeoutMs : timers.acceptTimeoutMs;
    const { extraMs = 0 } = transport;
    // In less time than that, there is no second one.
    const timeoutMs = limitMs > extraMs ? limitMs + extraMs : limitMs;
    this.#due = clock.now() + timeoutMs;
    let cancelTimeout = (): void => {};
    let hello: Frame | undefined;
    const sayHello = () => {
      if (!this.#isPlain) hello = session.hello(token);
      return hello;
    };
    const handleOpen = (isSaid: boolean): void => {
      cancelTimeout();
      // The server has a session by now, which it would keep if this connection were only lost.
      if (this.#stopCode !== undefined) return wire.close(this.#stopCode, '');
      if (isSaid) this.#isPlain = false;
      this.isAnswered = true;
      this.#dialing = undefined;
      session.handleConnected(wire, token, isSaid ? hello : undefined);
      if (isFirst)
        cancelTimeout = clock.after(timeoutMs, () =>
          session.abort(new ProtocolError('timeout', 'it says nothing')),
        );
    };
    const handleClose = (code: number, reason: string, failure: ConnectionFailure): void => {
      cancelTimeout();
      if (this.#dialing !== wire) return session.handleDisconnected(code, reason, wire);
      this.#dialing = undefined;
      // A failed attempt is an error only if there was no session before.
      if (session.isAccepted) this.retryLater(0);
      else if (this.#due === 0) {
        const silence = `no answer within ${timeoutMs} ms (acceptTimeoutMs); ${transport.ifSilent}`;
        session.abort(connectionFailure(url, silence));
      } else {
        const explained = Promise.resolve(failure()).then((error) => {
          if (error === undefined) this.dial(token);
          else session.abort(error);
        });
        guardLater(session, explained);
      }
    };
    const wire = transport.open(url, sayHello, {
      onOpen: (isSaid) => guard(session, () => handleOpen(isSaid)),
      onMessage: (data) => {
        try {
          if (isFirst) {
            cancelTimeout();
            this.firstMessage ??= data;
          }
          session.handleMessage(data, wire);
        } catch (error) {
          session.crash(error);
        }
      },
      onWritable: () => guard(session, () => session.handleWritable()),
      onClose: (code, reason, failure) => guard(session, () => handleClose(code, reason, failure)),
    });
    this.#dialing = wire;
    this.#isPlain = hello !== undefined;
    // Give up an attempt that hangs.
    cancelTimeout = clock.after(timeoutMs, () => {
      this.#due = 0;
      wire.close(CloseCode.NORMAL, '');
    });
  }

  /**
   * @param retryAfterMs the delay that the server asked for, which it has spread already; 0 if it did not
   * ask.
   */
  retryLater(retryAfterMs: number): void {
    const { backoff, clock, timers } = this.#options;
    if (backoff === undefined || this.#stopCode !== undefined) return;
    if (this.#cancelRetry !== undefined) return;
    this.#isAskedToWait = retryAfterMs > 0;
    if (clock.now() >= this.#due)
      timers.acceptTimeoutMs = Math.max(this.#usualMs, Math.min(MAX_LIMIT_MS, 2 * timers.acceptTimeoutMs));
    this.#due = Infinity;
    const ms = retryAfterMs || backoff.next();
    this.#retryAt = clock.now() + ms;
    this.#cancelRetry = clock.after(ms, () => this.#retry());
  }

  /** When the attempt begins that is waited for, in Unix milliseconds; `undefined` if none is. */
  get retryAt(): number | undefined {
    return this.#cancelRetry && Math.round(this.#options.clock.timeOrigin + this.#retryAt);
  }

  /** The server has accepted or resumed a session. */
  handleSuccess(): void {
    const { backoff, timers } = this.#options;
    this.#due = Infinity;
    timers.acceptTimeoutMs = this.#usualMs;
    backoff?.reset();
  }

  /** Opens another connection beside the present one within so many milliseconds. */
  moveWithin(ms: number): void {
    this.#cancelMove?.();
    this.#cancelMove = this.#options.clock.after(Math.random() * ms, () => this.#retry());
  }

  /** Makes the next attempt now, if one is waiting. */
  retryNow(): void {
    if (this.#cancelRetry !== undefined) this.#retry();
  }

  /** The network has gone, the network or the page is back, or the machine has slept: connections may be gone without a word. */
  handleSignOfLife(): void {
    const { session, clock } = this.#options;
    const dialing = this.#dialing;
    session.probe();
    if (dialing !== undefined && session.isAccepted)
      clock.after(DOUBTED_MS, () => {
        if (this.#dialing === dialing) this.abandon();
      });
    if (!this.#isAskedToWait) this.retryNow();
  }

  /** The page is back from the back/forward cache. */
  handleBack(): void {
    if (this.#options.session.needsWire) this.retryLater(0);
    this.handleSignOfLife();
  }

  /**
   * Stops the present attempt, and all later ones.
   *
   * @param code tells a server that has read HELLO already what becomes of the session.
   */
  stop(code: number): void {
    this.#stopCode = code;
    this.#cancelRetry?.();
    this.#cancelAsking?.();
    this.#cancelMove?.();
    const unwanted = this.#dialing;
    this.#dialing = undefined;
    // The first HELLO may begin a session, which a connection that is closed in order ends. A later one resumes a session that has ended here.
    if (this.#options.session.isAccepted || !this.#isPlain) unwanted?.close(CloseCode.NORMAL, '');
  }

  /** Closes the connection that is being opened, which then counts as a failed attempt. */
  abandon(): void {
    this.#dialing?.close(CloseCode.NORMAL, '');
  }

  get #isNeeded(): boolean {
    return this.#dialing === undefined && this.#options.session.needsWire;
  }

  #retry(): void {
    const { askToken, session } = this.#options;
    this.#cancelRetry?.();
    this.#cancelRetry = undefined;
    if (!this.#isNeeded) return;
    this.isAnswered = false;
    this.firstMessage = undefined;
    guardLater(session, this.ask(askToken, Infinity, this.#failToAsk));
  }

  /**
   * Asks for a token, and dials.
   *
   * @param withinMs how long the function may take, if that is less than the usual time.
   * @param onError gets what the function throws. @default the promise rejects with that
   */
  ask(
    askToken: DialerOptions['askToken'],
    withinMs: number,
    onError?: (error: unknown) => void,
  ): Promise<void> {
    this.#cancelAsking?.();
    // A function that does not answer has failed. Its answer counts, if it comes after all.
    this.#cancelAsking = this.#options.clock.after(Math.min(this.#usualMs, withinMs), () =>
      this.#failToAsk(new ProtocolError('timeout', 'it says nothing')),
    );
    return askToken().then((token) => {
      this.#cancelAsking?.();
      this.dial(token);
    }, onError);
  }

  readonly #failToAsk = (error: unknown): void => {
    const { logger, session } = this.#options;
    this.#cancelAsking?.();
    const message = 'the token function failed';
    logger?.warn({ event: 'token.failed', err: loggable(error) }, message);
    if (session.isAccepted) this.retryLater(0);
    else session.abort(new ProtocolError('connection_failed', message, { cause: error }));
  };
}
