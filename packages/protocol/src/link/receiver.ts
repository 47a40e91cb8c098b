import { ProtocolError, type RequestError } from '../base/errors.js';
import { BodyCodec, type CodedBody, type ReceivedBody } from '../codec/body.js';
import type { AliasReader } from './addressing.js';
import type { LinkContext } from './context-coding.js';
import { BODY_CHARGE, type ReceiveCredit } from './credit.js';
import { type LinkFrame, LinkKind } from './frame.js';
import type { RateLimiter } from './rates.js';
import { type Assembler, type BodyPiece, unpinned } from './reassembly.js';
import type { StreamParts } from './stream-closer.js';

/** The meaning of one or more link frames. */
export type LinkEvent =
  | {
      readonly type: 'message';
      readonly body: ReceivedBody;
      /** In a recorded session: its number in the session. */
      readonly number?: number;
      /** In a recorded session: a process that died may have handled it without recording that. */
      readonly redelivered?: boolean;
    }
  | {
      readonly type: 'request';
      readonly streamId: number;
      readonly body: ReceivedBody;
      /** In a recorded session: how often its handler has been called, this call included. @default 1 */
      readonly attempt?: number;
      /** In a recorded session: the parts that former calls of the handler yielded. @default none */
      readonly yielded?: readonly CodedBody[];
      /** In a recorded session: the ID under which its reply was kept. @default it was not */
      readonly kept?: string | undefined;
    }
  /** A part of a tensor: a request that is handed on as it arrives. */
  | { readonly type: 'piece'; readonly streamId: number; readonly piece: BodyPiece }
  | { readonly type: 'part'; readonly streamId: number; readonly body: ReceivedBody }
  | { readonly type: 'response'; readonly streamId: number; readonly body: ReceivedBody }
  | { readonly type: 'end'; readonly streamId: number }
  | { readonly type: 'failure'; readonly streamId: number; readonly error: ProtocolError | RequestError }
  /** With the reason why this end stops a request of the peer; without one if the peer cancelled it. */
  | { readonly type: 'cancel'; readonly streamId: number; readonly reason?: ProtocolError };

export interface ReceiverOptions extends Pick<StreamParts, 'assembler' | 'receiveCredit' | 'context'> {
  readonly gate: RateLimiter | undefined;
  readonly aliases: AliasReader | undefined;
}

/** Turns the peer's counted frames outside streams into events, and charges and assembles all bodies. */
export class Receiver {
  readonly #gate: RateLimiter | undefined;
  readonly #assembler: Assembler;
  readonly #credit: ReceiveCredit;
  readonly #context: LinkContext | undefined;
  /** Set if addressing was negotiated. */
  readonly aliases: AliasReader | undefined;

  constructor(options: ReceiverOptions) {
    this.#gate = options.gate;
    this.#assembler = options.assembler;
    this.#credit = options.receiveCredit;
    this.#context = options.context;
    this.aliases = options.aliases;
  }

  /**
   * @param frame a message or an alias.
   * @throws {ProtocolError} on any violation; the session ends then.
   */
  handle(frame: LinkFrame, now: number): LinkEvent | undefined {
    return frame.kind === LinkKind.ALIAS ? this.#handleAlias(frame) : this.#handleMessage(frame, now);
  }

  #handleMessage(frame: LinkFrame, now: number): LinkEvent | undefined {
    if (frame.streamId !== 0) throw new ProtocolError('bad_frame', 'one-way messages travel on stream 0');
    assertNoTensor(frame);
    if (!this.#assembler.isPending(0)) this.#gate?.handleMessage(now);
    const body = this.take(frame);
    return body && { type: 'message', body };
  }

  /** The number takes the place of the stream ID. */
  #handleAlias({ streamId: alias, rest }: LinkFrame): undefined {
    if (this.aliases === undefined) throw new ProtocolError('bad_frame', 'addressing was not negotiated');
    this.aliases.handleAlias(alias, rest);
  }

  /** Charges a frame of a body. Returns the body once it is complete. */
  take(frame: LinkFrame): ReceivedBody | undefined {
    const { streamId, rest } = frame;
    const isFirst = !this.#assembler.isPending(streamId);
    const charge = rest.length + (isFirst ? BODY_CHARGE : 0);
    const added = this.#assembler.add(frame);
    this.#credit.receive(streamId, charge, this.#assembler.missing(streamId));
    // A view costs nothing if it is read at once; unread, a message of one byte would pin a buffer of 64 KiB.
    const body = added !== undefined && this.#credit.unread > MAX_PINNED ? withoutViews(added) : added;
    return frame.codec === BodyCodec.CONTEXT ? this.#takeInContext(frame, isFirst, body) : body;
  }

  #takeInContext(
    frame: LinkFrame,
    isFirst: boolean,
    body: ReceivedBody | undefined,
  ): ReceivedBody | undefined {
    const { kind, streamId } = frame;
    if (this.#context === undefined) {
      throw new ProtocolError('bad_frame', 'a body in context, which was not negotiated');
    }
    if (isFirst) {
      this.#context.receiveFirst(frame, body?.bytes ?? this.#assembler.firstBytes(streamId) ?? NOTHING);
    }
    if (body === undefined) return undefined;
    const decoded = this.#context.receive(body, streamId, kind === LinkKind.CHUNK);
    this.#credit.overdraw(streamId, decoded.charge - body.charge);
    return decoded;
  }
}

/** @throws {ProtocolError} `bad_frame`. */
export function assertNoTensor({ codec }: LinkFrame): void {
  if (codec === BodyCodec.AVP) throw new ProtocolError('bad_frame', 'tensors travel as requests');
}

const NOTHING = new Uint8Array(0);

/** Unread charges up to which bodies may be views of the buffers that they were received in. */
const MAX_PINNED = 16 * 1024;

function withoutViews(body: ReceivedBody): ReceivedBody {
  const bytes = unpinned(body.bytes);
  return bytes === body.bytes
    ? body
    : { ...body, bytes, metadata: body.metadata && new Uint8Array(body.metadata) };
}
