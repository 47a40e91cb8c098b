import type { Logger, SessionCore } from '@parlance/protocol';
import { type Clock, CloseCode, guardLater, ProtocolError, type Ticket } from '@parlance/protocol/client';
import { pageLocks, takeLock } from '../connection/page-lock.js';
import type { ClientTransport } from '../connection/transport.js';
import type { ClientModule, Plan, Sessions, Setup } from '../session/module.js';
import type { SessionStore } from '../session/options.js';
import type { ClientSession } from '../session/session.js';
import { decodeEntry, type Entry, encodeEntry } from './entry.js';
import { GuardedStore } from './store.js';

/** Milliseconds between two writes that only a count has caused. */
const WRITE_INTERVAL_MS = 250;
/** How long a page waits for the lock of one that is just going away, in milliseconds. */
const LOCK_WAIT_MS = 300;

/** Entries that a session of this page uses. */
const used = new WeakMap<SessionStore, Set<string>>();

/** The client has the usual transport. */
const NO_PLAN: Plan = {};

interface RebuildOptions {
  readonly store: SessionStore;
  /** That of another option, around which an exclusive store puts its own. */
  readonly transport: Plan['transport'];
  readonly url: URL;
  readonly clock: Pick<Clock, 'after'>;
  readonly logger: Logger | undefined;
}

/** The option `store`. Opens a new session if another page is ahead with the session of the entry. */
export function createModule({ options, url, limits, clock, logger }: Setup): ClientModule {
  const store = options.store === 'session' ? ofPage() : (options.store as SessionStore);
  return {
    async open(next) {
      assertStore(store);
      const { transport } =
        store.isExclusive && options.transports !== undefined
          ? (await import('../connection/transports.js')).createModule({ options, limits }).plan
          : NO_PLAN;
      const attempt = async (ignoresEntry: boolean): Promise<ClientSession> => {
        const rebuild = await Rebuild.open({ store, transport, url, clock, logger }, ignoresEntry);
        try {
          return await next(rebuild);
        } catch (error) {
          await rebuild?.end(error);
          throw error;
        }
      };
      try {
        return await attempt(false);
      } catch (error) {
        const isLate = error instanceof ProtocolError && error.closeCode === CloseCode.STALE_ATTEMPT;
        if (!isLate) throw error;
        return await attempt(true);
      }
    },
  };
}

/** `sessionStorage`, which a page may be forbidden to look at: then the store fails, and the session begins anew after a reload. */
const PAGE: SessionStore = {
  getItem: (key) => sessionStorage.getItem(key),
  setItem: (key, value) => sessionStorage.setItem(key, value),
  removeItem: (key) => sessionStorage.removeItem(key),
};

/** @throws {ProtocolError} `invalid_option` outside of pages. */
function ofPage(): SessionStore {
  if ('sessionStorage' in globalThis) return PAGE;
  const message = "store: 'session' is for pages; on Node, file(path) of '@parlance/client/file' is a store";
  throw new ProtocolError('invalid_option', message);
}

function assertStore({ getItem, setItem, removeItem }: SessionStore): void {
  const isStore = [getItem, setItem, removeItem].every((method) => typeof method === 'function');
  if (isStore) return;
  const message =
    "store: expected 'session', or an object with getItem, setItem and removeItem, such as file(path)";
  throw new ProtocolError('invalid_option', message);
}

/** Where this frame is in the page, which has the same `sessionStorage`: '' for the page, ':0' for its first frame. */
function placeOf({ parent, self }: Window): string {
  return parent && parent !== self ? `${placeOf(parent)}:${[].indexOf.call(parent, self as never)}` : '';
}

/** One end has broken the protocol, so its session is over (docs/protocol/session.md, SES-4). */
function isViolation(error: unknown): boolean {
  return (
    error instanceof ProtocolError &&
    (error.closeCode === CloseCode.BAD_FRAME || error.closeCode === CloseCode.TOO_LARGE)
  );
}

/**
 * Keeps the entry from which the next page rebuilds the session of this one. A lock on the session, which ends with the
 * page, tells a page that was loaded again from one that was duplicated.
 */
class Rebuild implements ClientModule {
  /** The entry that a former page has left; this page rebuilds its session. */
  #entry: Entry | undefined;
  isRebuilt = false;
  isAway = false;
  /** Set by {@link begin}, before anything else happens. */
  #sessions!: Sessions;
  readonly #options: RebuildOptions;
  readonly #key: string;
  readonly #store: GuardedStore;
  readonly #locks = pageLocks();
  #later: readonly string[] = [];
  #core: SessionCore | undefined;
  /** The ticket of {@link entry} after the attempt of this page. */
  #claimed: Ticket | undefined;
  /** The ticket in the entry. */
  #written: Ticket | undefined;
  #cancelWrite: (() => void) | undefined;
  #lock: { readonly sessionId: string; readonly release: Promise<(() => void) | undefined> } | undefined;
  /** Requests of the former page that were interrupted when this one rebuilt its session, until they are reported. */
  #interrupted: readonly number[] = [];
  /** The server has accepted a session of this page. */
  #hasBegun = false;
  #isOver = false;
  /** Of {@link end}. */
  #ended = Promise.resolve();
  #hasWarned = false;

  /**
   * Resolves to `undefined` if another session of this page uses the entry.
   *
   * @param ignoresEntry begins a new session and leaves the entry unread.
   */
  static async open(options: RebuildOptions, ignoresEntry: boolean): Promise<Rebuild | undefined> {
    const { store, url, logger } = options;
    const key = `parlance:${url.origin}${url.pathname}${placeOf(globalThis as never)}`;
    const keys = used.get(store) ?? new Set();
    used.set(store, keys);
    if (keys.has(key)) {
      const message =
        'another session of this page uses the store for this URL; this one will not be taken up';
      logger?.warn({ event: 'store.in_use' }, message);
      return undefined;
    }
    keys.add(key);
    const rebuild = new Rebuild(options, key);
    if (!ignoresEntry) await rebuild.#find();
    return rebuild;
  }

  private constructor(options: RebuildOptions, key: string) {
    this.#options = options;
    this.#key = key;
    this.#store = new GuardedStore({ ...options, key });
  }

  get plan(): Plan {
    const plan = { rebuilds: true, proof: this.#entry?.ticket, later: this.#entry?.later };
    const { store, transport } = this.#options;
    if (!store.isExclusive) return plan;
    return {
      ...plan,
      transport: (usual, ...given) => this.#around(transport?.(usual, ...given) ?? usual),
    };
  }

  /** Stores the received counts before anything is sent that may acknowledge them. */
  #around(usual: ClientTransport): ClientTransport {
    return {
      get name() {
        return usual.name;
      },
      ifSilent: usual.ifSilent,
      extraMs: usual.extraMs,
      open: (...given) => {
        const wire = usual.open(...given);
        const send = wire.send.bind(wire);
        wire.send = (frame) => {
          this.#writeReceived();
          send(frame);
        };
        return wire;
      },
    };
  }

  #writeReceived(): void {
    const ticket = this.#core?.ticket;
    if (ticket === undefined || this.#written === undefined || this.isAway || this.#isOver) return;
    if (ticket.received !== this.#written.received && this.#core?.state === 'established')
      void this.#write(ticket, false);
  }

  begin(sessions: Sessions, later: string | undefined): void {
    this.#sessions = sessions;
    this.#later = later === undefined ? [] : JSON.parse(later);
  }

  /** Before a connection whose HELLO resumes or rebuilds the session: nothing may use its attempt again. */
  async dialing(): Promise<void> {
    const former = this.#hasBegun ? undefined : this.#claimed;
    const ticket = this.#core?.ticket ?? former;
    if (ticket === undefined || this.#isOver) return;
    const next = { ...ticket, attempt: ticket.attempt + 1 };
    if (ticket === former) this.#claimed = next;
    await this.#write(next, false);
  }

  applied(core: SessionCore): void {
    this.#core = core;
    if (this.#isOver || this.isAway) return;
    const { ticket } = core;
    const written = this.#written;
    if (core.state !== 'established') {
      // The present connection continued until the next one was open, and its last frames were written.
      const isStale = ticket !== undefined && written !== undefined && ticket.attempt > written.attempt;
      if (isStale && ticket.sessionId === written.sessionId) void this.#write(ticket, false);
      return;
    }
    this.#hasBegun = true;
    if (ticket === undefined) return this.#giveUp();
    if (this.#lock?.sessionId !== ticket.sessionId) this.#takeLock(ticket.sessionId, LOCK_WAIT_MS);
    // The numbers of messages that a durable session has written must not be used again, even after a crash.
    const isNew = ticket.have?.['written'] !== written?.have?.['written'];
    if (isNew || ticket.sessionId !== written?.sessionId || ticket.token !== written.token)
      void this.#write(ticket, false);
    else if (ticket.received !== written.received) this.#writeLater();
  }

  rebuilt(cancelled: readonly number[]): void {
    this.#interrupted = cancelled;
    this.isRebuilt = true;
  }

  /** Reports what was interrupted, in a task after `connect` has resolved. */
  ready(): void {
    const sessions = this.#sessions;
    const unknown = this.#interrupted.map((streamId) => ({ kind: 'request', streamId }) as const);
    this.#interrupted = [];
    if (unknown.length === 0) return;
    const reset = { code: 'reloaded', reason: 'the page was loaded again', notSent: [], unknown } as const;
    this.#options.clock.after(0, () => sessions.listeners.notify('reset', reset, sessions));
  }

  async detach(): Promise<boolean> {
    const sessions = this.#sessions;
    if (!this.#isKept || sessions.isStopping) {
      const message = 'detach: only an open session that its server can rebuild may be left to the next page';
      throw new ProtocolError('unsupported', message);
    }
    sessions.stop();
    const left = this.#leave();
    const { current } = sessions;
    const { wire } = current;
    current.detach();
    await left;
    wire?.close(CloseCode.DETACHED, '');
    return true;
  }

  gone(): boolean {
    const sessions = this.#sessions;
    if (sessions.isStopping) return false;
    // Before ACCEPT, the page has nothing to leave but the session that it is rebuilding.
    if (!this.#isKept && (this.#entry === undefined || sessions.isAccepted)) return false;
    guardLater(sessions, this.#leave());
    const { current } = sessions;
    const { wire } = current;
    current.handleDisconnected(CloseCode.ABNORMAL, '', wire);
    wire?.close(CloseCode.DETACHED, '');
    return true;
  }

  async back(): Promise<void> {
    const sessionId = this.#core?.ticket?.sessionId;
    if (this.isAway && sessionId !== undefined) await this.#takeLock(sessionId, LOCK_WAIT_MS);
    this.isAway = false;
  }

  closing(): void {
    void this.end();
  }

  ended(error: ProtocolError): void {
    void this.end(error);
  }

  /** Whether the next page can rebuild the present session. */
  get #isKept(): boolean {
    return !this.#isOver && this.#core?.ticket !== undefined;
  }

  /** Resolves when the entry is written. */
  async #leave(): Promise<void> {
    const ticket = this.#core?.ticket ?? this.#claimed;
    if (ticket === undefined || this.#isOver) return;
    this.isAway = true;
    const written = this.#write(ticket, true);
    // The next page may have it now.
    this.#releaseLock();
    await written;
  }

  /**
   * The session is over, or is left with its entry in place. Resolves when the entry says so. Never rejects.
   *
   * @param error why.
   */
  end(error?: unknown): Promise<void> {
    if (!this.#isOver) {
      this.#isOver = true;
      this.#ended = this.#end(isViolation(error));
    }
    return this.#ended;
  }

  async #end(isViolated: boolean): Promise<void> {
    this.#cancelWrite?.();
    const ticket = this.#core?.ticket ?? this.#claimed;
    const isOver = this.#hasBegun || isViolated;
    // The session that this page was to rebuild waits for the next attempt: nothing uses it.
    if (!isOver && !this.isAway && this.#claimed !== undefined && ticket !== undefined)
      await this.#write(ticket, true);
    this.#releaseLock();
    used.get(this.#options.store)?.delete(this.#key);
    if (isOver && !this.isAway) await this.#store.remove();
  }

  async #find(): Promise<void> {
    const text = await this.#store.read();
    if (text === undefined) return;
    const entry = decodeEntry(text);
    if (entry === undefined) {
      this.#options.logger?.warn({ event: 'store.malformed' }, 'removed a malformed entry of the store');
      return void (await this.#store.remove());
    }
    const { ticket, later } = entry;
    const isFree = this.#options.store.isExclusive === true || entry.isDetached;
    const mayTake = this.#locks === undefined ? isFree : await this.#takeLock(ticket.sessionId, LOCK_WAIT_MS);
    if (!mayTake) return;
    this.#later = later;
    // No other page may use the attempt, nor the mark.
    this.#claimed = { ...ticket, attempt: ticket.attempt + 1 };
    const claimed = encodeEntry({ ticket: this.#claimed, later, isDetached: false });
    if (claimed !== undefined) await this.#store.write(claimed);
    this.#entry = entry;
  }

  #giveUp(): void {
    if (this.#hasWarned) return;
    this.#hasWarned = true;
    const message =
      'the next page cannot take the session up: the ends have not agreed on resume and rebuild';
    this.#options.logger?.warn({ event: 'store.unused' }, message);
    void this.#store.remove();
  }

  #writeLater(): void {
    this.#cancelWrite ??= this.#options.clock.after(WRITE_INTERVAL_MS, () => {
      this.#cancelWrite = undefined;
      const ticket = this.#core?.ticket;
      if (ticket !== undefined && !this.isAway && !this.#isOver) void this.#write(ticket, false);
    });
  }

  #write(ticket: Ticket, isDetached: boolean): Promise<void> {
    this.#cancelWrite?.();
    this.#cancelWrite = undefined;
    this.#written = ticket;
    const text = encodeEntry({ ticket, later: this.#later, isDetached });
    return text === undefined ? this.#store.remove() : this.#store.write(text);
  }

  /** Resolves to whether this page has the lock. */
  async #takeLock(sessionId: string, waitMs: number): Promise<boolean> {
    if (this.#locks === undefined) return false;
    this.#releaseLock();
    const release = takeLock(this.#locks, `parlance:${sessionId}`, waitMs);
    this.#lock = { sessionId, release };
    return (await release) !== undefined;
  }

  #releaseLock(): void {
    this.#lock?.release.then((release) => release?.());
    this.#lock = undefined;
  }
}
