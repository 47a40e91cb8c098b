import { BodyCodec, ProtocolError, type SessionEvent, type StreamedTensor } from '@parlance/protocol';
import {
  type AvpHead,
  type BodyEvent,
  type EventRoute,
  guard,
  type PartText,
  ReceivedMessage,
  type Reservation,
  TensorMessage,
  TransferReader,
  toProtocolError,
} from '@parlance/protocol/internal';
import type { ServerEndpoint } from '../session/endpoint.js';
import type { Scanner } from './scan.js';

type PieceEvent = Extract<SessionEvent, { type: 'piece' }>;
type ReplyEvent = Extract<SessionEvent, { type: 'part' | 'response' | 'end' | 'failure' }>;

/** A tensor whose pieces wait, without credit, for the scan of its head. */
interface HeldTensor {
  readonly reader: TransferReader;
  readonly pieces: PieceEvent[];
  isAsked: boolean;
}

/** A reply of which some parts were scanned. */
interface HeldReply {
  /** Decodes token parts, as a character may be split between two of them. */
  partText: PartText | undefined;
  /** Resolves when everything of the stream so far was passed on. */
  last: Promise<void>;
}

/** Scans what passes from one session to others, in front of its route. */
export class RelayScan implements EventRoute {
  readonly #route: EventRoute;
  readonly #scanner: Scanner;
  readonly #endpoint: ServerEndpoint;
  #tensors: Map<number, HeldTensor> | undefined;
  #replies: Map<number, HeldReply> | undefined;

  constructor(route: EventRoute, scanner: Scanner, endpoint: ServerEndpoint) {
    this.#route = route;
    this.#scanner = scanner;
    this.#endpoint = endpoint;
  }

  isRelayed(streamId: number): boolean {
    if (this.#tensors?.has(streamId)) return true;
    const isRelayed = this.#route.isRelayed(streamId);
    // The session that asked is over.
    if (!isRelayed) this.#replies?.delete(streamId);
    return isRelayed;
  }

  memoryOf(event: BodyEvent): number | undefined {
    const size = this.#route.memoryOf(event);
    // The scan decodes the body, even if it passes unchanged.
    return size === undefined ? size : Math.max(size, this.#endpoint.coder.memoryOf(event.body));
  }

  handleRebuilt(confirmed: number): void {
    this.#route.handleRebuilt(confirmed);
  }

  refuse(streamId: number, error: ProtocolError): boolean {
    this.#replies?.delete(streamId);
    return this.#route.refuse(streamId, error);
  }

  take(event: SessionEvent, reservation: Reservation | undefined): boolean {
    switch (event.type) {
      case 'message':
      case 'request': {
        const message = new ReceivedMessage(event.body, this.#endpoint.coder);
        const pass = () => void this.#route.take(event, reservation);
        if (event.type === 'message') this.#scanner.takeMessage(message, pass);
        else this.#scanner.takeRequest(message, pass);
        return true;
      }
      case 'piece':
        return this.#takePiece(event);
      case 'part':
      case 'response':
      case 'end':
      case 'failure':
        this.#takeReply(event, reservation);
        return true;
      case 'cancel':
        // The link has answered the sender.
        return this.#tensors?.delete(event.streamId) === true || this.#route.take(event, reservation);
      default:
        return false;
    }
  }

  /** Scans the parts of a reply in order. Those that wait use up credit, and the end of the reply waits as well. */
  #takeReply(event: ReplyEvent, reservation: Reservation | undefined): void {
    const { streamId } = event;
    let held = this.#replies?.get(streamId);
    const isLast = event.type !== 'part';
    if (isLast) this.#replies?.delete(streamId);
    const pass = () => {
      if (this.#route.take(event, reservation) || !('body' in event)) return;
      // The session that asked ended meanwhile.
      reservation?.release();
      this.#endpoint.tell((core) => core.channel.consume(streamId, event.body.charge));
    };
    if (!('body' in event) || event.body.bytes.length === 0) {
      if (held === undefined) pass();
      else held.last = held.last.then(() => guard(this.#endpoint, pass));
      return;
    }
    const { body } = event;
    const { coder } = this.#endpoint;
    held ??= { partText: undefined, last: Promise.resolve() };
    if (!isLast) {
      this.#replies ??= new Map();
      this.#replies.set(streamId, held);
      if (body.codec === BodyCodec.TOKEN_NATIVE) held.partText ??= coder.createPartText();
    }
    const { partText, last } = held;
    held.last = this.#scanner.takeBehind(last, () => new ReceivedMessage(body, coder, partText), pass);
  }

  /** A tensor that passes is never in memory as a whole, so only its head is scanned. */
  #takePiece(event: PieceEvent): boolean {
    const { streamId, piece } = event;
    if (piece.address !== undefined) {
      this.#tensors ??= new Map();
      this.#tensors.set(streamId, {
        reader: new TransferReader(piece.totalLength),
        pieces: [],
        isAsked: false,
      });
    }
    const held = this.#tensors?.get(streamId);
    if (held === undefined) return this.#route.take(event, undefined);
    held.pieces.push(event);
    if (!held.isAsked) this.#readHead(streamId, held, event);
    return true;
  }

  #readHead(streamId: number, held: HeldTensor, { piece }: PieceEvent): void {
    try {
      held.reader.push(piece.bytes);
      const { head } = held.reader;
      if (head !== undefined) this.#scanHead(streamId, held, head);
      else if (piece.offset + piece.bytes.length === piece.totalLength)
        throw new ProtocolError('truncated', 'the transfer ends before the head of its frame');
    } catch (error) {
      this.#tensors?.delete(streamId);
      const reason = toProtocolError(error, 'internal', 'the tensor could not be read');
      this.#endpoint.tell((core) => core.channel.refuse(streamId, reason));
    }
  }

  #scanHead(streamId: number, held: HeldTensor, head: AvpHead): void {
    held.isAsked = true;
    const message = new TensorMessage({
      tensor: outlineOf(head),
      from: held.pieces[0]?.piece.address,
      codedLength: head.headLength + head.bodyLength,
    });
    this.#scanner.takeRequest(message, () => {
      if (this.#tensors?.get(streamId) !== held) return;
      this.#tensors.delete(streamId);
      for (const event of held.pieces) this.#route.take(event, undefined);
    });
  }
}

/** A tensor as the scan of its head sees it. */
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
