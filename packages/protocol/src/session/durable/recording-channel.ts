import type { ProtocolError } from '../../base/errors.js';
import { type BodyToSend, bodyOf } from '../../link/body-to-send.js';
import { encodeFailure, encodeVerdict } from '../../link/failure.js';
import { decodeLinkFrame, isCounted, LinkKind, type OutgoingBody } from '../../link/frame.js';
import { KeptMessages } from '../../link/kept-messages.js';
import type { LinkEvent } from '../../link/link.js';
import type { ChannelOptions } from '../channel-options.js';
import { assertOpen, type ChannelHost } from '../closed-channel.js';
import type { Commit, SessionBegin } from '../durable-session.js';
import type { AcceptedResume } from '../resume-token.js';
import { ServerChannel } from '../server-channel.js';
import { encodeBegin } from './begin.js';
import { ClientMessages } from './client-messages.js';
import { encodeRecordedBody } from './record.js';
import { RecordSize } from './record-size.js';
import { Recorder } from './recorder.js';
import { type DurableStream, newStream } from './streams.js';
import { Unacknowledged } from './unacknowledged.js';

/**
 * Server: the channel of a recorded session. The client gets a message, a part or an end once it is recorded, a handler
 * gets a request once its start is, and a frame is acknowledged once its content is.
 */
export class RecordingChannel extends ServerChannel {
  state: Uint8Array | undefined;
  heard: ReadonlyMap<string, number> = new Map();
  protected readonly options: ChannelOptions;
  protected readonly recorder = new Recorder();
  protected readonly kept = new KeptMessages();
  protected readonly streams = new Map<number, DurableStream>();
  protected readonly messages = new ClientMessages(this.recorder);
  protected readonly unacknowledged = new Unacknowledged();
  /** Requests whose start is not recorded yet; `false` if they were cancelled meanwhile. */
  protected readonly starting = new Map<number, boolean>();
  /** The last message that the link has, and the one before the first that {@link #kept} has seen. */
  protected told = 0;
  protected confirmedBefore = 0;
  protected confirmed = 0;
  protected said = 0;
  #pendingMessages = 0;
  protected readonly size: RecordSize;
  /** Frames that the client writes again because they were not acknowledged. */
  protected skip = 0;
  /** This process has the session from its record, and the client has not written anything since. */
  isRestored = false;
  /** The client has seen effects of commits that the record lacked, and may not know that. */
  isBehind = false;

  constructor(session: ChannelHost, options: ChannelOptions) {
    super(session, options);
    this.options = options;
    this.size = new RecordSize(options.maxRecordSize);
    this.outbox.keepMessages(this.kept);
    this.link.acknowledgement.raise(0, 0);
  }

  override get unreadBytes(): number {
    return super.unreadBytes + this.recorder.bytes;
  }

  // --- what the session core asks for

  /** Nothing is written before an ACCEPT is recorded. */
  get isHeldBack(): boolean {
    return this.recorder.hasAccept;
  }

  get hasUntold(): boolean {
    return !this.recorder.isIdle;
  }

  /** Counted frames that may be acknowledged. */
  get durableFrames(): number {
    return this.unacknowledged.acknowledgeable(this.framesReceived);
  }

  begin(begin: SessionBegin): void {
    this.recorder.begin(encodeBegin(begin));
  }

  recordAccept(accept: AcceptedResume): void {
    this.recorder.accept(accept);
  }

  /** The client closes: it waits for an acknowledgement of everything, and needs no other process. */
  override acknowledge(): void {
    this.unacknowledged.clear();
    this.link.acknowledgement.raise(Infinity, 0);
    super.acknowledge();
  }

  override resume(received: number): void {
    this.skip = this.framesReceived - this.durableFrames;
    super.resume(received);
  }

  // --- the record

  whenDue(wake: () => void): void {
    this.recorder.whenDue(wake);
  }

  pollCommit(takesAll = false): Commit | undefined {
    return this.recorder.poll(takesAll);
  }

  handleCommitted(now: number): void {
    for (const then of this.recorder.handleCommitted()) then();
    this.#acknowledgeRecorded(now);
  }

  get handled(): number {
    return this.messages.handled;
  }

  handle(number: number): void {
    this.messages.handle(number);
  }

  isOpen(number: number): boolean {
    return this.messages.isOpen(number);
  }

  settle(number: number): void {
    this.messages.settle(number);
  }

  hear(sender: string, mark: number): void {
    this.recorder.heard(sender, mark);
  }

  setState(state: Uint8Array): void {
    this.size.charge(this.#growth(state));
    this.#replaceState(state);
  }

  #growth(state: Uint8Array): number {
    return state.length - (this.state?.length ?? 0);
  }

  #replaceState(state: Uint8Array): void {
    this.state = state;
    this.recorder.state(state);
  }

  commit(handled: number, state: Uint8Array | undefined, bodies: readonly BodyToSend[]): void {
    assertOpen(this.session);
    let growth = state === undefined ? 0 : this.#growth(state);
    const coded = bodies.map((body) => {
      this.rules.assertMessage(body);
      const bytes = encodeRecordedBody(bodyOf(LinkKind.MESSAGE, 0, body));
      growth += bytes.length;
      return bytes;
    });
    this.size.charge(growth);
    if (state !== undefined) this.#replaceState(state);
    bodies.forEach((body, i) => {
      this.#say(body, coded[i] as Uint8Array);
    });
    this.handle(handled);
  }

  repeat(streamId: number): void {
    const stream = this.streams.get(streamId);
    if (stream === undefined || stream.isRepeatable || stream.end !== undefined) return;
    stream.isRepeatable = true;
    this.recorder.repeatable(streamId, stream.parts);
  }

  keep(streamId: number, id: string): void {
    const stream = this.#openOf(streamId);
    if (stream === undefined) return;
    stream.kept = id;
    this.recorder.kept(streamId, id, stream.parts);
  }

  afterCommit(then: () => void): void {
    this.recorder.after(then);
  }

  // --- sending

  override send(body: BodyToSend): void {
    this.commit(0, undefined, [body]);
  }

  /** @param bytes the body in its recorded form. */
  #say(body: BodyToSend, bytes: Uint8Array): void {
    const { length } = body.bytes;
    this.size.addMessage(bytes.length);
    const number = ++this.said;
    this.#pendingMessages += length;
    this.recorder.message(number, bytes);
    this.recorder.after(() => {
      this.#pendingMessages -= length;
      this.told = number;
      if (!this.session.hasEnded) this.link.send(body);
    });
  }

  override chunk(streamId: number, body: BodyToSend): void {
    const stream = this.streams.get(streamId);
    if (stream?.end !== undefined) return body.onDropped?.();
    if (stream === undefined || !this.session.isOpen || !this.isWanted(streamId))
      return super.chunk(streamId, body);
    this.session.touch();
    this.rules.assertBody(body);
    this.#recordPart(streamId, stream, bodyOf(LinkKind.CHUNK, streamId, body));
    if (this.options.tellsBeside && !stream.isRepeatable) super.chunk(streamId, body);
    else this.recorder.after(() => super.chunk(streamId, body));
  }

  override respond(streamId: number, body: BodyToSend): void {
    // Neither a tensor nor the answer to it is recorded.
    if (!this.streams.has(streamId)) return super.respond(streamId, body);
    const stream = this.#openOf(streamId);
    if (stream === undefined || !this.session.isOpen || !this.isWanted(streamId)) {
      body.onDropped?.();
      return this.end(streamId);
    }
    this.session.touch();
    this.rules.assertBody(body);
    this.#recordPart(streamId, stream, bodyOf(LinkKind.RESPONSE, streamId, body));
    this.recordEnd(streamId, stream, COMPLETE);
    this.recorder.after(() => super.respond(streamId, body));
  }

  override end(streamId: number): void {
    this.#end(streamId, COMPLETE, () => super.end(streamId));
  }

  override fail(streamId: number, error: unknown): void {
    this.#end(streamId, encodeFailure(error), () => super.fail(streamId, error));
  }

  override refuse(streamId: number, error: ProtocolError): void {
    this.#end(streamId, encodeVerdict(error), () => super.refuse(streamId, error));
  }

  /**
   * Only the first end of a reply counts. While it waits for the record, a second one must not be told before it.
   *
   * @param failure the recorded form of the failure. @param tell has no effect on a stream whose end was told.
   */
  #end(streamId: number, failure: Uint8Array, tell: () => void): void {
    const stream = this.streams.get(streamId);
    // A tensor is not recorded.
    if (stream === undefined) return tell();
    if (stream.end === undefined && this.session.isOpen) this.recordEnd(streamId, stream, failure);
    this.recorder.after(tell);
  }

  override queuedOn(streamId: number): number {
    const pending = streamId === 0 ? this.#pendingMessages : (this.streams.get(streamId)?.pending ?? 0);
    return super.queuedOn(streamId) + pending;
  }

  override memoryOf(streamId: number): number {
    return super.memoryOf(streamId) + (this.streams.get(streamId)?.pending ?? 0);
  }

  /** A recorded message is always told. */
  override withdraw(): boolean {
    return false;
  }

  #openOf(streamId: number): DurableStream | undefined {
    const stream = this.streams.get(streamId);
    return stream?.end === undefined ? stream : undefined;
  }

  #recordPart(streamId: number, stream: DurableStream, body: OutgoingBody): void {
    const bytes = encodeRecordedBody(body);
    this.size.charge(bytes.length);
    stream.size += bytes.length;
    stream.pending += bytes.length;
    this.recorder.part(streamId, stream.parts++, bytes);
    this.recorder.after(() => {
      stream.pending -= bytes.length;
    });
  }

  /** The record does not need the messages to the client up to `count`, and the link need not know. */
  protected forgetMessages(count: number): void {
    if (count <= this.confirmed) return;
    this.recorder.confirmed(count);
    while (this.confirmed < count && this.size.dropMessage()) this.confirmed++;
    this.confirmed = count;
  }

  /** The record needs nothing of a stream any more. */
  protected forgetStream(streamId: number): void {
    this.size.add(-(this.streams.get(streamId)?.size ?? 0));
    this.streams.delete(streamId);
    this.recorder.forget(streamId);
  }

  protected recordEnd(streamId: number, stream: DurableStream, failure: Uint8Array): void {
    stream.end = failure;
    this.recorder.end(streamId, failure, stream.parts);
  }

  // --- receiving

  override handleLinkFrame(bytes: Uint8Array, now: number): LinkEvent | undefined {
    this.isRestored = false;
    const kind = ((bytes[0] ?? 0) & 0x0f) as LinkKind;
    if (!isCounted(kind)) {
      super.handleLinkFrame(bytes, now);
      if (kind === LinkKind.ACK) this.#forgetConfirmed();
      return undefined;
    }
    if (this.skip > 0) {
      this.skip--;
      return undefined;
    }
    const event = super.handleLinkFrame(bytes, now);
    if (kind === LinkKind.CANCEL) this.#handleCancel(decodeLinkFrame(bytes).streamId);
    const told = event === undefined ? undefined : this.#handleEvent(event);
    this.#acknowledgeRecorded(now);
    return told;
  }

  #handleEvent(event: LinkEvent): LinkEvent | undefined {
    switch (event.type) {
      case 'message': {
        const { number, isOver, redelivered } = this.messages.take(event.body.address !== undefined);
        this.unacknowledged.add(this.framesReceived, number);
        if (!isOver) return { ...event, number, redelivered };
        this.consume(0, event.body.charge);
        return undefined;
      }
      case 'request':
        return this.#start(event);
      case 'cancel':
        if (!this.starting.has(event.streamId)) return event;
        this.starting.set(event.streamId, false);
        return undefined;
      default:
        return event;
    }
  }

  /** The client does not write the request again that this end waits for. */
  #handleCancel(streamId: number): void {
    const stream = this.streams.get(streamId);
    const isOpen = stream?.end !== undefined || this.link.parts.streams.get(streamId) !== undefined;
    if (stream === undefined || isOpen) return;
    // Soon, as a client that does not name the stream would seem to have received an end that is not recorded.
    this.recordEnd(streamId, stream, COMPLETE);
    this.forgetStream(streamId);
  }

  /** The application gets a request once its start is recorded. */
  #start(event: LinkEvent & { readonly type: 'request' }): undefined {
    const { streamId } = event;
    const stream = this.streams.get(streamId) ?? newStream();
    this.streams.set(streamId, stream);
    const frame = this.unacknowledged.add(this.framesReceived, undefined);
    this.starting.set(streamId, true);
    const { former, told, kept } = stream;
    stream.former = [];
    const attempt = ++stream.attempt;
    this.recorder.start(streamId, attempt, stream.parts);
    this.recorder.after(() => {
      frame.isDurable = true;
      const isWanted = this.starting.get(streamId) === true;
      this.starting.delete(streamId);
      if (!isWanted) return this.end(streamId);
      for (const part of former.slice(told)) super.chunk(streamId, part);
      this.session.emit(
        former.length > 0 || attempt > 1 ? { ...event, attempt, yielded: former, kept } : event,
      );
    });
  }

  #acknowledgeRecorded(now: number): void {
    this.unacknowledged.release((number) => this.messages.isDurable(number));
    if (!this.session.hasEnded) this.link.acknowledgement.raise(this.durableFrames, now);
  }

  /** The client has acknowledged frames: their content need not stay in the record. */
  #forgetConfirmed(): void {
    this.forgetMessages(this.confirmedBefore + this.kept.confirmed);
    for (const [streamId, stream] of this.streams) {
      if (stream.end === undefined || this.outbox.has(streamId) || !this.#isEndTold(streamId)) continue;
      stream.endFrame ??= this.outbox.framesWritten;
      if (this.framesConfirmed < stream.endFrame) continue;
      this.forgetStream(streamId);
    }
  }

  /** The link has closed the stream, so its end is queued or written. */
  #isEndTold(streamId: number): boolean {
    return this.link.parts.streams.get(streamId) === undefined;
  }
}

/** How a reply ends that is complete. */
export const COMPLETE = new Uint8Array(0);
