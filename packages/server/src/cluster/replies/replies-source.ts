import type { Awaitable, ReplyEntry, ReplyPieces } from '../../replies/log.js';
import type { ProvenOwner } from '../../replies/owners.js';

/** The kept replies of this node, as other nodes read them. */
export interface RepliesSource {
  find(
    target: { readonly id: string } | { readonly owner: string; readonly name: string },
  ): Awaitable<ReplyEntry | undefined>;
  read(id: string, after: number): Awaitable<ReplyPieces | undefined>;
  /** Calls `onChange` after each change. The reply counts as followed until the returned function is called. */
  follow(id: string, onChange: () => void): () => void;
  /** Stops the handler of a reply, if it runs. */
  stop(id: string, principal: string): void;
  list(owner: string): AsyncIterable<ReplyEntry> | Iterable<ReplyEntry>;
  /** The node to which a reply has moved. */
  movedTo(id: string): string | undefined;
  /** The owner that a session without a principal acts for, if the token is one of that session. */
  prove(sessionId: string, token: string): ProvenOwner | undefined;
  /** Another node hands a reply over. @throws {ProtocolError} `draining`. */
  receive(): ReplyArrival;
}

/** A reply that another node hands over. */
export interface ReplyArrival {
  /** Takes what comes next of its bytes. @throws {ProtocolError} the bounds of the log, `bad_message`. */
  push(bytes: Uint8Array): void;
  /** The reply is whole. @throws {ProtocolError} `bad_message`, and if it could not be announced. */
  finish(): Promise<void>;
  /** It will not be whole. */
  abandon(): void;
}
