import type { Reservation } from '@parlance/protocol/internal';
import type { ServerEndpoint } from '../session/endpoint.js';
import { ReceivedMarks } from './received-marks.js';

/** That a session is in a group. */
export interface Membership {
  readonly session: ServerEndpoint;
  readonly group: LocalGroup;
  /** Since when, in Unix milliseconds of the node where it was added. */
  readonly since: number;
  /** The JSON of what it shows of itself. */
  data: string | undefined;
  /** When that was set, in Unix milliseconds. */
  dataAt: number;
  /** Bytes of the name. */
  readonly nameBytes: number;
  /** Its share of the memory of its session. */
  charge: Reservation | undefined;
  /** The marks of its received messages, if they differ from those of the group. */
  received: ReceivedMarks | undefined;
  /** Messages that were taken for it, and are being coded: by sender, how many, and the last one that is queued. */
  coding: Map<string, { count: number; queued: number }> | undefined;
}

/** The members that a group has at this node. It is forgotten without members. */
export class LocalGroup {
  readonly name: string;
  readonly members = new Map<ServerEndpoint, Membership>();
  /** The marks of all members that were here when the messages came. */
  readonly received = new ReceivedMarks(false);
  /** Members with marks of their own. */
  readonly apart = new Set<Membership>();

  constructor(name: string) {
    this.name = name;
  }

  /**
   * The messages that the client of a member will have when all that is queued is written: the last number of each
   * sender.
   */
  marksOf({ received, coding }: Membership): Map<string, number> {
    const marks = new Map((received ?? this.received).marks);
    for (const [sender, { queued }] of coding ?? []) marks.set(sender, queued);
    return marks;
  }

  /** A member hears nothing for now, or was elsewhere before. */
  setApart(
    membership: Membership,
    marks: Iterable<readonly [string, number]> = this.received.marks,
  ): ReceivedMarks {
    const received = membership.received ?? new ReceivedMarks(true, marks);
    membership.received = received;
    this.apart.add(membership);
    return received;
  }

  /** A member that has heard what the others have needs no marks of its own. */
  rejoin(membership: Membership): void {
    const { received, session } = membership;
    if (received === undefined || received.asks.size > 0 || session.isFrozen) return;
    const { marks } = this.received;
    for (const [sender, mark] of marks) if (received.marks.get(sender) !== mark) return;
    for (const [sender, mark] of received.marks) if ((marks.get(sender) ?? mark) !== mark) return;
    for (const [sender, mark] of received.marks) marks.set(sender, mark);
    membership.received = undefined;
    this.apart.delete(membership);
  }

  /** A node is gone, and says nothing any more. */
  forget(sender: string): void {
    this.received.forget(sender);
    for (const membership of this.apart) {
      membership.received?.forget(sender);
      this.rejoin(membership);
    }
  }
}
