import { isProtocolError, type Logger, ProtocolError } from '@parlance/protocol';
import {
  loggable,
  MAX_SNAPSHOT_SIZE,
  type MemoryBudget,
  type Reservation,
  type SessionMemory,
  systemClock,
} from '@parlance/protocol/internal';
import { persist } from '../../base/repeat.js';
import { countField } from '../link/message.js';
import { NODES_SHARE } from '../link/quota.js';
import type { SessionProxy } from '../proxies/session-proxy.js';
import { within } from '../within.js';
import type { MovedHere } from './departure.js';
import { MAX_TEXT, type MoveType, STEP_MS, sessionField, TRANSFER_MS } from './handover.js';

/** The announcement of a session by another node. The bytes of the session follow. */
export interface Announced {
  readonly session: string;
  readonly size: number;
  /** Bytes of messages that the client is to get before. */
  readonly sent: number;
  /** Of the record. */
  readonly epoch: number;
}

export interface ArrivalHost {
  readonly memory: MemoryBudget;
  readonly logger: Logger;
  /** Bytes of memory that one session may use. */
  readonly sessionMemory: number;
  /** The proxy of a session from the node `owner`. */
  proxyOf(sessionId: string, owner: string): SessionProxy | undefined;
  /** Rejects if the session cannot continue here: `draining`, `unsupported`, `over_budget` and others. */
  restore(bytes: Uint8Array, head: Announced, proxy: SessionProxy | undefined): Promise<MovedHere>;
  /** Writes that the session is here now. Returns whether it is; rejects if the engine does not answer. */
  claim(sessionId: string, from: string, epoch: number): Promise<boolean>;
  answer(type: MoveType, ...fields: readonly unknown[]): void;
  /** It is here. */
  onArrived(moved: MovedHere, proxy: SessionProxy | undefined): void;
  /** It is here, or does not come. */
  onOver(arrival: Arrival): void;
}

/** A session that another node hands over to this one. Everything that the other node says is checked. */
export class Arrival {
  readonly #source: string;
  readonly #host: ArrivalHost;
  #proxy: SessionProxy | undefined;
  #head: Announced | undefined;
  #memory: SessionMemory | undefined;
  #reserved: Reservation | undefined;
  #bytes = Buffer.alloc(0);
  #received = 0;
  #isFinishing = false;
  /** The other node does not wait for the answer. */
  #isDropped = false;
  #isCancelled = false;
  #isOver = false;
  #timer: ReturnType<typeof setTimeout> | undefined;
  readonly #end = systemClock.now() + TRANSFER_MS;

  /** @param source the node that the session comes from. */
  constructor(source: string, host: ArrivalHost) {
    this.#source = source;
    this.#host = host;
    this.#await();
  }

  /** The session, once its snapshot is announced. */
  get sessionId(): string | undefined {
    return this.#head?.session;
  }

  handle(type: string, fields: readonly unknown[], bytes: Uint8Array): void {
    if (this.#isOver || this.#isFinishing) return;
    try {
      if (type === 'bytes' && this.#head !== undefined) this.#handleBytes(bytes, this.#head);
      else if (this.#head === undefined) this.#begin(type, fields);
      else throw unexpected(type);
    } catch (error) {
      this.#refuse(error);
    }
  }

  /** The other node has changed its mind, or the link is over. Once the session is complete, the record decides who has it. */
  handleDropped(): void {
    this.#isDropped = true;
    if (!this.#isFinishing) this.#close();
  }

  /** This node shuts down. */
  cancel(): void {
    this.#isCancelled = true;
    if (!this.#isFinishing) this.#refuse(shuttingDown());
  }

  #await(): void {
    clearTimeout(this.#timer);
    const wait = Math.max(0, Math.min(STEP_MS, this.#end - systemClock.now()));
    this.#timer = setTimeout(() => {
      this.#refuse(
        new ProtocolError('timeout', `the session did not arrive: nothing came within ${wait} ms`),
      );
    }, wait);
  }

  #begin(type: string, fields: readonly unknown[]): void {
    this.#await();
    const session = sessionField(fields[0]);
    if (type === 'hold' && this.#proxy === undefined) return this.#hold(session);
    if (type !== 'snapshot') throw unexpected(type);
    const [size, sent, epoch] = [countField(fields[1]), countField(fields[2]), countField(fields[3])];
    if (this.#proxy !== undefined && session !== this.#proxy.sessionId) throw unexpected('another session');
    if (size === 0 || size > MAX_SNAPSHOT_SIZE) {
      const why = `a session of ${size} bytes; at most ${MAX_SNAPSHOT_SIZE} are possible`;
      throw new ProtocolError('message_too_large', why);
    }
    this.#memory = this.#host.memory.open(this.#host.sessionMemory);
    this.#memory.assign([NODES_SHARE]);
    this.#reserved = this.#memory.tryReserve(size);
    if (this.#reserved === undefined)
      throw new ProtocolError('over_budget', 'the node has no memory for the session');
    this.#bytes = Buffer.allocUnsafe(Math.min(size, FIRST_BUFFER));
    this.#head = { session, size, sent, epoch };
  }

  #hold(sessionId: string): void {
    const proxy = this.#host.proxyOf(sessionId, this.#source);
    const bytes = proxy?.hold();
    if (bytes === undefined)
      throw new ProtocolError('invalid_argument', 'the node does not proxy the session');
    this.#proxy = proxy;
    this.#host.answer('held', bytes);
  }

  #handleBytes(data: Uint8Array, head: Announced): void {
    if (this.#received + data.length > head.size) throw unexpected('too many bytes');
    this.#grow(this.#received + data.length, head.size);
    this.#bytes.set(data, this.#received);
    this.#received += data.length;
    this.#await();
    if (this.#received < head.size) return;
    clearTimeout(this.#timer);
    this.#isFinishing = true;
    void this.#finish(head);
  }

  /** A node that announces a large session and sends none of it takes little memory. */
  #grow(needed: number, size: number): void {
    if (needed <= this.#bytes.length) return;
    const grown = Buffer.allocUnsafe(Math.min(size, Math.max(needed, 2 * this.#bytes.length)));
    this.#bytes.copy(grown, 0, 0, this.#received);
    this.#bytes = grown;
  }

  /** Never rejects. */
  async #finish(head: Announced): Promise<void> {
    const { session, sent, epoch } = head;
    const { logger } = this.#host;
    let restored: MovedHere | undefined;
    try {
      const proxy = this.#proxy;
      if (
        proxy !== undefined &&
        !(await within(proxy.passed(sent), 'what the client is told before', STEP_MS))
      )
        throw new ProtocolError(
          'connection_failed',
          'the proxied connection broke before everything was passed on',
        );
      restored = await this.#host.restore(this.#bytes, head, proxy);
      if (!(await this.#claim(session, epoch)))
        throw new ProtocolError('invalid_argument', 'the record names another node');
      this.#host.answer('taken');
      this.#proxy = undefined;
      const begun = restored;
      restored = undefined;
      this.#close();
      this.#host.onArrived(begun, proxy);
      begun.begin(proxy, this.#source);
    } catch (error) {
      restored?.discard();
      const fields = { event: 'move.failed', session, node: this.#source, err: loggable(error) };
      logger.warn(fields, 'a session of another node cannot continue here');
      this.#isFinishing = false;
      this.#refuse(error);
    }
  }

  /**
   * An engine that has not answered may have written it nevertheless, and the other node would find it there. So only an
   * answer decides; the other node waits for one as well.
   */
  async #claim(session: string, epoch: number): Promise<boolean> {
    const mayGoOn = () => {
      if (this.#isCancelled) throw shuttingDown();
      return true;
    };
    return await persist(() => this.#host.claim(session, this.#source, epoch), RETRY_MS, mayGoOn);
  }

  #forgetBytes(): void {
    this.#bytes = Buffer.alloc(0);
    this.#received = 0;
    this.#reserved?.release();
    this.#reserved = undefined;
    this.#memory?.close();
    this.#memory = undefined;
  }

  #refuse(error: unknown): void {
    if (this.#isOver) return;
    if (!this.#isDropped) this.#host.answer('refused', ...refusalOf(error));
    this.#close();
  }

  #close(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    clearTimeout(this.#timer);
    this.#forgetBytes();
    this.#proxy?.release();
    this.#proxy = undefined;
    this.#host.onOver(this);
  }
}

/** Until the engine is asked again, in milliseconds. */
const RETRY_MS = 250;
/** Bytes that are taken before anything has come. */
const FIRST_BUFFER = 64 * 1024;

/** The reason that another node gets if it has to keep a session. A fault of this node is not quoted. */
export function refusalOf(error: unknown): readonly [code: string, why: string] {
  if (!isProtocolError(error)) return ['internal', 'the node failed'];
  return [error.code, error.message.slice(0, MAX_TEXT)];
}

function unexpected(what: string): ProtocolError {
  return new ProtocolError('bad_message', `a message about a move that was not expected: ${what}`);
}

function shuttingDown(): ProtocolError {
  return new ProtocolError('draining', 'the node is shutting down');
}
