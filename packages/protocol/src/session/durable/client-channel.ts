import { ProtocolError } from '../../base/errors.js';
import type { Fields } from '../../base/fields.js';
import type { Have } from '../../control/messages.js';
import { haveFields, readHave, readKept } from '../../control/rebuilt.js';
import { LinkKind, type OutgoingBody } from '../../link/frame.js';
import { KeptMessages } from '../../link/kept-messages.js';
import { type BodyToSend, Link, type LinkEvent } from '../../link/link.js';
import type { OpenStream } from '../../link/streams.js';
import { LinkChannel, linkOptionsOf } from '../channel.js';
import type { ChannelOptions, TakenUpBodies } from '../channel-options.js';
import type { ChannelHost } from '../closed-channel.js';

/** A request without its end. */
interface OpenRequest {
  readonly body: BodyToSend;
  /** The number of its last frame; `undefined` if that is not written on the present link. */
  frame: number | undefined;
  /** Acknowledged on a former link. */
  isAcknowledged: boolean;
  /** Parts that were received whole. */
  parts: number;
}

/**
 * Client: the channel of a session that its server records. It keeps unacknowledged messages as bodies, and its requests
 * until they are answered, so that it can write them again to a process that has nothing of the link.
 */
export class DurableClientChannel extends LinkChannel {
  readonly #options: ChannelOptions;
  readonly #kept = new KeptMessages();
  readonly #requests = new Map<number, OpenRequest>();
  /** Messages that were sent; those that the present link has not seen, as they were acknowledged before. */
  #sent = 0;
  #acknowledgedBefore = 0;
  /** Messages that were written to their end on former links. */
  #writtenBefore = 0;
  #messages = 0;
  /** The statement of the last HELLO; the application continues while that HELLO is under way. */
  #stated: Have | undefined;
  /** Charges that were received on former links and that the application has not consumed, by stream. */
  readonly #unread = new Map<number, number>();

  constructor(session: ChannelHost, options: ChannelOptions) {
    super(session, options);
    this.#options = options;
    this.outbox.keepMessages(this.#kept);
    if (options.takenUp !== undefined) this.#takeUp(options.takenUp);
  }

  /** @throws {ProtocolError} `bad_acceptance` if the server has less than the page before had acknowledged. */
  #takeUp({ have, kept }: TakenUpBodies): void {
    const { messages, sent } = readHave(have);
    const { handled, again } = readKept(kept);
    if (handled < sent || again.length > 0)
      throw new ProtocolError('bad_acceptance', 'ACCEPT continues with bodies that no former page left');
    this.#messages = messages;
    this.#sent = this.#acknowledgedBefore = this.#writtenBefore = handled;
  }

  override get unreadBytes(): number {
    return super.unreadBytes + this.#unreadBefore;
  }

  stateHave(): Fields {
    this.#stated = this.#have;
    return haveFields(this.#stated);
  }

  get left(): Fields {
    return haveFields({ ...this.#counts, streams: [] });
  }

  get #counts(): Omit<Have, 'streams'> {
    const { local, remote } = this.link.parts.streams.last;
    const sent = this.#acknowledgedBefore + this.#kept.confirmed;
    const written = Math.max(this.#writtenBefore, sent + this.#kept.size);
    return { messages: this.#messages, sent, written, opened: local, heard: remote };
  }

  get #have(): Have {
    const { link } = this;
    const streams = [...this.#requests].map(([id, request]) => ({
      id,
      parts: request.parts,
      isAcknowledged: this.#isAcknowledged(request),
      isCancelled: link.parts.streams.get(id)?.cancelled === true,
    }));
    return { ...this.#counts, streams };
  }

  // --- sending

  override send(body: BodyToSend): void {
    super.send(body);
    this.#sent++;
  }

  override withdraw(onDropped: () => void): boolean {
    const isWithdrawn = super.withdraw(onDropped);
    if (isWithdrawn) this.#sent--;
    return isWithdrawn;
  }

  override request(body: BodyToSend): number {
    const request: OpenRequest = { body, frame: undefined, isAcknowledged: false, parts: 0 };
    const streamId = super.request(this.#noticed(request));
    this.#requests.set(streamId, request);
    return streamId;
  }

  override cancel(streamId: number): void {
    super.cancel(streamId);
    if (this.link.parts.streams.get(streamId) === undefined) this.#requests.delete(streamId);
  }

  /** A body that says when it is written. */
  #noticed(request: OpenRequest): BodyToSend {
    return {
      ...request.body,
      onWritten: (frame) => {
        request.frame = frame;
        request.body.onWritten?.(frame);
      },
    };
  }

  #isAcknowledged({ frame, isAcknowledged }: OpenRequest): boolean {
    return isAcknowledged || (frame !== undefined && frame <= this.framesConfirmed);
  }

  // --- receiving

  override handleLinkFrame(frame: Uint8Array, now: number): LinkEvent | undefined {
    const event = super.handleLinkFrame(frame, now);
    switch (event?.type) {
      case 'message':
        this.#messages++;
        break;
      case 'part': {
        const request = this.#requests.get(event.streamId);
        if (request !== undefined) request.parts++;
        break;
      }
      case 'response':
      case 'end':
      case 'failure':
        this.#requests.delete(event.streamId);
    }
    return event;
  }

  override consume(streamId: number, charge: number): boolean {
    const before = this.#unread.get(streamId);
    if (before === undefined) return super.consume(streamId, charge);
    const former = Math.min(before, charge);
    if (before > former) this.#unread.set(streamId, before - former);
    else this.#unread.delete(streamId);
    return super.consume(streamId, charge - former);
  }

  get #unreadBefore(): number {
    let sum = 0;
    for (const charge of this.#unread.values()) sum += charge;
    return sum;
  }

  // --- another process

  goOnWith(kept: Fields): void {
    const { handled, again } = readKept(kept);
    const { sent, written } = this.#have;
    const former = this.link;
    const { streams } = former.parts;
    const stated = this.#stated;
    if (stated === undefined || handled < sent || handled > written)
      throw new ProtocolError('bad_acceptance', 'ACCEPT continues with bodies that were not sent');
    this.#keepUnread(former);
    for (const request of this.#requests.values()) {
      request.isAcknowledged = this.#isAcknowledged(request);
      request.frame = undefined;
    }
    const repeated = new Set(again);
    // Those that were opened since are written for the first time.
    for (const id of this.#requests.keys()) if (id > stated.opened) repeated.add(id);
    const ends = new Map([...streams.all()].map((stream) => [stream, this.#endOf(stream, repeated)]));
    const open = [...streams.all()].filter((stream) => ends.get(stream) === undefined);
    const messages = this.outbox.rebuild().filter((body) => 'kind' in body && body.kind === LinkKind.MESSAGE);
    this.link = new Link({ ...linkOptionsOf(this.#options), last: streams.last });
    this.link.parts.streams.adopt(open);
    this.#acknowledgedBefore = handled;
    this.#writtenBefore = written;
    const waiting = messages.slice(Math.max(0, messages.length - (this.#sent - handled))) as OutgoingBody[];
    for (const body of waiting) this.outbox.pushBody(body.uncoded ?? body);
    for (const { id } of open) if (repeated.has(id)) this.#repeat(id);
    for (const { id } of stated.streams) if (this.#isCancelled(id)) this.link.streams.repeatCancel(id);
    for (const [{ id }, event] of ends) {
      if (event === undefined) continue;
      this.#requests.delete(id);
      this.session.emit(event);
    }
  }

  /** The application wants no answer any more; the server may not know that. */
  #isCancelled(streamId: number): boolean {
    const stream = this.link.parts.streams.get(streamId);
    return stream === undefined || stream.cancelled;
  }

  /** How a stream ends that does not continue with the new link; `undefined` if it does. */
  #endOf(stream: OpenStream, again: ReadonlySet<number>): LinkEvent | undefined {
    const { id: streamId, local, cancelled } = stream;
    const error = new ProtocolError('interrupted', 'the session continues in another process', {
      side: 'remote',
    });
    if (!local) return { type: 'cancel', streamId, reason: error };
    // A tensor under way.
    if (!this.#requests.has(streamId)) return { type: 'failure', streamId, error };
    return cancelled && again.has(streamId) ? { type: 'end', streamId } : undefined;
  }

  /** In the order of streams, as a request may not overtake another. */
  #repeat(streamId: number): void {
    const request = this.#requests.get(streamId) as OpenRequest;
    request.isAcknowledged = false;
    this.link.streams.repeat(streamId, this.#noticed(request));
  }

  /** @throws {ProtocolError} `window_exceeded` if the application does not read while processes come and go. */
  #keepUnread({ parts: { assembler, receiveCredit, streams } }: Link): void {
    const ids = [0, ...[...streams.all()].map(({ id }) => id)];
    for (const id of ids) {
      const unread = receiveCredit.unreadOn(id) - assembler.unfinishedOn(id);
      if (unread > 0) this.#unread.set(id, (this.#unread.get(id) ?? 0) + unread);
    }
    const { sessionWindow } = this.#options.limits;
    if (this.#unreadBefore > MAX_UNREAD_WINDOWS * sessionWindow) {
      throw new ProtocolError(
        'window_exceeded',
        `more than ${MAX_UNREAD_WINDOWS} windows of ${sessionWindow} bytes are unread from processes before`,
      );
    }
  }
}

/** Each process may send a window, and an application that reads takes some time. */
const MAX_UNREAD_WINDOWS = 4;
