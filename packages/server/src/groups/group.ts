import type { Algorithm, Body, ProtocolError } from '@parlance/protocol';
import type { ServerSession } from '../session/served-session.js';

export interface GroupSendOptions<Data = unknown> {
  /**
   * The codec of the message. `CONTEXT` codes it for each member against what that has been sent before, which takes as
   * long as sending it to each.
   *
   * @default 'auto': the smallest result of the codecs of each member, without context
   */
  readonly algorithm?: Algorithm | 'CONTEXT' | 'auto' | undefined;
  /** See `SendOptions.compressAlone`. @default false */
  readonly compressAlone?: boolean | undefined;
  /** A member that gets nothing, such as the one whose message is passed on. @default none */
  readonly except?: ServerSession<Data> | undefined;
}

/** The outcome of a message to a group. */
export interface GroupSent<Data = unknown> {
  /** Members at this node for whom it is queued. It reaches them unless their sessions are lost. */
  readonly queued: number;
  /** How often it was coded here: once for members with the same codecs and vocabulary. */
  readonly coded: number;
  /**
   * Members at this node for whom it is not queued, and why: `over_budget` if too much waits for the member already; errors of
   * `Session.send`.
   */
  readonly refused: readonly { readonly session: ServerSession<Data>; readonly error: ProtocolError }[];
  /** Its outcome at other nodes; `undefined` if the server is alone. */
  readonly elsewhere?: GroupSentElsewhere | undefined;
}

export interface GroupSentElsewhere {
  /** Nodes for whose members it is queued. A member without room for it is left out there, and counted by that node. */
  readonly nodes: number;
  /** Nodes for which it is not queued, and why: `over_budget` if too much waits for the node already. */
  readonly unreached: readonly { readonly node: string; readonly error: ProtocolError }[];
}

export interface GroupAddOptions {
  /**
   * Data that the member shows to those who watch the group, as JSON of at most 1,024 bytes; `null` for none. Adding a
   * member again replaces it.
   *
   * @default the data that it has shown before; none
   */
  readonly data?: unknown;
}

export interface MembersOptions {
  /** Members of a page, at most 1,000. @default 100 */
  readonly limit?: number | undefined;
  /** Where the page begins: `next` of the one before. @default the first one */
  readonly after?: string | undefined;
}

/** A member of a group, at any node. */
export interface Member {
  /** Of its session. */
  readonly id: string;
  /** The node that has the session; this one if there are no others. */
  readonly node: string;
  /** `undefined` without `authenticate`. */
  readonly principal: string | undefined;
  /** `suspended`: it has no connection. */
  readonly state: 'joined' | 'suspended';
  /** See {@link GroupAddOptions.data}; `undefined` for none. */
  readonly data: unknown;
}

export interface MembersPage {
  readonly members: readonly Member[];
  /** `undefined` if there are no more. The last page is empty if members have left meanwhile. */
  readonly next: string | undefined;
}

/** A principal that has sessions in a group. */
export interface Presence {
  readonly principal: string;
  /** `suspended`: none of its sessions there has a connection. */
  readonly state: 'joined' | 'suspended';
  /** Of the session that has shown something last. */
  readonly data: unknown;
}

/** `left`: it has no session in the group any more. */
export interface PresenceChange extends Omit<Presence, 'state'> {
  readonly state: 'joined' | 'suspended' | 'left';
}

/**
 * Sessions that are sent the same messages, at all nodes that know each other. `size`, `has` and iteration concern those of
 * this node.
 *
 * @typeParam Data of `session.data`.
 */
export interface Group<Data = unknown> extends Iterable<ServerSession<Data>> {
  readonly name: string;
  /** The number of members at this node. */
  readonly size: number;
  has(session: ServerSession<Data>): boolean;
  /**
   * Adds a session of this node. It is a member until {@link delete}, or until it ends, also at the node where it
   * continues.
   *
   * @returns `false` if this server does not have it (any more).
   * @throws {ProtocolError} `invalid_argument` if it is not a session of a server, or the data is not JSON; `message_too_large` for
   * its size; `forbidden` if `authorize` refuses it; `over_budget` for the bounds of `groups()`.
   */
  add(session: ServerSession<Data>, options?: GroupAddOptions): boolean;
  /** @returns `false` if it was not a member. */
  delete(session: ServerSession<Data>): boolean;
  /**
   * Sends every member a one-way message, and waits for none. A member for which 256 KiB are waiting, or 32 KiB beside
   * 4 MiB of other data, is left out, and so is a node for which 16 MiB are waiting. Resolves when the message is queued, which is at
   * once unless it is long.
   *
   * @throws {ProtocolError} `invalid_argument` for a body that cannot be sent, `invalid_option`.
   */
  send(body: Body, options?: GroupSendOptions<Data>): Promise<GroupSent<Data>>;
  /**
   * Members at all nodes, in pages that are read one after the other. One that moves meanwhile may be missing or come twice.
   *
   * @throws {ProtocolError} `invalid_option`; `timeout` if a node has not answered within 5 s; `draining` if the server closes.
   */
  members(options?: MembersOptions): Promise<MembersPage>;
  /**
   * Who is in the group, at all nodes: first all principals that are known, perhaps none, and then what changes, collected for 200 ms.
   * A principal that goes from node to node, or comes back within that time, has not changed. Ends when `signal` aborts.
   * Sessions without a principal are not seen.
   */
  presence(options?: {
    readonly signal?: AbortSignal | undefined;
  }): AsyncIterableIterator<readonly PresenceChange[]>;
}
