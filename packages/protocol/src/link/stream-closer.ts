import type { LinkContext } from './context-coding.js';
import type { ReceiveCredit, SendCredit } from './credit.js';
import { encodeSignalFrame, LinkKind, type OutgoingBody } from './frame.js';
import type { Outbox } from './outbox.js';
import type { Assembler } from './reassembly.js';
import type { OpenStream, StreamTable } from './streams.js';

/** Everything that holds state of a stream. */
export interface StreamParts {
  readonly streams: StreamTable;
  readonly outbox: Outbox;
  readonly assembler: Assembler;
  readonly sendCredit: SendCredit;
  readonly receiveCredit: ReceiveCredit;
  readonly context: LinkContext | undefined;
}

/**
 * Ends streams, in every way in which one can end: this end or the peer answers it, fails it or cancels it.
 * Queues the frame that tells the peer, and makes everything that holds state of the stream forget it.
 */
export class StreamCloser {
  /** CLOSE was sent: this class queues no counted frame on its own account any more. */
  isStopped = false;
  readonly #streams: StreamTable;
  readonly #outbox: Outbox;
  readonly #assembler: Assembler;
  readonly #sendCredit: SendCredit;
  readonly #receiveCredit: ReceiveCredit;
  readonly #context: LinkContext | undefined;

  constructor({ streams, outbox, assembler, sendCredit, receiveCredit, context }: StreamParts) {
    this.#streams = streams;
    this.#outbox = outbox;
    this.#assembler = assembler;
    this.#sendCredit = sendCredit;
    this.#receiveCredit = receiveCredit;
    this.#context = context;
  }

  /** Answers with a single body. A cancelled stream gets END instead. */
  respondWith(body: OutgoingBody): void {
    const { streamId } = body;
    const stream = this.#streams.answerable(streamId);
    if (stream === undefined) return;
    if (stream.cancelled) this.#pushEnd(streamId);
    else this.#outbox.pushBody(body);
    this.#finishAnswered(stream);
  }

  /** Ends an answer in parts. */
  end(streamId: number): void {
    if (this.#streams.answerable(streamId) === undefined) return;
    this.#pushEnd(streamId);
    this.finish(streamId);
  }

  /** Answers with an error. A cancelled stream gets END instead. @param failure body of the error frame. */
  failWith(streamId: number, failure: Uint8Array): void {
    const stream = this.#streams.answerable(streamId);
    if (stream === undefined) return;
    if (stream.cancelled) this.#pushEnd(streamId);
    else this.#pushError(streamId, failure);
    this.#finishAnswered(stream);
  }

  /** Cancels a stream of this end. Returns `true` if it is over at once, as the peer never learned of it. */
  cancel(streamId: number): boolean {
    const stream = this.#streams.get(streamId);
    if (stream === undefined || !stream.local || stream.cancelled) return false;
    if (!this.#outbox.drop(streamId)) {
      this.finish(streamId);
      return true;
    }
    stream.cancelled = true;
    this.#pushCancel(streamId);
    return false;
  }

  /** The peer cancels a stream that it opened. Returns whether the application is to stop answering. */
  handleCancel(streamId: number): boolean {
    const stream = this.#streams.get(streamId);
    if (stream?.cancelled) return false;
    const wasQueued = this.#outbox.has(streamId);
    if (wasQueued) this.#outbox.drop(streamId);
    // No handler runs for a tensor, so this end answers at once, even before the application accepts it.
    if (stream?.isTransfer) {
      const wasRefused = stream.answered;
      this.finish(streamId);
      // A refused tensor was answered already, unless the answer has just been dropped.
      if (!wasRefused || wasQueued) this.#answerCancel(streamId);
      return !wasRefused;
    }
    if (stream !== undefined && !this.#assembler.isPending(streamId)) {
      stream.cancelled = true;
      return true;
    }
    // No handler runs: either the request is incomplete, or the handler has finished and its answer was still
    // queued. So this end answers.
    if (stream !== undefined || wasQueued) {
      this.#context?.receiveCancel(streamId);
      this.finish(streamId);
      this.#answerCancel(streamId);
    }
    return false;
  }

  /** Everything queued on a stream is written. */
  handleDrained(streamId: number): void {
    if (this.#streams.get(streamId) !== undefined) return;
    this.#sendCredit.forget(streamId);
    this.#streams.release(streamId);
  }

  /** Forgets a stream. Its queued frames are still written if the peer opened it. */
  finish(streamId: number): void {
    const unfinished = this.#assembler.drop(streamId);
    if (this.#streams.get(streamId)?.relayed) this.#receiveCredit.closeUnread(streamId, unfinished);
    else this.#receiveCredit.close(streamId);
    const isLocal = this.#streams.isLocal(streamId);
    // The peer answered before it had the whole request, so it does not want the rest.
    if (isLocal && this.#outbox.has(streamId) && this.#outbox.drop(streamId)) this.#pushCancel(streamId);
    const isWritten = !this.#outbox.has(streamId);
    if (isWritten || isLocal) this.#streams.close(streamId);
    else this.#streams.closeUnwritten(streamId);
    if (isWritten) this.#sendCredit.forget(streamId);
  }

  /** A tensor that is still arriving keeps its stream until it is complete or cancelled. */
  #finishAnswered(stream: OpenStream): void {
    if (stream.isTransfer && this.#assembler.isPending(stream.id)) stream.answered = true;
    else this.finish(stream.id);
  }

  #answerCancel(streamId: number): void {
    if (!this.isStopped) this.#pushEnd(streamId);
  }

  /** Written right after the frames that were dropped would have been: no other body comes in between. */
  #pushCancel(streamId: number): void {
    this.#context?.handleDropped(streamId);
    this.#outbox.pushSignal(encodeSignalFrame(LinkKind.CANCEL, streamId));
  }

  #pushEnd(streamId: number): void {
    this.#outbox.pushAfter(streamId, encodeSignalFrame(LinkKind.END, streamId));
  }

  #pushError(streamId: number, failure: Uint8Array): void {
    this.#outbox.pushAfter(streamId, encodeSignalFrame(LinkKind.ERROR, streamId, failure));
  }
}
