import type { CloseResult, ProtocolError as Failure, Logger } from '@parlance/protocol';
import { attempt, type Clock, loggable, ProtocolError } from '@parlance/protocol/client';
import type { ClientSessionHost } from '../session/session.js';
import { Guest, statsOf } from './guest.js';
import { packError } from './packed-error.js';
import { packMessage } from './packed-message.js';
import type { Pipe } from './pipe.js';
import { type Locks, watchPeer } from './presence.js';
import { type Call, type FromHost, type FromTab, type Join, type Status, VERSION } from './protocol.js';

/** Opens the session of a hub. */
export type OpenSession = (
  join: Join,
  context: {
    /** `undefined` if the credential of the join is final. */
    readonly askToken: (() => Promise<string>) | undefined;
    readonly logger: Logger;
    /** Stops connecting. */
    readonly signal: AbortSignal;
  },
) => Promise<ClientSessionHost>;

export interface HubOptions {
  readonly open: OpenSession;
  readonly clock: Pick<Clock, 'after' | 'now'>;
  /** `undefined` in a page without TLS. */
  readonly locks: Locks | undefined;
  /** A lock that this host holds. */
  readonly lock: string | undefined;
}

/** Milliseconds that a tab has to return a token; a page may be frozen. */
const TOKEN_MS = 10_000;
/** Milliseconds that a tab has to join. One that is late looks for its host again. */
const JOIN_MS = 10_000;

/** The sessions of one host: one for each key. */
export class Hubs {
  readonly #options: HubOptions;
  readonly #hubs = new Map<string, Hub>();
  readonly #onIdle: () => void;
  /** Tabs that have not joined yet. */
  readonly #arriving = new Set<Pipe>();
  #isAbandoned = false;

  /** @param onIdle called when the last tab has left and none is about to join, and when the host goes away. */
  constructor(options: HubOptions, onIdle: () => void = () => {}) {
    this.#options = options;
    this.#onIdle = onIdle;
  }

  /** No tab uses it, or is about to. */
  get isIdle(): boolean {
    return this.#hubs.size === 0 && this.#arriving.size === 0;
  }

  /** Waits for the tab at the other end of a pipe to join. */
  serve(pipe: Pipe): void {
    if (this.#isAbandoned) return this.#turnAway(pipe);
    let handle = (message: unknown): void => {
      if (isJoin(message)) {
        this.#arriving.delete(pipe);
        if (this.#isAbandoned) this.#turnAway(pipe);
        else handle = this.#join(pipe, message);
      } else pipe.post({ type: 'refused', error: packError(malformed()) } satisfies FromHost);
    };
    this.#arriving.add(pipe);
    pipe.listen((message) => handle(message));
    pipe.post({ type: 'ready', version: VERSION, lock: this.#options.lock } satisfies FromHost);
    // A tab that is gone before it has joined says nothing.
    this.#options.clock.after(JOIN_MS, () => {
      if (!this.#arriving.delete(pipe)) return;
      this.#turnAway(pipe);
      if (this.isIdle) this.#onIdle();
    });
  }

  /** The host goes away, as with its page: all tabs look for another one. */
  abandon(): void {
    this.#isAbandoned = true;
    for (const pipe of this.#arriving) this.#turnAway(pipe);
    this.#arriving.clear();
    for (const hub of [...this.#hubs.values()]) hub.abandon();
    this.#onIdle();
  }

  #turnAway(pipe: Pipe): void {
    pipe.post({ type: 'gone' } satisfies FromHost);
    pipe.close();
  }

  #join(pipe: Pipe, join: Join): (message: unknown) => void {
    const { key } = join;
    let hub = this.#hubs.get(key);
    if (hub === undefined) {
      const created = new Hub(join, this.#options, () => {
        if (this.#hubs.get(key) === created) this.#hubs.delete(key);
        if (this.isIdle) this.#onIdle();
      });
      this.#hubs.set(key, created);
      hub = created;
    }
    return hub.add(pipe, join);
  }
}

/** One session and the tabs that use it. */
class Hub {
  readonly #options: HubOptions;
  readonly #guests = new Set<Guest>();
  readonly #leaving = new Map<Guest, () => void>();
  readonly #opening = new AbortController();
  readonly #onOver: () => void;
  readonly #logger: Logger;
  #session: ClientSessionHost | undefined;
  #isOver = false;

  constructor(join: Join, options: HubOptions, onOver: () => void) {
    this.#options = options;
    this.#onOver = onOver;
    const log =
      (level: 'debug' | 'info' | 'warn' | 'error'): Logger['info'] =>
      (fields, text) =>
        this.#log({ type: 'log', level, fields, text });
    this.#logger = { debug: log('debug'), info: log('info'), warn: log('warn'), error: log('error') };
    void this.#open(join);
  }

  /** Adds a tab. Returns what handles its messages. */
  add(pipe: Pipe, join: Join): (message: unknown) => void {
    const session = () => this.#session;
    const guest = new Guest({ pipe, join, session, logger: this.#logger });
    this.#guests.add(guest);
    const heard = this.#watch(guest);
    if (this.#session !== undefined) this.#welcome(guest, this.#session);
    return (message) => {
      heard();
      if (guest.hasLeft) return;
      if (isMessage(message) && message.type === 'leave') return void this.#dismiss(guest);
      const failed = attempt(() => guest.handle(checked(message)));
      if (failed === undefined) return;
      this.#logger.warn({ event: 'shared.malformed' }, 'a tab sent something malformed, and is left out');
      guest.post({ type: 'over', error: packError(failed.error) });
      void this.#leave(guest).then(() => guest.close());
    };
  }

  abandon(): void {
    if (this.#isOver) return;
    this.#tell({ type: 'gone' });
    this.#finish();
  }

  async #open(join: Join): Promise<void> {
    try {
      const askToken = join.isTokenRenewed ? this.#tokens(join.token) : undefined;
      const { signal } = this.#opening;
      const session = await this.#options.open(join, { askToken, logger: this.#logger, signal });
      if (this.#isOver) return void (await session.close());
      this.#session = session;
      this.#listen(session);
      for (const guest of this.#guests) this.#welcome(guest, session);
      await this.#read(session);
    } catch (error) {
      if (!(error instanceof ProtocolError)) {
        this.#logger.error({ event: 'shared.failed', err: loggable(error) }, 'the host of the tabs failed');
      }
      this.#tell({ type: this.#session === undefined ? 'refused' : 'over', error: packError(error) });
      this.#finish();
      await this.#session?.close();
    }
  }

  #welcome(guest: Guest, session: ClientSessionHost): void {
    guest.post({ type: 'joined', status: statusOf(session) });
  }

  #listen(session: ClientSessionHost): void {
    const { listeners } = session;
    listeners.add('state', () => this.#tell({ type: 'status', status: statusOf(session) }));
    listeners.add('reset', (event) => this.#tell({ type: 'reset', event }));
    listeners.add('error', (error) => this.#tell({ type: 'failed', error: packError(error) }));
    listeners.add('undelivered', (event) => this.#tell({ type: 'undelivered', event }));
    listeners.add('throttled', (event) => this.#tell({ type: 'throttled', event }));
  }

  /** Passes the one-way messages on to every tab, until no session follows. */
  async #read(session: ClientSessionHost): Promise<void> {
    for (;;) {
      let failure: unknown;
      try {
        for await (const message of session.mailbox) {
          const packed = packMessage(message);
          for (const guest of this.#guests) guest.deliver(packed);
        }
      } catch (error) {
        failure = error;
      }
      if (this.#isOver) return;
      if (session.state === 'closed' || failure === undefined) {
        const error = failure === undefined ? {} : { error: packError(failure) };
        const { side, code, reason } = await session.closed;
        this.#tell({ type: 'over', ...error, end: { side, code, reason } });
        return this.#finish();
      }
      this.#tell({ type: 'interrupted', error: packError(failure) });
    }
  }

  /** The first token is that of the tab that opened the session; later ones are asked for. */
  #tokens(first: string | undefined): () => Promise<string> {
    let token = first;
    return async () => {
      const known = token;
      token = undefined;
      return known ?? (await this.#askToken());
    };
  }

  async #askToken(): Promise<string> {
    let failure: unknown = new ProtocolError('session_closed', 'no tab is left that has a token');
    for (const guest of [...this.#guests]) {
      let cancel = (): void => {};
      const tooLate = new Promise<never>((_resolve, reject) => {
        const late = () => reject(new ProtocolError('timeout', 'the tab did not return a token'));
        cancel = this.#options.clock.after(TOKEN_MS, late);
      });
      try {
        return await Promise.race([guest.askToken(), tooLate]);
      } catch (error) {
        failure = error;
      } finally {
        cancel();
      }
    }
    throw failure;
  }

  /** Notices a tab that goes without a sign. Returns a function that notes a sign of life. */
  #watch(guest: Guest): () => void {
    const leave = () => void this.#leave(guest).then(() => guest.close());
    const beat = () => guest.post({ type: 'here' });
    const { heard, stop } = watchPeer(this.#options, guest.join.lock, beat, leave);
    this.#leaving.set(guest, stop);
    return heard;
  }

  /** A tab asked to leave. */
  async #dismiss(guest: Guest): Promise<void> {
    guest.dismiss(await this.#leave(guest));
  }

  /** Forgets a tab; the last one takes the session along. */
  async #leave(guest: Guest): Promise<CloseResult> {
    if (!this.#guests.delete(guest)) return NOTHING_LOST;
    this.#leaving.get(guest)?.();
    this.#leaving.delete(guest);
    guest.leave();
    if (this.#guests.size > 0 || this.#isOver) return NOTHING_LOST;
    const session = this.#session;
    this.#finish();
    return (await session?.close()) ?? NOTHING_LOST;
  }

  /** No session follows, or another host takes over. */
  #finish(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#opening.abort(new ProtocolError('session_closed', 'all tabs are gone'));
    for (const stop of this.#leaving.values()) stop();
    this.#leaving.clear();
    for (const guest of this.#guests) guest.close();
    this.#guests.clear();
    this.#onOver();
  }

  #tell(message: FromHost): void {
    for (const guest of this.#guests) guest.post(message);
  }

  /** A line is logged once: by the first tab that has a logger. */
  #log(line: Extract<FromHost, { type: 'log' }>): void {
    for (const guest of this.#guests) {
      if (!guest.join.logs) continue;
      // Fields that cannot be copied are left out.
      const failed = attempt(() => guest.post(line));
      if (failed !== undefined) guest.post({ ...line, fields: { event: line.fields['event'] } });
      return;
    }
  }
}

const NOTHING_LOST: CloseResult = { unacknowledged: 0 };

function statusOf(session: ClientSessionHost): Status {
  const { id, state, agentId, transport } = session;
  return { id, state, agentId, transport, negotiated: negotiatedOf(session), stats: statsOf(session) };
}

/** While a session is replaced by the next one, nothing is agreed on. */
function negotiatedOf(session: ClientSessionHost): Status['negotiated'] {
  try {
    return session.negotiated;
  } catch {
    return undefined;
  }
}

function isMessage(value: unknown): value is { readonly type: string } {
  return typeof value === 'object' && value !== null && 'type' in value && typeof value.type === 'string';
}

function isJoin(value: unknown): value is Join {
  if (!isMessage(value) || value.type !== 'join') return false;
  const { key, url, options, token, lock } = value as Partial<Join>;
  return (
    typeof key === 'string' &&
    typeof url === 'string' &&
    typeof options === 'object' &&
    options !== null &&
    isTextOrNothing(token) &&
    isTextOrNothing(lock)
  );
}

/** @throws {ProtocolError} `bad_message`. */
function checked(value: unknown): FromTab {
  if (!isMessage(value)) throw malformed();
  const { call, charge, body, options, agent } = value as Record<string, unknown>;
  const isCounted = call === undefined || Number.isSafeInteger(call);
  const isCharged = charge === undefined || (typeof charge === 'number' && charge >= 0);
  if (!isCounted || !isCharged || !isTextOrNothing(agent)) throw malformed();
  if (value.type === 'call') {
    if (call === undefined || !isBody(body) || typeof options !== 'object' || options === null)
      throw malformed();
  }
  return value as FromTab;
}

function isBody(value: unknown): value is Call['body'] {
  if (typeof value === 'string' || value instanceof Uint8Array) return true;
  return (
    typeof value === 'object' && value !== null && 'tokens' in value && value.tokens instanceof Uint32Array
  );
}

function isTextOrNothing(value: unknown): value is string | undefined {
  return value === undefined || typeof value === 'string';
}

function malformed(): Failure {
  return new ProtocolError('bad_message', 'a tab sent something that is not of this version');
}
