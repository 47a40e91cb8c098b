import { type Logger, ProtocolError } from '@parlance/protocol';
import { toProtocolError } from '@parlance/protocol/internal';
import type { ServerEndpoint } from '../session/endpoint.js';
import type { ServerSession } from '../session/served-session.js';
import { type GroupMessage, SharedCoding } from './delivery.js';
import { enqueue } from './enqueue.js';
import { LocalGroup, type Membership } from './local-group.js';
import type { GroupNodes, Question } from './nodes.js';
import { mayJoin, type ResolvedGroupsOptions } from './options.js';
import { PresenceFeed, type PresenceState } from './presence-feed.js';
import type { ReceivedMarks, Sequence, Verdict } from './received-marks.js';
import { SharedCoders } from './shared-coders.js';
import type { SavedMembership } from './state.js';

/** Memory that a membership takes beside its name and its data. */
const OVERHEAD = 256;

export interface GroupsHost {
  readonly options: ResolvedGroupsOptions;
  readonly logger: Logger;
  /** Unix milliseconds. @default of the process */
  readonly now?: (() => number) | undefined;
  /** A session that has not ended. */
  find(sessionId: string): ServerEndpoint | undefined;
  /** The saved state of the memberships of a session has changed. */
  changed(session: ServerEndpoint): void;
  /** By name, of one session. */
  membershipsOf(session: ServerEndpoint): Map<string, Membership>;
  peekMemberships(session: ServerEndpoint): ReadonlyMap<string, Membership> | undefined;
}

/** The outcome of a message at this node. */
export interface Delivered {
  queued: number;
  coded: number;
  readonly refused: { readonly session: ServerSession; readonly error: ProtocolError }[];
}

/** The groups of a server. One without members takes no memory. */
export class Groups {
  readonly #host: GroupsHost;
  readonly #local = new Map<string, LocalGroup>();
  readonly #coders = new SharedCoders();
  readonly feed: PresenceFeed;
  /** `undefined` if this server is alone. */
  nodes: GroupNodes | undefined;
  /** Sessions that listen for their state. */
  readonly #listening = new WeakSet<ServerEndpoint>();
  /** How often messages were not given to a member here, because they were not kept for so long. */
  missed = 0;
  /** Messages for which members here had no room. */
  refused = 0;

  /** @param feed tells who is there. */
  constructor(host: GroupsHost, feed = new PresenceFeed()) {
    this.#host = host;
    this.feed = feed;
  }

  #now(): number {
    return (this.#host.now ?? Date.now)();
  }

  get local(): ReadonlyMap<string, LocalGroup> {
    return this.#local;
  }

  memberIn(name: string, session: ServerEndpoint): Membership | undefined {
    return this.#local.get(name)?.members.get(session);
  }

  // --- who is in

  /** @throws {ProtocolError} `forbidden`, `over_budget`. */
  add(name: string, session: ServerEndpoint, data: string | undefined): boolean {
    if (this.#host.find(session.id) !== session) return false;
    const known = this.memberIn(name, session);
    if (known !== undefined) {
      if (data !== undefined) this.#setData(known, data);
      return true;
    }
    const nameBytes = Buffer.byteLength(name);
    this.#assertRoomFor(name, nameBytes, session);
    if (!mayJoin(this.#host.options, session.session, name, this.#host.logger))
      throw new ProtocolError('forbidden', 'group: authorize refuses the session');
    // The application may have ended it meanwhile.
    if (this.#host.find(session.id) !== session) return false;
    const now = this.#now();
    this.#enter(session, { name, data, dataAt: now, since: now }, nameBytes);
    this.#host.changed(session);
    return true;
  }

  #assertRoomFor(name: string, nameBytes: number, session: ServerEndpoint): void {
    const { maxGroups, maxMembers, maxNameBytes } = this.#host.options;
    const own = this.#host.membershipsOf(session);
    if (own.size >= maxGroups)
      throw new ProtocolError('over_budget', `group: the session is in ${maxGroups} groups already`);
    let bytes = nameBytes;
    for (const membership of own.values()) bytes += membership.nameBytes;
    if (bytes > maxNameBytes)
      throw new ProtocolError(
        'over_budget',
        `group: names of one session have at most ${maxNameBytes} bytes`,
      );
    if ((this.#local.get(name)?.members.size ?? 0) >= maxMembers)
      throw new ProtocolError('over_budget', `group: it has ${maxMembers} members at this node already`);
  }

  /** @throws {ProtocolError} `over_budget`. */
  #setData(membership: Membership, data: string): void {
    if (membership.data === data) return;
    const { session, group, nameBytes, charge } = membership;
    const next = this.#charge(session, nameBytes, data);
    charge?.release();
    membership.charge = next;
    membership.data = data;
    membership.dataAt = this.#now();
    this.#host.changed(session);
    this.#show(group.name, membership);
  }

  /** @throws {ProtocolError} `over_budget`. */
  #charge(session: ServerEndpoint, nameBytes: number, data: string | undefined) {
    const reserved = session.memory.tryReserve(nameBytes + Buffer.byteLength(data ?? '') + OVERHEAD);
    if (reserved !== undefined) return reserved;
    throw new ProtocolError('over_budget', 'group: the session has no memory for it');
  }

  #enter(session: ServerEndpoint, saved: SavedMembership, nameBytes: number, isCharged = true): Membership {
    const { name, data, dataAt, since } = saved;
    const charge = isCharged ? this.#charge(session, nameBytes, data) : session.memory.tryReserve(nameBytes);
    const known = this.#local.get(name);
    const group = known ?? new LocalGroup(name);
    this.#local.set(name, group);
    const rest = { charge, received: undefined, coding: undefined };
    const membership: Membership = { session, group, since, data, dataAt, nameBytes, ...rest };
    group.members.set(session, membership);
    this.#host.membershipsOf(session).set(name, membership);
    this.#listen(session);
    if (known === undefined) this.nodes?.handleFirst(name);
    this.#show(name, membership);
    return membership;
  }

  delete(name: string, session: ServerEndpoint): boolean {
    const membership = this.memberIn(name, session);
    if (membership === undefined) return false;
    this.#remove(membership, 'left');
    this.#host.changed(session);
    return true;
  }

  /** The session is over here. @param how whether it continues elsewhere, or may. */
  forget(session: ServerEndpoint, how: 'left' | 'moved' | 'waits'): void {
    for (const membership of [...(this.#host.peekMemberships(session)?.values() ?? [])])
      this.#remove(membership, how);
  }

  #remove(membership: Membership, how: PresenceState): void {
    const { session, group } = membership;
    this.#host.membershipsOf(session).delete(group.name);
    group.members.delete(session);
    group.apart.delete(membership);
    membership.charge?.release();
    this.#show(group.name, membership, how);
    if (group.members.size > 0) return;
    this.#local.delete(group.name);
    this.nodes?.handleLast(group.name);
  }

  /** The session has come from another node, or from its record. */
  restore(session: ServerEndpoint, saved: readonly SavedMembership[]): void {
    for (const each of saved) {
      if (this.memberIn(each.name, session) !== undefined) continue;
      const membership = this.#enter(session, each, Buffer.byteLength(each.name), false);
      if (this.nodes === undefined) continue;
      for (const [sender] of each.marks ?? []) this.nodes.know(sender);
      membership.group.setApart(membership, each.marks);
      this.#catchUp(membership);
    }
  }

  /** The session stays here: it hears what was said while it was about to leave. */
  release(session: ServerEndpoint): void {
    for (const membership of this.#host.peekMemberships(session)?.values() ?? [])
      if (membership.received !== undefined) this.#catchUp(membership);
  }

  // --- who is seen

  /** Its connection comes or goes. */
  #listen(session: ServerEndpoint): void {
    if (this.#listening.has(session)) return;
    this.#listening.add(session);
    session.listeners.add('state', () => {
      if (session.hasEnded) return;
      for (const [name, membership] of this.#host.peekMemberships(session) ?? [])
        this.#show(name, membership);
    });
  }

  #show(name: string, membership: Membership, how?: PresenceState): void {
    this.feed.tell(name, () => PresenceFeed.entryOf(membership, how));
  }

  // --- what is said

  /**
   * Hands a message over to members here. It is queued when all of `later` have resolved.
   *
   * @param sequence of the message among those of its sender; without nodes there is none.
   */
  hand(name: string, message: GroupMessage, sequence: Sequence | undefined) {
    const result: Delivered = { queued: 0, coded: 0, refused: [] };
    const later: Promise<void>[] = [];
    const group = this.#local.get(name);
    if (group === undefined) return { result, later };
    const coding = new SharedCoding(this.#coders, message);
    const shared = sequence === undefined ? 'new' : group.received.check(sequence);
    const recorded: ServerEndpoint[] = [];
    for (const membership of group.members.values()) {
      const { session } = membership;
      if (!this.#hears(membership, sequence, shared)) continue;
      if (session.id !== message.except) {
        const waiting = this.#give(membership, coding, sequence, result);
        if (waiting !== undefined) later.push(waiting);
        else if (session.isDurable) recorded.push(session);
      }
      if (sequence !== undefined) membership.received?.take(sequence);
    }
    if (sequence !== undefined && shared === 'new') group.received.take(sequence);
    if (sequence !== undefined && shared === 'gap')
      this.#ask(group.received, this.#question(group, sequence.sender));
    for (const membership of group.apart) group.rejoin(membership);
    for (const session of recorded) this.#host.changed(session);
    result.coded = coding.count;
    return { result, later };
  }

  #hears(membership: Membership, sequence: Sequence | undefined, shared: Verdict): boolean {
    const { session, group } = membership;
    if (sequence === undefined) return true;
    // It is about to continue elsewhere, and receives the message there; or it stays, and receives it then.
    if (session.isFrozen) {
      // It has to repeat its question for messages.
      group.setApart(membership).asks.delete(sequence.sender);
      return false;
    }
    const verdict = membership.received?.check(sequence) ?? shared;
    if (verdict === 'gap' && membership.received !== undefined)
      this.#ask(membership.received, this.#question(group, sequence.sender, membership));
    return verdict === 'new';
  }

  /** Returns a promise if it is not queued yet. */
  #give(
    membership: Membership,
    coding: SharedCoding,
    sequence: Sequence | undefined,
    result: Delivered,
  ): Promise<void> | undefined {
    const { session } = membership;
    result.queued++;
    const refuse = (error: unknown): void => {
      result.queued--;
      this.refused++;
      const reason = toProtocolError(error, 'internal', 'the message could not be queued');
      result.refused.push({ session: session.session, error: reason });
    };
    let onQueued = () => {};
    try {
      const waiting = enqueue(
        session,
        () => coding.for(session),
        () => onQueued(),
      );
      if (waiting === undefined || sequence === undefined) return waiting?.catch(refuse);
      const under = underWay(membership, sequence);
      onQueued = () => {
        under.queued = sequence.number;
        this.#host.changed(session);
      };
      return waiting.catch(refuse).finally(() => {
        if (--under.count === 0) membership.coding?.delete(sequence.sender);
      });
    } catch (error) {
      refuse(error);
      return undefined;
    }
  }

  // --- what was missed

  /** Asks all nodes for what they have said and a member has not heard. */
  #catchUp(membership: Membership): void {
    const { group, received } = membership;
    if (received === undefined || this.nodes === undefined) return;
    for (const sender of this.nodes.senders) this.#ask(received, this.#question(group, sender, membership));
    group.rejoin(membership);
  }

  #question(group: LocalGroup, sender: string, membership?: Membership): Question {
    const received = membership?.received ?? group.received;
    const mark = received.marks.get(sender) ?? 0;
    const ageMs = membership === undefined ? 0 : Math.max(0, this.#now() - membership.since);
    return { sender, name: group.name, mark, ageMs };
  }

  #ask(received: ReceivedMarks, question: Question): void {
    if (this.nodes !== undefined && !received.asks.has(question.sender))
      received.asks.set(question.sender, this.nodes.ask(question));
  }

  /** A node has said again all that it was asked for. @param last the number of its last message. */
  handleAnswered(name: string, sender: string, ask: number, last: number, isIncomplete: boolean): void {
    const group = this.#local.get(name);
    if (group === undefined) return;
    group.received.handleAnswered(sender, ask, last);
    if (!group.received.marks.has(sender)) group.received.take({ sender, number: last });
    this.#askIfBehind(group.received, last, this.#question(group, sender));
    for (const membership of group.apart) {
      const { received, session } = membership;
      // One that is about to go took nothing of it, and asks again if it stays.
      const isAnswer = received?.handleAnswered(sender, ask, last, !session.isFrozen) === true;
      if (isAnswer && isIncomplete) this.#handleMissed(membership, sender);
      if (isAnswer) this.#host.changed(session);
      if (received !== undefined && !session.isFrozen)
        this.#askIfBehind(received, last, this.#question(group, sender, membership));
      group.rejoin(membership);
    }
  }

  /** All that its sender has said to this node is here. So who has not heard the last message was not sent it. */
  #askIfBehind(received: ReceivedMarks, last: number, question: Question): void {
    if (question.mark < last) this.#ask(received, question);
  }

  #handleMissed({ session, group }: Membership, sender: string): void {
    this.missed++;
    const fields = { event: 'group.missed', session: session.id, group: group.name, node: sender };
    this.#host.logger.warn(fields, 'messages to a group were not kept until a member was back');
  }

  /** A node may have forgotten what it was asked, and is asked again. */
  doubt(node: string): void {
    for (const group of this.#local.values()) {
      if (group.received.asks.delete(node)) this.#ask(group.received, this.#question(group, node));
      for (const membership of group.apart) {
        const { received } = membership;
        if (received?.asks.delete(node)) this.#ask(received, this.#question(group, node, membership));
      }
    }
  }

  /** A node is gone for good. */
  forgetNode(node: string): void {
    for (const group of this.#local.values()) group.forget(node);
  }
}

/** The messages of one sender that are being coded for a member. */
function underWay(membership: Membership, { sender }: Sequence): { count: number; queued: number } {
  membership.coding ??= new Map();
  const marks = (membership.received ?? membership.group.received).marks;
  const under = membership.coding.get(sender) ?? { count: 0, queued: marks.get(sender) ?? 0 };
  membership.coding.set(sender, under);
  under.count++;
  return under;
}
