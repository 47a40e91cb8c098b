import { ProtocolError } from '../base/errors.js';
import { MAX_CANCELLED, type RebuiltLink } from '../control/messages.js';
import { Link, type LinkEvent, type LinkOptions } from '../link/link.js';

/** The link that takes the place of another. */
interface Replacement {
  readonly link: Link;
  /** The ends of all streams of the former link. */
  readonly events: readonly LinkEvent[];
  readonly answer: RebuiltLink;
}

/** The rest of the links before the present one; see {@link Rebuilding}. */
export interface FormerLinks {
  readonly unread: number;
  readonly handled: ReadonlySet<number> | undefined;
}

/**
 * Server: replaces the link of a session for a page that was loaded again and has nothing of the former one. The
 * application continues: it reads messages that arrived before, and its handlers return when they do. Both are bounded,
 * as a page could fill memory otherwise by being loaded again and again.
 */
export class Rebuilding {
  /** Charges of one-way messages of former links that the application has not read. */
  unread = 0;
  isCreditHeld = false;
  readonly #options: LinkOptions;
  /** Requests of former links whose handlers have not returned. */
  #handled: Set<number> | undefined;

  /** @param options those of each link. */
  constructor(options: LinkOptions) {
    this.#options = options;
  }

  /** Its state beside the messages that the outbox keeps. The driver has to say again whether credit is held. */
  snapshot(): FormerLinks {
    return { unread: this.unread, handled: this.#handled };
  }

  restore({ unread, handled }: { readonly unread: number; readonly handled: Set<number> }): void {
    this.unread = unread;
    this.#handled = handled;
  }

  /** See `SessionChannel.canRebuild`. */
  allows(link: Link, received: number): boolean {
    const { framesConfirmed, framesUnconfirmed } = link;
    const isPossible = received >= framesConfirmed && received <= framesConfirmed + framesUnconfirmed;
    return isPossible && this.hasRoom(link);
  }

  /** Former pages have not left too much behind already. */
  hasRoom(link: Link): boolean {
    const { messageWindow, maxStreams } = this.#options.own;
    return this.unread + unreadMessagesOf(link) <= messageWindow && (this.#handled?.size ?? 0) <= maxStreams;
  }

  /** @throws {ProtocolError} `bad_frame` if the peer cannot have received `received` frames of `former`. */
  replace(former: Link, received: number): Replacement {
    former.confirmResumed(received);
    const ends = this.leave(former);
    const { last } = former.parts.streams;
    const { outbox } = this.#options;
    // From their beginning, and coded in no context.
    for (const message of outbox.rebuild()) {
      if ('uncoded' in message) outbox.pushBody(message.uncoded ?? message);
      else if ('kind' in message) outbox.pushBody(message);
    }
    const link = new Link({ ...this.#options, last });
    if (this.isCreditHeld) link.isCreditHeld = true;
    return { link, events: ends.events, answer: { stream: last.remote, cancelled: ends.cancelled } };
  }

  /** A request is answered; its stream may belong to a former link. */
  handleAnswered(streamId: number): void {
    this.#handled?.delete(streamId);
  }

  /**
   * The application has read a message that cost `charge`. Returns the part of it that the present link is due:
   * messages of former links come first.
   */
  consume(charge: number): number {
    const former = Math.min(this.unread, charge);
    this.unread -= former;
    return charge - former;
  }

  /**
   * The page of `former` is gone.
   *
   * @param isAnswered whether the answer to a request is complete that the link does not have yet. @default none
   * @returns the ends of all streams, and the requests that they interrupt.
   */
  leave(
    former: Link,
    isAnswered: (streamId: number) => boolean = () => false,
  ): { readonly events: readonly LinkEvent[]; readonly cancelled: readonly number[] } {
    this.unread += unreadMessagesOf(former);
    const reason = new ProtocolError('interrupted', 'the page at the other end was loaded again');
    const events: LinkEvent[] = [];
    const cancelled: number[] = [];
    const { streams, assembler } = former.parts;
    for (const stream of streams.all()) {
      const { id: streamId } = stream;
      if (isAnswered(streamId)) continue;
      // The request has arrived, and no handler has answered it.
      const isHandled =
        !stream.local && !stream.isTransfer && !stream.answered && !assembler.isPending(streamId);
      if (isHandled) {
        this.#handled ??= new Set();
        this.#handled.add(streamId);
      }
      if (stream.local) events.push({ type: 'failure', streamId, error: reason });
      else if (!stream.cancelled && !stream.answered && stream.runsToCompletion !== true) {
        events.push({ type: 'cancel', streamId, reason });
        if (cancelled.length < MAX_CANCELLED) cancelled.push(streamId);
      }
    }
    return { events, cancelled };
  }
}

/** Charges of the complete one-way messages that the application has not read. */
function unreadMessagesOf({ parts: { receiveCredit, assembler } }: Link): number {
  return receiveCredit.unreadOn(0) - assembler.unfinishedOn(0);
}
