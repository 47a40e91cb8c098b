import { equalBytes } from '../../base/bytes.js';
import { Extension } from '../../base/constants.js';
import { ProtocolError } from '../../base/errors.js';
import type { Fields } from '../../base/fields.js';
import { type Have, MAX_CANCELLED, type RebuiltLink } from '../../control/messages.js';
import { readHave } from '../../control/rebuilt.js';
import { encodeFailure } from '../../link/failure.js';
import { LinkKind, type OutgoingBody } from '../../link/frame.js';
import { Link, type LinkEvent } from '../../link/link.js';
import { linkOptionsOf } from '../channel.js';
import type { ChannelOptions } from '../channel-options.js';
import type { ChannelHost } from '../closed-channel.js';
import type { DurableSession } from '../durable-session.js';
import { Rebuilding } from '../rebuilding.js';
import { type DurableRecord, decodeRecordedBody } from './record.js';
import { COMPLETE, RecordingChannel } from './recording-channel.js';
import { continuationOf, type DurableStream, newStream } from './streams.js';

/** Server: the channel of a session that is recorded, and that another process may continue. */
export class DurableChannel extends RecordingChannel implements DurableSession {
  /** The bytes that parts of the server keep, by their names. */
  #saved: Map<string, Uint8Array> | undefined;
  /** Former pages have written the messages of the client up to this one. */
  #ofFormerPages = 0;
  protected override readonly rebuilding: Rebuilding;
  isTakenUp = false;

  constructor(session: ChannelHost, options: ChannelOptions) {
    super(session, options);
    this.rebuilding = new Rebuilding(linkOptionsOf(options));
  }

  /** Continues from the record of another process. A client can only resume this if it states what it has. */
  restore({
    handled,
    open,
    heard,
    state,
    saved,
    said,
    messages,
    streams,
    isBehind = false,
    ofFormerPages = 0,
  }: DurableRecord): void {
    this.#ofFormerPages = ofFormerPages;
    this.state = state;
    this.isBehind = isBehind;
    this.heard = heard;
    this.messages.restore(handled, open);
    this.said = this.told = said;
    this.isRestored = true;
    this.size.add(state?.length ?? 0);
    if (saved.size > 0) this.#saved = new Map(saved);
    for (const value of saved.values()) this.size.add(value.length);
    this.confirmed = said - messages.length;
    for (const { body } of messages) {
      this.size.addMessage(body.length);
      this.size.add(body.length);
    }
    const { limits, negotiated } = this.options;
    const hasContext = negotiated.extensions[Extension.CONTEXT] !== undefined;
    const bounds = { hasContext, maxMetadataSize: limits.maxMetadataSize };
    for (const { body } of messages) this.link.send(decodeRecordedBody(body, { ...bounds, streamId: 0 }));
    for (const [streamId, { attempt, isRepeatable, kept, parts, end }] of streams) {
      const size = parts.reduce((sum, part) => sum + part.length, 0);
      this.size.add(size);
      const former = parts.map((part) => decodeRecordedBody(part, { ...bounds, streamId }));
      this.streams.set(streamId, {
        ...newStream(),
        attempt,
        isRepeatable,
        kept,
        parts: former.length,
        former,
        end,
        size,
      });
    }
  }

  save(name: string, value: Uint8Array): void {
    const former = this.#saved?.get(name);
    if (equalBytes(former ?? NOTHING, value)) return;
    this.size.charge(value.length - (former?.length ?? 0));
    this.#saved ??= new Map();
    this.#saved.set(name, value);
    this.recorder.saved(name, value);
  }

  canGoOnFrom(stated: Fields, isReloaded: boolean): boolean {
    let have: Have;
    try {
      have = readHave(stated);
    } catch {
      return false;
    }
    const { streams, written, messages } = have;
    const { maxStreams } = linkOptionsOf(this.options).own;
    const isKnown =
      written <= this.messages.received + MAX_FORGOTTEN && messages <= this.said + MAX_FORGOTTEN;
    if (!isReloaded) return isKnown && streams.length <= maxStreams && written >= this.handled;
    // Messages that the page before has acknowledged cannot be written again.
    const isExact = messages >= Math.max(this.confirmed, this.confirmedBefore + this.kept.confirmed);
    return isKnown && isExact && streams.length === 0 && this.rebuilding.hasRoom(this.link);
  }

  /**
   * Continues over a new connection with a new link, body by body: both ends write what the other lacks. Nothing of this
   * is to be written before it is recorded; see {@link isHeldBack}.
   *
   * A page that was loaded again has no request. If this process has the session since before, its application continues:
   * it reads what has arrived, and its handlers return when they do.
   */
  goOnFrom(stated: Fields, isReloaded: boolean): RebuiltLink {
    const have = readHave(stated);
    const former = this.link.parts.streams;
    const left = isReloaded ? this.#leave() : [];
    const messages = this.outbox.rebuild();
    const continuation = continuationOf(this.streams, have, this.options.tellsBeside === true);
    // A page that was loaded again lists no requests, and misses none.
    const lacksStreams = !isReloaded && continuation.isBehind;
    // Of messages of former pages, the process before was to handle those that it had.
    const handed = Math.max(this.handled, this.#ofFormerPages);
    if (lacksStreams || have.messages > this.said || have.sent > handed) this.#setBehind(true);
    const { adopted, forgotten, cancelled, over, interrupted, again } = continuation;
    const local = Math.max(former.last.local, have.heard);
    const remote = Math.max(former.last.remote, have.opened, ...this.streams.keys());
    const link = new Link({ ...linkOptionsOf(this.options), last: { local, remote } });
    if (this.rebuilding.isCreditHeld) link.isCreditHeld = true;
    if (!isReloaded)
      for (const stream of former.all()) if (stream.local) this.session.emit(lostStream(stream.id));
    this.link = link;
    link.parts.streams.adopt(adopted, again);
    this.unacknowledged.clear();
    this.skip = 0;
    link.acknowledgement.raise(0, 0);
    this.#tellMessages(have, messages.filter((body) => 'kind' in body) as OutgoingBody[]);
    if (isReloaded) this.#countFrom(have);
    else this.#awaitMessages(have, handed);
    this.#goOnWithStreams(have, { forgotten, cancelled, over, interrupted });
    this.isTakenUp = isReloaded;
    return { stream: remote, cancelled: left, kept: { handled: this.messages.received, again } };
  }

  /** The page of the present link is gone. Returns its requests that are interrupted. */
  #leave(): readonly number[] {
    const { link, starting, streams } = this;
    const isOver = (id: number) => streams.get(id)?.end !== undefined;
    const { events, cancelled } = this.rebuilding.leave(link, isOver);
    for (const event of events) this.session.emit(event);
    for (const id of starting.keys()) starting.set(id, false);
    // Handlers of a former process, which were not called again.
    const lost = [...streams.keys()].filter((id) => !isOver(id) && link.parts.streams.get(id) === undefined);
    return [...cancelled, ...lost].slice(0, MAX_CANCELLED);
  }

  /**
   * The messages of the page are counted behind those of former pages: messages that these have written and this
   * process has not got are gone with them, and their numbers are not used again.
   */
  #countFrom({ written }: Have): void {
    if (this.isRestored) return this.#warnOf(this.messages.skipTo(written));
    const { received } = this.messages;
    if (received <= this.handled) return;
    this.#ofFormerPages = received;
    this.recorder.ofFormerPages(received);
  }

  #warnOf(lost: number): void {
    if (lost <= 0) return;
    const message = `${lost} messages of a page before are not recorded as handled, and will not arrive`;
    this.session.emit({ type: 'warning', message });
  }

  handleBehindTold(): void {
    if (this.isBehind) this.#setBehind(false);
  }

  /** Recorded, as an ACCEPT may be lost together with its process. */
  #setBehind(isBehind: boolean): void {
    this.isBehind = isBehind;
    this.recorder.behind(isBehind);
  }

  #tellMessages({ messages }: Have, told: readonly OutgoingBody[]): void {
    this.said = Math.max(this.said, messages);
    this.told = Math.max(this.told, messages);
    this.confirmedBefore = messages;
    this.forgetMessages(messages);
    for (const body of told.slice(Math.max(0, told.length - (this.told - messages))))
      this.link.send(body.uncoded ?? body);
  }

  /** The client writes again what is not handled. */
  #awaitMessages({ sent, written }: Have, handed: number): void {
    this.isRestored = true;
    this.#warnOf(Math.min(sent, handed) - this.handled);
    this.messages.awaitAgain(sent, written);
  }

  #goOnWithStreams(
    have: Have,
    fates: Readonly<Record<'forgotten' | 'cancelled' | 'over' | 'interrupted', readonly number[]>>,
  ): void {
    const held = new Map(have.streams.map(({ id, parts }) => [id, parts]));
    for (const [id, stream] of this.streams) {
      stream.told = held.get(id) ?? 0;
      stream.endFrame = undefined;
    }
    for (const id of fates.forgotten) this.forgetStream(id);
    for (const id of fates.interrupted) {
      const stream = this.streams.get(id) ?? newStream();
      this.streams.set(id, stream);
      this.recordEnd(id, stream, encodeFailure(interruptedError(stream.parts)));
    }
    for (const id of fates.cancelled) {
      const stream = this.streams.get(id);
      if (stream !== undefined && stream.end === undefined) this.recordEnd(id, stream, COMPLETE);
      this.link.streams.end(id);
    }
    for (const id of [...fates.over, ...fates.interrupted]) this.#tellRest(id);
  }

  override handleLinkFrame(bytes: Uint8Array, now: number): LinkEvent | undefined {
    this.isTakenUp = false;
    return super.handleLinkFrame(bytes, now);
  }

  /** The parts that the client lacks, and how the reply ended. */
  #tellRest(streamId: number): void {
    const { former, told, end } = this.streams.get(streamId) as DurableStream;
    for (const part of former.slice(told)) {
      if (part.kind === LinkKind.RESPONSE) return this.link.streams.respond(streamId, part);
      this.link.streams.chunk(streamId, part);
    }
    if (end === undefined || end.length === 0) this.link.streams.end(streamId);
    else this.link.streams.failWith(streamId, end);
  }
}

const NOTHING = new Uint8Array(0);
/** Messages that an engine may have forgotten: counts of a client have to stay exact. */
const MAX_FORGOTTEN = 2 ** 20;

function interruptedError(parts: number): ProtocolError {
  return new ProtocolError('interrupted', `the server that answered died after ${parts} parts`);
}

const lostStream = (streamId: number): LinkEvent => ({
  type: 'failure',
  streamId,
  error: new ProtocolError('interrupted', 'the session continues in another process'),
});
