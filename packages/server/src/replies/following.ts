import { type CodedBody, type Limits, ProtocolError, type RequestContext } from '@parlance/protocol';
import { CodedPart, countable, decodeMetadata, encodeKept } from '@parlance/protocol/internal';
import type { ReplyEntry } from '../engine/logs/reply.js';
import type { Slot } from '../server/features/slot.js';
import type { ServerEndpoint } from '../session/endpoint.js';
import { Changes } from './changes.js';
import type { Follow, FollowState, Follows } from './follows.js';
import type { ReplyLog } from './log.js';
import type { Owners } from './owners.js';
import { failureOf, heldBytes, type RecordCoders, ReplyReader } from './reader.js';
import type { Recording } from './recording.js';

export interface FollowingParts {
  readonly limits: Limits;
  readonly coders: RecordCoders;
  /** The record of a reply whose handler runs here. */
  readonly recordingOf: (id: string) => Recording | undefined;
  readonly follows: Slot<Follows, ServerEndpoint>;
  readonly owners: Pick<Owners, 'of'>;
  readonly log: ReplyLog;
}

/** Reads kept replies for sessions that may see them. */
export class Following {
  readonly #parts: FollowingParts;

  constructor(parts: FollowingParts) {
    this.#parts = parts;
  }

  /** The parts that are recorded now, for the session of the requester. */
  async *present(
    reply: ReplyEntry,
    session: ServerEndpoint,
    after: number,
  ): AsyncGenerator<Iterable<CodedBody>> {
    const coder = this.#parts.coders.for(reply.encoding);
    const { log } = this.#parts;
    const own = { read: (id: string, next: number) => log.readOwn(id, next) };
    const reader = this.#readerOf(reply, session, await heldBytes(own, reply, after, coder));
    for (let next = after; ; ) {
      const pieces = await log.readOwn(reply.id, next);
      if (pieces === undefined) throw unknownReply();
      if (pieces.records.length === 0) return;
      next += pieces.records.length;
      yield reader.all(pieces.records);
    }
  }

  /**
   * The parts of a reply from a part on, and those to come.
   *
   * @param after parts that the session has already.
   */
  async *begin(
    session: ServerEndpoint,
    reply: ReplyEntry,
    { stream, after }: { readonly stream: number; readonly after: number },
    context: RequestContext,
  ): AsyncGenerator<CodedPart> {
    const follow = this.#parts.follows
      .of(session)
      .begin({ stream, id: reply.id, next: after, isTold: false });
    try {
      yield* this.#read(session, reply, follow, context);
    } finally {
      follow.end();
    }
  }

  /** Continues from the part at which another node stopped. */
  async *goOn(
    session: ServerEndpoint,
    state: FollowState,
    context: RequestContext,
  ): AsyncGenerator<CodedPart> {
    const follow = this.#parts.follows.of(session).begin(state);
    try {
      const reply = await this.#parts.log.find({ id: state.id });
      if (reply === undefined) throw unknownReply();
      yield* this.#read(session, reply, follow, context);
    } finally {
      follow.end();
    }
  }

  #readerOf(reply: ReplyEntry, session: ServerEndpoint, held: Uint8Array | undefined): ReplyReader {
    const { coders, owners } = this.#parts;
    // Each connection without authentication has a principal of its own, and a page that was loaded again has the owner of the one before.
    const isOwn = owners.of(session) === reply.owner;
    return new ReplyReader(reply, coders.for(reply.encoding), session, isOwn, held);
  }

  async *#read(
    session: ServerEndpoint,
    reply: ReplyEntry,
    follow: Follow,
    { signal, setMetadata }: RequestContext,
  ): AsyncGenerator<CodedPart> {
    const { limits, coders, recordingOf, log } = this.#parts;
    const after = follow.next;
    const coder = coders.for(reply.encoding);
    const news = new Changes((onChange) => log.watch(reply.id, onChange), signal);
    const recording = recordingOf(reply.id);
    if (recording !== undefined) recording.followers++;
    try {
      await reach(log, reply.id, after, news, signal);
      if (signal.aborted) return;
      let pieces = await log.read(reply.id, after);
      const held = await heldBytes(log, reply, after, coder);
      const reader = this.#readerOf(reply, session, held);
      if (!follow.isTold) {
        const kept = { id: reply.id, after, held: reader.sharesTokens ? held : undefined };
        if (!(await follow.mayGoOn(signal))) return;
        follow.isTold = true;
        // Apart from the reply's own metadata, which may be as large as metadata can be.
        yield new CodedPart(session.coder.encodeNothing(encodeKept(kept)));
      }
      if (pieces?.metadata !== undefined && !follow.hasParts)
        setMetadata(decodeMetadata(pieces.metadata, limits.maxJsonDepth));
      while (!signal.aborted) {
        if (pieces === undefined) throw gone();
        // Nothing is coded for a session that is held.
        if (!(await follow.mayGoOn(signal))) return;
        for (const body of reader.all(pieces.records)) {
          const bodies = countable(body, session.coder);
          for (const each of bodies) {
            // Nothing is awaited between here and the session.
            if (each === bodies.at(-1)) follow.advance();
            yield new CodedPart(each);
            if (!(await follow.mayGoOn(signal))) return;
          }
        }
        if (pieces.end !== undefined) {
          const { failure, metadata } = pieces.end;
          if (failure !== undefined) throw failureOf(failure, limits);
          if (metadata !== undefined) setMetadata(decodeMetadata(metadata, limits.maxJsonDepth));
          return;
        }
        if (pieces.records.length === 0) await news.next();
        pieces = await log.read(reply.id, follow.next, true);
      }
    } finally {
      news.stop();
      if (recording !== undefined) recording.followers--;
    }
  }
}

function gone(): ProtocolError {
  return new ProtocolError('gone', 'the server no longer has the reply');
}

export function unknownReply(): ProtocolError {
  return new ProtocolError('unknown_reply', 'there is no such reply, or it is not yours to follow');
}

/** Waits until a reply has `count` parts, or has ended: what comes before decides how the next part is read. */
async function reach(
  log: ReplyLog,
  id: string,
  count: number,
  news: Changes,
  signal: AbortSignal,
): Promise<void> {
  while (count > 0 && !signal.aborted) {
    const reply = await log.find({ id });
    if (reply === undefined) throw gone();
    if (reply.parts >= count || reply.end !== undefined) return;
    await news.next();
  }
}
