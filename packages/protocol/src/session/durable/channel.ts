import { Extension } from '../../base/constants.js';
import { ProtocolError } from '../../base/errors.js';
import type { Fields } from '../../base/fields.js';
import type { Have, RebuiltLink } from '../../control/messages.js';
import { readHave } from '../../control/rebuilt.js';
import { encodeFailure } from '../../link/failure.js';
import { LinkKind, type OutgoingBody } from '../../link/frame.js';
import { Link, type LinkEvent } from '../../link/link.js';
import { linkOptionsOf } from '../channel.js';
import { COMPLETE, RecordingChannel } from './recording-channel.js';
import { continuationOf, type DurableStream, newStream } from './streams.js';
import { type DurableRecord, decodeRecordedBody } from './turn.js';

/** Server: the channel of a session that is on record, and that another process may go on with. */
export class DurableChannel extends RecordingChannel {
  /** Goes on with what another process had. A client can only resume this with what it has. */
  restore({ handled, state, said, messages, streams, isBehind = false }: DurableRecord): void {
    this.state = state;
    this.isBehind = isBehind;
    this.handled = this.recorded = this.received = handled;
    this.said = this.told = said;
    this.isRestored = true;
    this.size = state?.length ?? 0;
    this.confirmed = said - messages.length;
    for (const { body } of messages) {
      this.sizes.push(body.length);
      this.size += body.length;
    }
    const { limits, negotiated } = this.options;
    const hasContext = negotiated.extensions[Extension.CONTEXT] !== undefined;
    const bounds = { hasContext, maxMetadataSize: limits.maxMetadataSize };
    for (const { body } of messages) this.link.send(decodeRecordedBody(body, { ...bounds, streamId: 0 }));
    for (const [streamId, { attempt, isRepeatable, parts, end }] of streams) {
      const size = parts.reduce((sum, part) => sum + part.length, 0);
      this.size += size;
      const former = parts.map((part) => decodeRecordedBody(part, { ...bounds, streamId }));
      this.streams.set(streamId, {
        ...newStream(),
        attempt,
        isRepeatable,
        parts: former.length,
        former,
        end,
        size,
      });
    }
  }

  canGoOnFrom(stated: Fields): boolean {
    let have: Have;
    try {
      have = readHave(stated);
    } catch {
      return false;
    }
    const { streams, written, messages } = have;
    const { maxStreams } = linkOptionsOf(this.options).own;
    const isKnown = written <= this.handled + MAX_FORGOTTEN && messages <= this.said + MAX_FORGOTTEN;
    return isKnown && streams.length <= maxStreams && written >= this.handled;
  }

  /**
   * Goes on over a new connection with a new link, body by body: both ends write what the other lacks. Nothing of this
   * is to be written before it is on record; see {@link isHeldBack}.
   */
  goOnFrom(stated: Fields): RebuiltLink {
    const have = readHave(stated);
    const former = this.link.parts.streams;
    const messages = this.outbox.rebuild();
    const continuation = continuationOf(this.streams, have, this.options.tellsBeside === true);
    if (continuation.isBehind || have.messages > this.said || have.sent > this.handled) this.#setBehind(true);
    const { adopted, forgotten, cancelled, over, interrupted, again } = continuation;
    const local = Math.max(former.last.local, have.heard);
    const remote = Math.max(former.last.remote, have.opened);
    const link = new Link({ ...linkOptionsOf(this.options), last: { local, remote } });
    for (const stream of former.all()) if (stream.local) this.session.emit(lostStream(stream.id));
    this.link = link;
    link.parts.streams.adopt(adopted, again);
    this.held.clear();
    this.skip = 0;
    link.acknowledgeUpTo(0, 0);
    this.isRestored = true;
    this.#goOnWithMessages(have, messages.filter((body) => 'kind' in body) as OutgoingBody[]);
    this.#goOnWithStreams(have, { forgotten, cancelled, over, interrupted });
    return { stream: remote, cancelled: [], kept: { handled: this.handled, again } };
  }

  handleBehindTold(): void {
    if (this.isBehind) this.#setBehind(false);
  }

  /** On record, as an ACCEPT may be lost together with its process. */
  #setBehind(isBehind: boolean): void {
    this.isBehind = isBehind;
    this.recorder.behind(isBehind);
  }

  #goOnWithMessages({ messages, sent, written }: Have, told: readonly OutgoingBody[]): void {
    this.said = Math.max(this.said, messages);
    this.told = Math.max(this.told, messages);
    this.confirmedBefore = messages;
    this.forgetMessages(messages);
    for (const body of told.slice(Math.max(0, told.length - (this.told - messages))))
      this.link.send(body.uncoded ?? body);
    // What the client has had acknowledged is handled, even if the engine has forgotten that.
    if (sent > this.handled) {
      this.handled = this.recorded = sent;
      this.recorder.handled(sent);
    }
    this.received = this.handled;
    this.redelivered = Math.max(this.redelivered, written);
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
      this.link.end(id);
    }
    for (const id of [...fates.over, ...fates.interrupted]) this.#tellRest(id);
  }

  /** The parts that the client lacks, and how the reply ended. */
  #tellRest(streamId: number): void {
    const { former, told, end } = this.streams.get(streamId) as DurableStream;
    for (const part of former.slice(told)) {
      if (part.kind === LinkKind.RESPONSE) return this.link.respond(streamId, part);
      this.link.chunk(streamId, part);
    }
    if (end === undefined || end.length === 0) this.link.end(streamId);
    else this.link.failWith(streamId, end);
  }
}

/** Messages that an engine may have forgotten: counts of a client have to stay exact. */
const MAX_FORGOTTEN = 2 ** 20;

function interruptedError(parts: number): ProtocolError {
  return new ProtocolError('interrupted', `the server that answered died after ${parts} parts`);
}

const lostStream = (streamId: number): LinkEvent => ({
  type: 'failure',
  streamId,
  error: new ProtocolError('interrupted', 'the session goes on in another process'),
});
