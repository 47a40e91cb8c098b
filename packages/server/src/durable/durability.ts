import { type Body, type Message, ProtocolError } from '@parlance/protocol';
import {
  type BodyToSend,
  CONTAINER_FORMAT,
  copyBytes,
  type DurableSession,
  encodeSnapshot,
  type Outbound,
} from '@parlance/protocol/internal';
import type { DurableState } from '../session/durable-state.js';
import type { CommitRecorder } from './commit-recorder.js';

/** The session that is recorded. */
export interface DurabilityHost {
  readonly outbound: Pick<Outbound, 'together'>;
  /** Tells features that the application is done with a message. */
  handled(message: Message): void;
}

const NOTHING = new Uint8Array(0);

interface Waiting {
  reject(error: Error): void;
}

/**
 * The progress of a durable session: which messages its application has handled, and which calls wait for its record.
 */
export class Durability implements DurableState {
  readonly #host: DurabilityHost;
  readonly #durable: DurableSession;
  readonly #recorder: CommitRecorder;
  readonly #onEnd: () => void;
  /** Messages that are handled although one before them is not. */
  readonly #done = new Set<number>();
  /** The last one of them. */
  #lastDone = 0;
  /** The last message that the application has taken. */
  #taken = 0;
  /** Messages that it has taken, and that are not handled. */
  readonly #unhandled = new Map<number, Message>();
  /** The application has handled messages up to this one at another node. */
  #handledBefore = 0;
  /** The record stays, so that another node can continue from it. */
  #isLeft = false;
  /** Calls of {@link commit} that are under way. */
  #commits = 0;
  readonly #waiting = new Set<Waiting>();

  /** @param onEnd the session is over, and its record with it, if it is still that of this node. */
  constructor(host: DurabilityHost, durable: DurableSession, recorder: CommitRecorder, onEnd: () => void) {
    this.#host = host;
    this.#durable = durable;
    this.#recorder = recorder;
    this.#onEnd = onEnd;
  }

  get lastsMs(): number {
    return this.#recorder.ttlMs;
  }

  tidy(): void {
    this.#recorder.tidy();
  }

  // --- messages of the client

  handleTaken(number: number, message: Message): void {
    this.#taken = number;
    this.#unhandled.set(number, message);
  }

  handleDone(number: number): void {
    this.#durable.settle(number);
    this.#done.add(number);
    this.#lastDone = Math.max(this.#lastDone, number);
    // It is handled with the state that follows from it.
    if (this.#commits === 0) this.#advance();
  }

  hasHandled(number: number): boolean {
    return number <= this.#handledBefore;
  }

  handledUpTo(number: number): void {
    if (!Number.isSafeInteger(number) || number < 0)
      throw new ProtocolError(
        'invalid_argument',
        `markHandledUpTo: expected the number of a message, not ${number}`,
      );
    this.#handledBefore = Math.max(this.#handledBefore, number);
    this.#handle(number);
    this.#advance();
  }

  /** State that features save when they are notified of the message is in the commit that marks it as handled. */
  #handle(number: number): void {
    this.#durable.handle(number);
    this.#tellHandled(number);
  }

  #tellHandled(number: number): void {
    for (const [each, message] of this.#unhandled) {
      if (each > number) break;
      this.#unhandled.delete(each);
      this.#host.handled(message);
    }
  }

  /** One message may be handled before another one: those that are not for the application. */
  #advance(): void {
    const done = this.#done;
    let { handled } = this.#durable;
    for (const number of done) if (number <= handled) done.delete(number);
    // Those for other sessions may be handled later.
    for (let next = handled + 1; next <= this.#lastDone; next++) {
      if (done.delete(next)) handled = next;
      else if (!this.#durable.isOpen(next)) break;
    }
    this.#handle(handled);
  }

  // --- messages and state of the application

  commit(state: Uint8Array | undefined, bodies: readonly Body[], onDone: () => void): Promise<void> {
    const taken = this.#taken;
    const kept = state && copyBytes(state);
    const commit = (coded: readonly BodyToSend[]) => {
      this.#durable.commit(taken, kept, coded);
      this.#tellHandled(taken);
      onDone();
    };
    const settle = () => {
      this.#commits--;
      if (this.#commits === 0) this.#advance();
    };
    this.#commits++;
    try {
      const committed = this.#host.outbound.together(bodies, commit);
      committed.then(settle, settle);
      return committed;
    } catch (error) {
      settle();
      throw error;
    }
  }

  save(part: string, value: unknown): void {
    this.#durable.save(part, value === undefined ? NOTHING : encodeSnapshot({ value }, CONTAINER_FORMAT));
  }

  recorded(): Promise<void> {
    return new Promise((resolve, reject) => {
      const waiting = { reject };
      this.#waiting.add(waiting);
      this.#durable.afterCommit(() => {
        this.#waiting.delete(waiting);
        resolve();
      });
    });
  }

  leave(): void {
    this.#isLeft = true;
    this.#recorder.close();
  }

  end(error: Error | undefined): void {
    this.#recorder.close();
    for (const { reject } of this.#waiting)
      reject(error ?? new ProtocolError('session_closed', 'the session was closed', { side: 'remote' }));
    this.#waiting.clear();
    if (!this.#isLeft) this.#onEnd();
  }
}
