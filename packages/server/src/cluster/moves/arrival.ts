import { CloseCode, type Logger, ProtocolError } from '@parlance/protocol';
import {
  loggable,
  MAX_SNAPSHOT_SIZE,
  type MemoryBudget,
  type Reservation,
  type SessionMemory,
  systemClock,
} from '@parlance/protocol/internal';
import type { ServerWire, WireEvents } from '../../http/ws.js';
import type { Lead } from '../lead/lead.js';
import { NODES_SHARE } from '../link/quota.js';
import { STEP_MS, within } from './move-channel.js';
import { decodeMoveMessage, encodeMoveMessage, type MoveMessageOf, refusalMessage } from './move-message.js';

/** A session that was restored and has not begun. */
export interface Restored {
  /** From now on the session is here, and with `lead` the client's connection is its own. */
  begin(lead: Lead | undefined): void;
  /** The session stays where it was. */
  discard(): void;
}

export interface ArrivalHost {
  readonly memory: MemoryBudget;
  readonly logger: Logger;
  /** Bytes of memory that one session may use. */
  readonly sessionMemory: number;
  /** The lead of a session from the node `owner`. */
  leadOf(sessionId: string, owner: string): Lead | undefined;
  /** @throws {ProtocolError} if the session cannot go on here: `draining`, `unsupported`, `over_budget` and others. */
  restore(bytes: Uint8Array, head: MoveMessageOf<'snapshot'>, lead: Lead | undefined): Restored;
  /**
   * Writes that the session is here now.
   *
   * @returns whether it is; `undefined` if the engine does not answer.
   */
  claim(sessionId: string, from: string, epoch: number): Promise<boolean | undefined>;
  /** The connection is over. */
  onOver(arrival: Arrival): void;
}

/** A connection on which another node hands sessions over to this one. Everything that the other node says is checked. */
export class Arrival implements WireEvents {
  readonly #wire: ServerWire;
  readonly #source: string;
  readonly #host: ArrivalHost;
  #lead: Lead | undefined;
  #head: MoveMessageOf<'snapshot'> | undefined;
  #memory: SessionMemory | undefined;
  #reserved: Reservation | undefined;
  #bytes = Buffer.alloc(0);
  #received = 0;
  #isFinishing = false;
  #isBroken = false;
  #isCancelled = false;
  #isOver = false;
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** When the first message about the present session came: a clock reading. */
  #begun: number | undefined;

  /** @param source the node that the sessions come from. */
  constructor(wire: ServerWire, source: string, host: ArrivalHost) {
    this.#wire = wire;
    this.#source = source;
    this.#host = host;
    this.#await();
    wire.listen(this);
  }

  /** The session, once its snapshot is announced. */
  get sessionId(): string | undefined {
    return this.#head?.session;
  }

  onMessage(data: Uint8Array | string): void {
    if (this.#isOver || this.#isFinishing) return;
    try {
      if (this.#head === undefined) this.#handleMessage(data);
      else this.#handleBytes(data, this.#head);
    } catch (error) {
      this.#refuse(error);
    }
  }

  onClose(): void {
    this.#isBroken = true;
    // Once it is complete, the record decides who has it.
    if (!this.#isFinishing) this.#end();
  }

  onFault(): void {
    this.#wire.terminate();
  }

  onControl(): void {}
  onData(): void {}
  onDrain(): void {}

  /** This node shuts down. */
  cancel(): void {
    this.#isCancelled = true;
    if (!this.#isFinishing) this.#refuse(new ProtocolError('draining', 'the node is shutting down'));
  }

  #await(ms = STEP_MS): void {
    clearTimeout(this.#timer);
    const left = this.#begun === undefined ? ms : this.#begun + ARRIVAL_MS - systemClock.now();
    const wait = Math.max(0, Math.min(ms, left));
    this.#timer = setTimeout(() => {
      this.#refuse(
        new ProtocolError('timeout', `the session did not arrive: nothing came within ${wait} ms`),
      );
    }, wait);
  }

  #handleMessage(data: Uint8Array | string): void {
    const message = decodeMoveMessage(data);
    this.#begun ??= systemClock.now();
    this.#await();
    if (message.type === 'hold' && this.#lead === undefined) return this.#hold(message.session);
    if (message.type !== 'snapshot') throw unexpected(message.type);
    if (this.#lead !== undefined && message.session !== this.#lead.sessionId)
      throw unexpected('another session');
    if (message.size === 0 || message.size > MAX_SNAPSHOT_SIZE) {
      const why = `a session of ${message.size} bytes; at most ${MAX_SNAPSHOT_SIZE} are possible`;
      throw new ProtocolError('message_too_large', why);
    }
    this.#memory = this.#host.memory.open(this.#host.sessionMemory);
    this.#memory.assign([NODES_SHARE]);
    this.#reserved = this.#memory.tryReserve(message.size);
    if (this.#reserved === undefined)
      throw new ProtocolError('over_budget', 'the node has no memory for the session');
    this.#bytes = Buffer.allocUnsafe(Math.min(message.size, FIRST_BUFFER));
    this.#head = message;
  }

  #hold(sessionId: string): void {
    const lead = this.#host.leadOf(sessionId, this.#source);
    const bytes = lead?.hold();
    if (bytes === undefined)
      throw new ProtocolError('invalid_argument', 'the node does not lead the session');
    this.#lead = lead;
    this.#wire.send(encodeMoveMessage({ type: 'held', bytes }));
  }

  #handleBytes(data: Uint8Array | string, head: MoveMessageOf<'snapshot'>): void {
    if (typeof data === 'string' || this.#received + data.length > head.size)
      throw unexpected('too many bytes');
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
  async #finish(head: MoveMessageOf<'snapshot'>): Promise<void> {
    const { session, sent, epoch } = head;
    const { logger } = this.#host;
    let restored: Restored | undefined;
    try {
      const lead = this.#lead;
      if (
        lead !== undefined &&
        !(await within(lead.passed(sent), 'what the client is told before', () => {}))
      )
        throw new ProtocolError(
          'connection_failed',
          'the led connection broke before everything was passed on',
        );
      restored = this.#host.restore(this.#bytes, head, lead);
      const isOurs = await this.#claim(session, epoch);
      if (!isOurs) throw new ProtocolError('invalid_argument', 'the record names another node');
      const more = !this.#isBroken && !this.#isCancelled;
      this.#wire.send(encodeMoveMessage(more ? { type: 'taken', more } : { type: 'taken' }));
      this.#lead = undefined;
      const begun = restored;
      restored = undefined;
      if (more) this.#next();
      else this.#end();
      begun.begin(lead);
    } catch (error) {
      restored?.discard();
      const fields = { event: 'move.failed', session, node: this.#source, err: loggable(error) };
      logger.warn(fields, 'a session of another node cannot go on here');
      this.#isFinishing = false;
      this.#refuse(error);
    }
  }

  /**
   * An engine that has not answered may have written it nevertheless, and the other node would find it there. So only an
   * answer decides; the other node waits for one as well.
   */
  async #claim(session: string, epoch: number): Promise<boolean> {
    for (;;) {
      const isOurs = await this.#host.claim(session, this.#source, epoch);
      if (isOurs !== undefined) return isOurs;
      if (this.#isCancelled) throw new ProtocolError('draining', 'the node is shutting down');
      await new Promise<void>((resolve) => void setTimeout(resolve, RETRY_MS).unref());
    }
  }

  /** Another session may come. */
  #next(): void {
    this.#forgetBytes();
    this.#head = undefined;
    this.#begun = undefined;
    this.#isFinishing = false;
    this.#await(IDLE_MS);
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
    if (!this.#isBroken) this.#wire.send(encodeMoveMessage(refusalMessage(error)));
    this.#end();
  }

  #end(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    clearTimeout(this.#timer);
    this.#forgetBytes();
    this.#lead?.release();
    this.#lead = undefined;
    this.#wire.close(CloseCode.NORMAL, '');
    setTimeout(() => this.#wire.terminate(), STEP_MS).unref();
    this.#host.onOver(this);
  }
}

/** How long a connection may wait for another session, in milliseconds. */
const IDLE_MS = 60_000;
/** Until the engine is asked again, in milliseconds. */
const RETRY_MS = 250;
/** Bytes that are taken before anything has come. */
const FIRST_BUFFER = 64 * 1024;
/** How long a session may take to arrive, however steadily it comes, in milliseconds. */
export const ARRIVAL_MS = 60_000;

function unexpected(what: string): ProtocolError {
  return new ProtocolError('bad_message', `a message about a move that was not expected: ${what}`);
}
