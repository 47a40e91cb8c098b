import { SELF, workAsTheyAre } from '../../base/as-they-are.js';
import { concatBytes } from '../../base/bytes.js';
import { ProtocolError } from '../../base/errors.js';
import type { Reservation } from '../../base/memory.js';
import { showAs } from '../../base/shown.js';
import { BodyCodec, countText, type ReceivedBody } from '../../codec/body.js';
import type { BodyCoder, PartText } from '../../codec/coder.js';
import { Inbox } from '../messages/inbox.js';
import { type Message, ReceivedMessage } from '../messages/message.js';
import { decodeMetadata, type Metadata } from '../messages/metadata.js';
import { KEPT, type KeptMetadata, readKept } from './kept-metadata.js';
import { replyFields } from './reply-fields.js';

/**
 * The reply to a request, part by part. It is read once: a second loop, at the same time or later, throws `invalid_argument`.
 * The iteration throws the error of a failed request after the parts that arrived.
 *
 * @typeParam Json what each part is expected to be, for its `json()`. It is not checked.
 */
export interface ReplyStream<Json = unknown> extends AsyncIterable<Message<Json>> {
  /** The ID of the stream; 0 while a very large request is still being coded. */
  readonly id: number;
  /** The metadata of the reply; empty until it arrives. */
  readonly metadata: Metadata;
  /** The ID of a reply that the server keeps, for `session.follow`; known with its first part. */
  readonly keptId: string | undefined;
  /** The number of the part that the reader took last, counted from 1; 0 before the first. */
  readonly position: number;
  /** Stops the handler at the peer and ends the iteration. A second call has no effect. */
  cancel(): void;
}

/** A reply as the session fills it; parts wait for the reader. */
export interface Reply extends ReplyStream {
  /** Complete, failed or cancelled: the reply ignores what still arrives. */
  readonly isOver: boolean;
  /** The request was sent on stream `id`. */
  begin(id: number): void;
  /**
   * Joins the parts: resolves when the reply is complete, rejects if the request fails. Call it before parts
   * arrive.
   */
  whole(): Promise<Message>;
  /** @param reservation memory for the decoded body. */
  handlePart(body: ReceivedBody, reservation?: Reservation): void;
  handleResponse(body: ReceivedBody, reservation?: Reservation): void;
  handleEnd(error?: Error): void;
  /** Fails the reply with `reason`, which the reader gets, and cancels it at the peer. */
  abort(reason: unknown): void;
}

/** The host of all replies of a session. */
export interface ReplyHost {
  readonly coder: BodyCoder;
  /** Cancels stream `id` at the peer. */
  readonly cancel: (id: number) => void;
  /** The application has taken a part that used up `charge` of credit. */
  readonly consume: (id: number, charge: number) => void;
}

/** @param onOver called once when the reply is complete, failed or cancelled. */
export function createReply(host: ReplyHost, onOver?: () => void): Reply {
  return new StreamReply(host, onOver);
}

class StreamReply implements Reply {
  readonly [SELF] = this;
  id = 0;
  readonly #host: ReplyHost;
  readonly #onOver: (() => void) | undefined;
  /** Parts that wait for the reader; made with the first or for the reader. */
  #inbox: Inbox<ReceivedMessage> | undefined;
  #partText: PartText | undefined;
  /** The error if token parts ended inside a character. */
  #incomplete: Error | undefined;
  /** The reader has read text, not only tokens. */
  #isText = false;
  #hasParts = false;
  #metadata: Metadata = Object.freeze({});
  #kept: KeptMetadata | undefined;
  /** The beginning of a character that the next part continues, if that is of tokens. */
  #held: Uint8Array | undefined;
  /** Parts that the reader has taken. */
  #taken = 0;
  #encodedMetadata: Uint8Array | undefined;
  #isOver = false;
  /** Kept instead of messages if the caller waits for the whole reply. */
  #bodies: ReceivedBody[] | undefined;
  /** Bytes of {@link #bodies}. */
  #collected = 0;
  /** Memory of {@link #bodies}. */
  #reservations: Reservation[] | undefined;
  /** The part that the reader took last, if it is not done with it. */
  #lastTaken: ReceivedMessage | undefined;
  #whole: { resolve: (message: Message) => void; reject: (error: unknown) => void } | undefined;

  constructor(host: ReplyHost, onOver: (() => void) | undefined) {
    this.#host = host;
    this.#onOver = onOver;
  }

  get #parts(): Inbox<ReceivedMessage> {
    this.#inbox ??= new Inbox({
      onTake: (part) => {
        this.#releaseTaken();
        this.#taken++;
        this.#lastTaken = part;
        this.#host.consume(this.id, part.charge);
      },
      onDone: () => this.#releaseTaken(),
      onRelease: () => this.cancel(),
      isReadOnce: true,
    });
    return this.#inbox;
  }

  get metadata(): Metadata {
    return this.#metadata;
  }

  get keptId(): string | undefined {
    return this.#kept?.id;
  }

  get position(): number {
    return (this.#kept?.after ?? 0) + this.#taken;
  }

  get isOver(): boolean {
    return this.#isOver;
  }

  begin(id: number): void {
    this.id = id;
  }

  whole(): Promise<Message> {
    this.#bodies = [];
    return new Promise((resolve, reject) => {
      this.#whole = { resolve, reject };
    });
  }

  [Symbol.asyncIterator](): AsyncIterator<Message> {
    return this.#parts[Symbol.asyncIterator]();
  }

  handlePart(body: ReceivedBody, reservation?: Reservation): void {
    if (this.#isOver) return reservation?.release();
    if (body.metadata !== undefined) {
      this.#learn(body.metadata);
      // A part with metadata and no content only carries the metadata. A protected part is coded, so it has
      // bytes.
      const isNothing = body.bytes.length === 0 || (body.opened !== undefined && body.originalLength === 0);
      if (isNothing) {
        reservation?.release();
        return this.#host.consume(this.id, body.charge);
      }
    }
    this.#hasParts = true;
    if (this.#bodies !== undefined) {
      if (reservation !== undefined) {
        this.#reservations ??= [];
        this.#reservations.push(reservation);
      }
      this.#collect(this.#bodies, body);
      return;
    }
    if (body.codec === BodyCodec.TOKEN_NATIVE) this.#partText ??= this.#createPartText();
    else this.#endTokens();
    this.#held = undefined;
    this.#parts.push(new ReceivedMessage(body, this.#host.coder, this.#partText, this.#onText, reservation));
  }

  /** `undefined` if the vocabulary could not be loaded; then reading the text throws. */
  #createPartText(): PartText | undefined {
    try {
      return this.#host.coder.createPartText(this.#held);
    } catch (error) {
      if (error instanceof ProtocolError) return undefined;
      throw error;
    }
  }

  handleResponse(body: ReceivedBody, reservation?: Reservation): void {
    // The caller gets the response at once, so its memory is no longer counted here.
    reservation?.release();
    if (this.#isOver) return;
    if (this.#hasParts) throw new ProtocolError('bad_frame', 'a RESPONSE after parts of the same reply');
    if (body.metadata !== undefined) this.#learn(body.metadata);
    this.#finish();
    const message = new ReceivedMessage(body, this.#host.coder);
    if (this.#whole !== undefined) return this.#whole.resolve(message);
    this.#parts.push(message);
    this.#parts.end();
  }

  handleEnd(error?: Error): void {
    if (this.#isOver) return;
    this.#finish();
    if (this.#whole !== undefined) {
      if (error !== undefined) this.#whole.reject(error);
      else this.#settle(this.#whole, this.#bodies ?? []);
      return;
    }
    this.#endTokens();
    this.#parts.end(error ?? (() => (this.#isText ? this.#incomplete : undefined)));
  }

  abort(reason: unknown): void {
    if (this.#isOver) return;
    this.#finish();
    if (this.#whole !== undefined) this.#whole.reject(reason);
    else {
      const error =
        reason instanceof Error ? reason : new ProtocolError('cancelled', 'aborted', { cause: reason });
      this.#parts.end(error);
    }
    if (this.id !== 0) this.#host.cancel(this.id);
  }

  cancel(): void {
    if (this.#isOver) return;
    this.#finish();
    if (this.#whole !== undefined) {
      this.#whole.reject(new ProtocolError('cancelled', 'the request was cancelled'));
    } else {
      this.#parts.clear();
      this.#parts.end();
    }
    if (this.id !== 0) this.#host.cancel(this.id);
  }

  readonly #onText = () => {
    this.#isText = true;
  };

  /** A series of token parts ends; it may end inside a character. */
  #endTokens(): void {
    const partText = this.#partText;
    this.#partText = undefined;
    try {
      partText?.end();
    } catch (error) {
      this.#incomplete ??= error as Error;
    }
  }

  #learn(metadata: Uint8Array): void {
    const decoded = decodeMetadata(metadata, this.#host.coder.limits.maxJsonDepth);
    this.#encodedMetadata = metadata;
    if (this.#kept === undefined) {
      this.#kept = readKept(decoded);
      this.#held = this.#kept?.held;
    }
    const { [KEPT]: kept, ...rest } = decoded;
    this.#metadata = kept === undefined ? decoded : Object.freeze(rest);
  }

  /** Keeps a part for {@link whole}. The size of the whole reply is limited like that of a message. */
  #collect(bodies: ReceivedBody[], body: ReceivedBody): void {
    const { maxMessageSize } = this.#host.coder.limits;
    this.#collected += (body.content ?? body.bytes).length;
    if (this.#collected > maxMessageSize) {
      throw new ProtocolError(
        'message_too_large',
        `the reply is larger than ${maxMessageSize} bytes; use stream() to read it in parts`,
      );
    }
    bodies.push(body);
    this.#host.consume(this.id, body.charge);
  }

  #releaseTaken(): void {
    this.#lastTaken?.release();
    this.#lastTaken = undefined;
  }

  #finish(): void {
    this.#isOver = true;
    for (const reservation of this.#reservations ?? []) reservation.release();
    this.#reservations = undefined;
    // A reader that has read all parts may never call next() again.
    if (this.#inbox?.size === 0) this.#releaseTaken();
    this.#onOver?.();
  }

  #settle(
    whole: { resolve: (message: Message) => void; reject: (error: unknown) => void },
    bodies: ReceivedBody[],
  ): void {
    try {
      const joined = { ...joinBodies(bodies, this.#host.coder), metadata: this.#encodedMetadata };
      whole.resolve(new ReceivedMessage(joined, this.#host.coder));
    } catch (error) {
      whole.reject(error);
    }
  }
}

/**
 * Joins bodies into one, whose size is limited like that of a message. It holds token IDs if all bodies do.
 */
function joinBodies(bodies: readonly ReceivedBody[], coder: BodyCoder): ReceivedBody {
  const areTokens = bodies.length > 0 && bodies.every((body) => body.codec === BodyCodec.TOKEN_NATIVE);
  const { maxMessageSize } = coder.limits;
  let length = 0;
  const decode = (body: ReceivedBody): Uint8Array => {
    const bytes = coder.decode(body);
    countText(body, bytes.length);
    length += bytes.length;
    if (length <= maxMessageSize) return bytes;
    throw new ProtocolError(
      'decompressed_too_large',
      `the reply expands to more than ${maxMessageSize} bytes; use stream() to read it in parts`,
    );
  };
  return {
    codec: areTokens ? BodyCodec.TOKEN_NATIVE : BodyCodec.PLAIN,
    bytes: concatBytes(bodies.map((body) => (areTokens ? body.bytes : decode(body)))),
    originalLength: undefined,
    secret: bodies.some((body) => body.secret),
    count: bodies[0]?.count,
    metadata: undefined,
    charge: 0,
  };
}

showAs(StreamReply, 'Reply', replyFields);
workAsTheyAre(StreamReply);
