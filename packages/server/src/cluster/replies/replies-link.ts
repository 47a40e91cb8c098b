import { ProtocolError } from '@parlance/protocol';
import { decodeFailure, type Reservation } from '@parlance/protocol/internal';
import type { DialFailure, ServerWire, WireEvents } from '../../http/ws.js';
import { countField, decodePeerMessage, encodePeerMessage, malformed, textField } from '../peer-message.js';

/** Questions that the other node has at a time; further ones wait. Each is answered with some 16 KiB. */
const MAX_ASKED = 256;
/** Questions that wait. */
const MAX_WAITING = 10_000;
/** How long a node may say nothing while it owes an answer, in milliseconds. */
export const SILENCE_MS = 5_000;

/**
 * Why there is no answer: `gone` if the process has ended, `broken` if the connection broke, because of that or on its way,
 * `silent` if the node may live.
 */
export type NoAnswer = 'gone' | 'broken' | 'silent';

/** Thrown instead of an answer. */
export class Unanswered extends Error {
  readonly kind: NoAnswer;

  constructor(kind: NoAnswer, message: string) {
    super(message);
    this.kind = kind;
  }
}

export interface RepliesAnswer {
  readonly fields: readonly unknown[];
  readonly bytes: Uint8Array;
}

export interface RepliesLinkOptions {
  /** Milliseconds of a clock. */
  readonly now: () => number;
  /** Bytes of one answer. */
  readonly maxAnswer: number;
  /** Reserves memory for a long answer. @throws {ProtocolError} `over_budget`. */
  readonly reserve: (size: number) => Reservation;
  /** Deepest nesting of JSON in an error. */
  readonly maxDepth: number;
  readonly onChanged: (id: string) => void;
  /** The connection is over. @param why `undefined` if this node has ended it. */
  readonly onOver: (why: Unanswered | undefined) => void;
}

interface Question {
  readonly type: string;
  readonly fields: readonly unknown[];
  readonly bytes: Uint8Array;
  readonly resolve: (answer: RepliesAnswer) => void;
  readonly reject: (error: unknown) => void;
  /** A long answer, of which so much has come. */
  answer: Uint8Array | undefined;
  filled: number;
  reservation: Reservation | undefined;
}

const NOTHING = new Uint8Array(0);

/** The connection to another node, whose kept replies this one reads. What is not asked for is not sent. */
export class RepliesLink implements WireEvents {
  readonly #options: RepliesLinkOptions;
  #wire: ServerWire | undefined;
  /** Replies to watch when the connection is open. */
  readonly #early = new Set<string>();
  readonly #waiting: Question[] = [];
  readonly #asked = new Map<number, Question>();
  #lastRef = 0;
  #heardAt: number;
  #isOver = false;

  constructor(options: RepliesLinkOptions) {
    this.#options = options;
    this.#heardAt = options.now();
  }

  /** The connection is open. */
  begin(wire: ServerWire): void {
    if (this.#isOver) return wire.terminate();
    this.#wire = wire;
    this.#heardAt = this.#options.now();
    for (const id of this.#early) this.#tell('watch', id);
    this.#early.clear();
    this.#pump();
  }

  /** @throws {ProtocolError} what the other node answers, `over_budget`. @throws {Unanswered} */
  ask(type: string, fields: readonly unknown[], bytes: Uint8Array = NOTHING): Promise<RepliesAnswer> {
    if (this.#isOver) return Promise.reject(new Unanswered('broken', 'the connection is over'));
    if (this.#waiting.length >= MAX_WAITING)
      return Promise.reject(new ProtocolError('over_budget', 'too much is asked of another node'));
    return new Promise((resolve, reject) => {
      const rest = { answer: undefined, filled: 0, reservation: undefined };
      this.#waiting.push({ type, fields, bytes, resolve, reject, ...rest });
      this.#pump();
    });
  }

  /** Asks for changes of a reply, before any question that follows. */
  watch(id: string): void {
    if (this.#wire === undefined) this.#early.add(id);
    else this.#tell('watch', id);
  }

  unwatch(id: string): void {
    if (this.#wire === undefined) this.#early.delete(id);
    else this.#tell('unwatch', id);
  }

  /** A list is not read to its end. */
  closeList(number: number): void {
    this.#tell('close', number);
  }

  #tell(type: string, field: string | number): void {
    if (!this.#isOver) this.#wire?.send(encodePeerMessage(type, [field]));
  }

  handleTick(): void {
    if (this.#asked.size === 0) return;
    if (this.#options.now() - this.#heardAt < SILENCE_MS) return;
    this.end(new Unanswered('silent', `no answer within ${SILENCE_MS} ms`));
  }

  handleFailure({ status, code }: DialFailure): void {
    const isGone = status === 404 || status === 410 || code === 'ECONNREFUSED';
    const kind = isGone ? 'gone' : code === 'ECONNRESET' ? 'broken' : 'silent';
    this.end(new Unanswered(kind, code ?? `HTTP ${status}`));
  }

  end(why?: Unanswered): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#wire?.terminate();
    const questions = [...this.#asked.values(), ...this.#waiting.splice(0)];
    this.#asked.clear();
    const reason = why ?? new Unanswered('broken', 'this node has ended the connection');
    for (const { reservation, reject } of questions) {
      reservation?.release();
      reject(reason);
    }
    this.#options.onOver(why);
  }

  #pump(): void {
    const wire = this.#wire;
    if (wire === undefined) return;
    while (this.#asked.size < MAX_ASKED) {
      const question = this.#waiting.shift();
      if (question === undefined) return;
      // Silence counts from the first question that is open.
      if (this.#asked.size === 0) this.#heardAt = this.#options.now();
      const ref = ++this.#lastRef;
      this.#asked.set(ref, question);
      wire.send(encodePeerMessage(question.type, [ref, ...question.fields], question.bytes));
    }
  }

  // --- as the listener of the wire

  onMessage(data: Uint8Array | string): void {
    if (this.#isOver) return;
    this.#heardAt = this.#options.now();
    try {
      const { type, fields, bytes } = decodePeerMessage(data);
      if (type === 'changed') return this.#options.onChanged(textField(fields[0]));
      this.#handleAnswer(type, countField(fields[0]), fields.slice(1), bytes);
    } catch (error) {
      this.end(new Unanswered('silent', error instanceof Error ? error.message : String(error)));
    }
  }

  onClose(code: number, reason: string): void {
    this.end(new Unanswered('broken', `closed with ${code} ${reason}`));
  }
  onFault(error: unknown): void {
    this.end(new Unanswered('broken', error instanceof Error ? error.message : String(error)));
  }
  onDrain(): void {}
  onControl(): void {}
  onData(): void {}

  #handleAnswer(type: string, ref: number, fields: readonly unknown[], bytes: Uint8Array): void {
    const question = this.#asked.get(ref);
    // It has failed at this end.
    if (question === undefined) return;
    switch (type) {
      case 'more':
        return this.#handleMore(ref, question, countField(fields[0]), bytes);
      case 'done': {
        const { answer, filled } = question;
        if (answer !== undefined && answer.length - filled !== bytes.length) throw malformed();
        answer?.set(bytes, filled);
        this.#forget(ref, question);
        question.resolve({ fields, bytes: answer ?? bytes });
        return;
      }
      case 'fail':
        this.#forget(ref, question);
        question.reject(decodeFailure(bytes, this.#options.maxDepth));
        return;
      default:
        throw malformed();
    }
  }

  /** @param left bytes that follow. */
  #handleMore(ref: number, question: Question, left: number, bytes: Uint8Array): void {
    if (bytes.length === 0) throw malformed();
    if (question.answer === undefined) {
      const size = bytes.length + left;
      try {
        if (size > this.#options.maxAnswer)
          throw new ProtocolError('reply_too_large', 'a part of the reply is larger than this node allows');
        question.reservation = this.#options.reserve(size);
        question.answer = new Uint8Array(size);
      } catch (error) {
        this.#forget(ref, question);
        return question.reject(error);
      }
    } else if (question.answer.length - question.filled !== bytes.length + left) throw malformed();
    question.answer.set(bytes, question.filled);
    question.filled += bytes.length;
  }

  #forget(ref: number, { reservation }: Question): void {
    reservation?.release();
    this.#asked.delete(ref);
    this.#pump();
  }
}
