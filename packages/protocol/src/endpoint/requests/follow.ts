import { SELF, workAsTheyAre } from '../../base/as-they-are.js';
import { Extension } from '../../base/constants.js';
import { showAs } from '../../base/shown.js';
import type { Negotiated } from '../../control/agreement.js';
import type { Message } from '../messages/message.js';
import type { Metadata } from '../messages/metadata.js';
import type { ReplyStream } from './reply.js';
import { replyFields } from './reply-fields.js';

/** Following replies that the server keeps, as a client sees it. */

export interface FollowOptions {
  /**
   * The number of the part after which to begin: `position` of the reply when it was last read.
   *
   * @default 0: from the first part
   */
  readonly after?: number | undefined;
  /** Stops following; the iteration throws the reason of the signal, or `cancelled` with it as `cause` if it is no `Error`. */
  readonly signal?: AbortSignal | undefined;
}

/**
 * A kept reply, from any part on. Leaving its loop, `unfollow()` and the end of the session stop the following and not
 * the handler.
 *
 * @typeParam Json as of {@link ReplyStream}.
 */
export interface FollowedReply<Json = unknown> extends Omit<ReplyStream<Json>, 'cancel'> {
  /** Ends the iteration. The handler continues. A second call has no effect. */
  unfollow(): void;
  /**
   * Stops the handler. Every reader then gets the error `cancelled` after the parts that were written.
   *
   * @throws {ProtocolError} `unknown_reply` if the server has no such reply, or does not let this principal stop it; the
   * errors of `Session.request`.
   */
  stop(): Promise<void>;
}

/** A kept reply as `Session.replies` lists it. */
export interface ReplyInfo {
  readonly id: string;
  /** The name that its owner gave it; others do not see it. */
  readonly name: string | undefined;
  /** This principal owns the reply. */
  readonly isOwn: boolean;
  readonly state: 'running' | 'complete' | 'failed';
  /** Parts so far. */
  readonly parts: number;
  /** Unix milliseconds, by the server's clock. */
  readonly startedAt: number;
  /** When the server will have forgotten it; `undefined` while it runs. Unix milliseconds. */
  readonly expiresAt: number | undefined;
}

/** The two ends have agreed on kept replies. */
export const canFollow = ({ extensions }: Negotiated): boolean => extensions[Extension.REPLIES] !== undefined;

declare module '../session.js' {
  interface Session {
    /**
     * Client: follows a reply that the server keeps, from any part: while it is written, and until some time after its
     * end. Returns at once; parts that are not written yet are waited for. Leaving the loop does not stop the handler.
     *
     * @param reply the ID of a reply, or the name that this principal gave it.
     * @throws {ProtocolError} `unsupported` if the server keeps no replies; `invalid_argument`. From the iteration:
     * `unknown_reply` if the reply does not exist or this principal may not follow it; otherwise the error that ended the reply.
     */
    follow<Json = unknown>(reply: string, options?: FollowOptions): FollowedReply<Json>;
    /**
     * Client: lists the kept replies that this principal may follow, newest first.
     *
     * @throws {ProtocolError} `unsupported` if the server keeps no replies; errors of {@link request}.
     */
    replies(): Promise<readonly ReplyInfo[]>;
  }
}

/** How a request to the address `@replies` names a reply. */
export type ReplyTarget = { readonly id: string } | { readonly name: string };

export function replyTarget(idOrName: string): ReplyTarget {
  return idOrName.startsWith('reply_') ? { id: idOrName } : { name: idOrName };
}

/** The reply to a request that follows another. */
export class Following implements FollowedReply {
  readonly [SELF] = this;
  readonly #reply: ReplyStream;
  readonly #after: number;
  readonly stop: () => Promise<void>;

  constructor(reply: ReplyStream, after: number, stop: () => Promise<void>) {
    this.#reply = reply;
    this.#after = after;
    this.stop = stop;
  }

  get id(): number {
    return this.#reply.id;
  }
  get metadata(): Metadata {
    return this.#reply.metadata;
  }
  get keptId(): string | undefined {
    return this.#reply.keptId;
  }
  get position(): number {
    // The reply learns where it began with its first part.
    return Math.max(this.#after, this.#reply.position);
  }

  unfollow(): void {
    this.#reply.cancel();
  }

  [Symbol.asyncIterator](): AsyncIterator<Message> {
    return this.#reply[Symbol.asyncIterator]();
  }
}

showAs(Following, 'Reply', replyFields);
workAsTheyAre(Following);
