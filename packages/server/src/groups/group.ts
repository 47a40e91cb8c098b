import type { Algorithm, Body, ProtocolError } from '@parlance/protocol';
import type { ServerSession } from '../served-session.js';

export interface GroupSendOptions<Data = unknown> {
  /**
   * The codec of the message. `CONTEXT` codes it for each member against what that has been sent before, which takes as
   * long as sending it to each.
   *
   * @default 'auto': the smallest result of the codecs of each member, without context
   */
  readonly algorithm?: Algorithm | 'CONTEXT' | 'auto' | undefined;
  /** See `SendOptions.secret`. @default false */
  readonly secret?: boolean | undefined;
  /** A member that gets nothing, such as the one whose message is passed on. @default none */
  readonly except?: ServerSession<Data> | undefined;
}

/** What has become of a message to a group. */
export interface GroupSent<Data = unknown> {
  /** Members for whom it is queued. It reaches them unless their sessions are lost. */
  readonly queued: number;
  /** How often it was coded: once for members with the same codecs and vocabulary. */
  readonly coded: number;
  /**
   * Members for whom it is not queued, and why: `over_budget` if too much waits for the member already; errors of
   * `Session.send`.
   */
  readonly refused: readonly { readonly session: ServerSession<Data>; readonly error: ProtocolError }[];
}

/**
 * Sessions of this server that are sent the same messages. Each node has groups of its own: `size`, iteration
 * and `send` concern the sessions of this node. What is for all nodes is announced by a message bus of the application, and
 * each node sends it to its own group.
 *
 * @typeParam Data of `session.data`.
 */
export interface Group<Data = unknown> extends Iterable<ServerSession<Data>> {
  readonly name: string;
  /** The number of members. */
  readonly size: number;
  has(session: ServerSession<Data>): boolean;
  /**
   * Adds a session. It is a member until {@link delete}, or until it ends or goes to another node.
   *
   * @returns `false` if this server does not have it (any more).
   * @throws {ProtocolError} `invalid_argument` if it is not a session of a server.
   */
  add(session: ServerSession<Data>): boolean;
  /** @returns `false` if it was not a member. */
  delete(session: ServerSession<Data>): boolean;
  /**
   * Sends every member a one-way message, and waits for none. A member for which 256 KiB are waiting, or 32 KiB beside
   * 4 MiB of other data, is left out. Resolves when the message is queued, which is at once unless it is long.
   *
   * @throws {ProtocolError} `invalid_argument` for a body that cannot be sent, `invalid_option`.
   */
  send(body: Body, options?: GroupSendOptions<Data>): Promise<GroupSent<Data>>;
}
