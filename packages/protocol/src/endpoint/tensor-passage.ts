import { ProtocolError, toProtocolError } from '../base/errors.js';
import type { AvpHead } from '../codec/avp/head.js';
import { TransferReader } from '../codec/avp/transfer.js';
import type { SessionEvent } from '../session/types.js';
import { TensorMessage } from './tensors/message.js';
import type { StreamedTensor } from './tensors/tensor.js';

type PieceEvent = Extract<SessionEvent, { type: 'piece' }>;

export interface TensorPassageOptions {
  /** Looks at a message, and calls `pass` where it may go on. */
  readonly scan: (message: TensorMessage, pass: () => void) => void;
  readonly pass: (event: PieceEvent) => void;
  readonly refuse: (streamId: number, error: ProtocolError) => void;
}

interface Held {
  readonly reader: TransferReader;
  readonly pieces: PieceEvent[];
  isAsked: boolean;
}

/**
 * Tensors that a server passes on are never there as a whole, so a scan looks at their head: their pieces
 * wait for its verdict, without credit.
 */
export class TensorPassage {
  readonly #options: TensorPassageOptions;
  readonly #held = new Map<number, Held>();

  constructor(options: TensorPassageOptions) {
    this.#options = options;
  }

  /** Takes every piece of a tensor for somebody else. Returns whether this is one, and waits. */
  take(event: PieceEvent): boolean {
    const { streamId, piece } = event;
    if (piece.agent !== undefined) {
      this.#held.set(streamId, { reader: new TransferReader(piece.totalLength), pieces: [], isAsked: false });
    }
    const held = this.#held.get(streamId);
    if (held === undefined) return false;
    held.pieces.push(event);
    if (!held.isAsked) this.#read(streamId, held, event);
    return true;
  }

  /** The sender gives up. */
  forget(streamId: number): void {
    this.#held.delete(streamId);
  }

  #read(streamId: number, held: Held, { piece }: PieceEvent): void {
    try {
      held.reader.push(piece.bytes);
      const { head } = held.reader;
      if (head !== undefined) this.#ask(streamId, held, head);
      else if (piece.offset + piece.bytes.length === piece.totalLength)
        throw new ProtocolError('truncated', 'the transfer ends before the head of its frame');
    } catch (error) {
      this.#held.delete(streamId);
      this.#options.refuse(streamId, toProtocolError(error, 'internal', 'the tensor could not be read'));
    }
  }

  #ask(streamId: number, held: Held, head: AvpHead): void {
    held.isAsked = true;
    const message = new TensorMessage({
      tensor: outlineOf(head),
      from: held.pieces[0]?.piece.agent,
      codedLength: head.headLength + head.bodyLength,
    });
    this.#options.scan(message, () => {
      if (this.#held.get(streamId) !== held) return;
      this.#held.delete(streamId);
      for (const event of held.pieces) this.#options.pass(event);
    });
  }
}

/** What a scan sees of a tensor that passes. */
function outlineOf({ shape, dtype, payloadType, metadata, bodyLength }: AvpHead): StreamedTensor {
  return {
    shape,
    dtype,
    payloadType,
    metadata,
    byteLength: bodyLength,
    chunks: {
      [Symbol.asyncIterator]() {
        throw new ProtocolError('unsupported', 'a tensor that passes through is not read here');
      },
    },
    cancel() {},
  };
}
