import type { GroupMessage } from './delivery.js';
import type { GroupSentElsewhere, Member } from './group.js';
import type { PresenceSource } from './presence-feed.js';
import type { Sequence } from './received-marks.js';

/** A message that was numbered, and queued for other nodes. */
export interface SaidElsewhere {
  /** `undefined` if it is too large for other nodes. */
  readonly sequence: Sequence | undefined;
  readonly elsewhere: GroupSentElsewhere;
}

/** A question for missing messages. */
export interface Question {
  /** The node that has said it. */
  readonly sender: string;
  readonly name: string;
  /** The last message that is known; 0 for none. */
  readonly mark: number;
  /** Without a mark: how long the member has been one, in milliseconds. */
  readonly ageMs: number;
}

/** The groups of all nodes, as those of one node reach them. */
export interface GroupNodes {
  /** Nodes whose messages there may be, this one included. */
  readonly senders: Iterable<string>;
  /** Gives a message its place, and sends it to the nodes that have members. */
  say(name: string, message: GroupMessage): SaidElsewhere;
  /** A member has heard a node elsewhere: it is forgotten when it is gone, also if it was before. */
  know(node: string): void;
  /** Asks for what is missing, in a later microtask, in one with equal questions. @returns the number of the question. */
  ask(question: Question): number;
  /** The group has its first member here, or none any more. */
  handleFirst(name: string): void;
  handleLast(name: string): void;
  /** Members of other nodes whose IDs, after the names of their nodes, come after a place. @throws {ProtocolError} `timeout`. */
  members(name: string, after: string | undefined, limit: number): Promise<MembersFound>;
  /** Presence at other nodes. */
  readonly presence: PresenceSource;
}

export interface MembersFound {
  readonly members: readonly Member[];
  readonly next: string | undefined;
}
