import { ProtocolError } from '@parlance/protocol';
import { incarnationOf } from '@parlance/protocol/internal';
import type { Link, LinkEnd } from '../link/link.js';
import { countField, type LinkMessage, malformed, shortField } from '../link/message.js';
import { within } from '../within.js';

/**
 * Messages of two nodes about a session that moves. The session has a number on their link.
 *
 * Its node says `hold` if the other one is the proxy of its client: from `held` on, that one passes nothing more on, and names the bytes
 * of the client's messages that were. `snapshot` names the session, its size, the bytes of messages that the client is to get
 * before, and the epoch of the record; `bytes` follow. The answer is `taken`, or `refused` with a code and why. To change its
 * mind before, the node says `drop`.
 */
export type MoveType = 'hold' | 'held' | 'snapshot' | 'bytes' | 'taken' | 'refused' | 'drop';

/** The name of the service of a link. */
export const MOVES = 'moves';
/** How long each step of a move may take, in milliseconds. */
export const STEP_MS = 5_000;
/** How long a session may take to arrive, however steadily it comes, in milliseconds. */
export const TRANSFER_MS = 60_000;
/** Characters of a text. */
export const MAX_TEXT = 256;

/** @throws {ProtocolError} `bad_message`. */
export function sessionField(value: unknown): string {
  const id = shortField(value, MAX_TEXT);
  if (incarnationOf(id) === undefined) throw malformed();
  return id;
}

/** The sessions that this node hands over to another one, on a link that it has opened. */
export class Handovers implements LinkEnd {
  readonly #link: Link;
  readonly #open = new Map<number, Handover>();
  #last = 0;

  constructor(link: Link) {
    this.#link = link;
  }

  get size(): number {
    return this.#open.size;
  }

  /** Close it. */
  begin(): Handover {
    const number = ++this.#last;
    const handover = new Handover(this.#link, number, () => this.#open.delete(number));
    this.#open.set(number, handover);
    return handover;
  }

  handle({ type, fields }: LinkMessage): void {
    this.#open.get(countField(fields[0]))?.handle(type, fields.slice(1));
  }

  handleOver(): void {
    for (const handover of this.#open.values())
      handover.fail(new ProtocolError('connection_failed', 'the connection to the node broke'));
  }
}

/** The messages about one session. */
export class Handover {
  readonly #link: Link;
  readonly #number: number;
  readonly #onClose: () => void;
  #failure: Error | undefined;
  #asked:
    | {
        readonly answer: MoveType;
        readonly resolve: (fields: readonly unknown[]) => void;
        readonly reject: (error: Error) => void;
      }
    | undefined;

  constructor(link: Link, number: number, onClose: () => void) {
    this.#link = link;
    this.#number = number;
    this.#onClose = onClose;
  }

  /**
   * @param answer that is expected.
   * @param bytes that follow the question.
   * @returns the fields of the answer.
   * @throws {MoveRefused} @throws {ProtocolError} `connection_failed`, `timeout`, `bad_message`.
   */
  async ask(
    question: MoveType,
    fields: readonly unknown[],
    answer: MoveType,
    bytes?: Uint8Array,
  ): Promise<readonly unknown[]> {
    if (this.#failure !== undefined) throw this.#failure;
    const answered = new Promise<readonly unknown[]>((resolve, reject) => {
      this.#asked = { answer, resolve, reject };
    });
    this.#link.send(MOVES, question, [this.#number, ...fields]);
    if (bytes !== undefined) {
      const isWanted = () => this.#asked !== undefined;
      const sent = this.#link.sendPieces(MOVES, 'bytes', this.#number, bytes, isWanted);
      await within(Promise.race([sent, answered]), 'sending the session', TRANSFER_MS);
    }
    return await within(answered, 'an answer of the node', STEP_MS);
  }

  /** Calls off what is not taken or refused. */
  close(): void {
    this.#asked = undefined;
    this.#onClose();
    this.#link.send(MOVES, 'drop', [this.#number]);
  }

  handle(type: string, fields: readonly unknown[]): void {
    if (type === 'refused')
      return this.fail(new MoveRefused(shortField(fields[0], MAX_TEXT), shortField(fields[1], MAX_TEXT)));
    if (this.#asked?.answer !== type)
      return this.fail(new ProtocolError('bad_message', `a node answered with ${type.slice(0, MAX_TEXT)}`));
    this.#asked.resolve(fields);
    this.#asked = undefined;
  }

  fail(error: Error): void {
    this.#failure ??= error;
    this.#asked?.reject(error);
    this.#asked = undefined;
  }
}

/** The other node does not take the session, and has forgotten what it knows of it. */
export class MoveRefused extends Error {
  readonly code: string;

  constructor(code: string, message: string) {
    super(message);
    this.code = code;
  }
}
