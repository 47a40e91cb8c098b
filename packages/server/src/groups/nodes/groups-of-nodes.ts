import { randomInt } from 'node:crypto';
import { type Logger, ProtocolError } from '@parlance/protocol';
import { loggable, type MemoryBudget, systemClock } from '@parlance/protocol/internal';
import { limitedLog } from '../../base/limited-log.js';
import type { Links } from '../../cluster/link/links.js';
import { countField, type LinkMessage, malformed } from '../../cluster/link/message.js';
import { NODES_SHARE } from '../../cluster/link/quota.js';
import type { ClusterService } from '../../cluster/service.js';
import type { EngineConnection } from '../../engine/engine.js';
import type { OwnHost } from '../../server/features/own-feature.js';
import { retentionMsOf } from '../../session/durable-rules.js';
import type { GroupMessage } from '../delivery.js';
import type { Groups } from '../groups.js';
import { membersHere } from '../members.js';
import type { GroupNodes, MembersFound, Question, SaidElsewhere } from '../nodes.js';
import type { PresenceEntry, PresenceSource } from '../presence-feed.js';
import type { Presences } from '../presences.js';
import type { Sequence } from '../received-marks.js';
import { inOrder, SentMessages } from '../sent-messages.js';
import { Inflow } from './inflow.js';
import { Interest } from './interest.js';
import { Lapse } from './lapse.js';
import { MembersOfNodes } from './members-of-nodes.js';
import {
  bytesOf,
  GROUPS,
  type GroupMessageType,
  listBytes,
  nameField,
  presenceValues,
  readList,
  readPresence,
  readSay,
  sayFields,
  tooLarge,
} from './messages.js';
import { MAX_WAITING, Outflow } from './outflow.js';

/** The state of a node that has died is kept for so long, in milliseconds: the node may have stood still. */
const FORGET_MS = 60_000;
const MAX_STREAM = 2 ** 32;
const NOTHING = new Uint8Array(0);

export interface GroupsOfNodesOptions {
  readonly incarnation: string;
  readonly link: Pick<EngineConnection, 'table' | 'close'>;
  readonly links: Links;
  readonly groups: Groups;
  readonly presences: Presences;
  readonly memory: MemoryBudget;
  readonly logger: Logger;
  /** Bytes of a message. */
  readonly maxMessageSize: number;
  /** How long a session whose node is gone may wait for another one, in milliseconds. */
  readonly keptMs: number;
  /** Clock reading in milliseconds. */
  readonly now: () => number;
  readonly isNodeAlive: (incarnation: string) => boolean;
  readonly hasLease: () => boolean;
  /** All other nodes that count as alive. */
  readonly others: () => Iterable<string>;
  /** As {@link TableEntriesOptions.pause}. */
  readonly pause?: ((ms: number) => Promise<void>) | undefined;
}

/** The streams between this node and another one. */
interface Peer {
  readonly out: Outflow;
  readonly in: Inflow;
  /** Groups of which the node did not get the last messages: the number of the last one that it got. */
  readonly skipped: Map<string, number>;
  /** Groups whose members it was asked for. */
  readonly followed: Set<string>;
  /** Takes the members of this node that the other one watches. */
  readonly sink: { tell(name: string, entries: readonly PresenceEntry[]): boolean };
  /** Since when it is gone. A clock reading. */
  goneSince: number | undefined;
}

/** Lets the groups of this node and of others be one. */
export class GroupsOfNodes implements GroupNodes, PresenceSource {
  readonly #options: GroupsOfNodesOptions;
  readonly #logger: Logger;
  readonly #interest: Interest;
  readonly #sent: SentMessages;
  readonly #members: MembersOfNodes;
  readonly #memory;
  readonly #lapse = new Lapse(FORGET_MS / 2);
  readonly #peers = new Map<string, Peer>();
  /** Questions of this turn, by a text that is equal for equal questions. */
  readonly #questions = new Map<string, Question & { readonly ask: number }>();
  #lastAsk = 0;

  constructor(options: GroupsOfNodesOptions) {
    const { incarnation, link, links, memory, now, isNodeAlive, keptMs } = options;
    this.#options = options;
    this.#logger = limitedLog(options.logger);
    this.#sent = new SentMessages(now, keptMs);
    this.#memory = memory.open(MAX_WAITING * 2);
    this.#memory.assign([NODES_SHARE]);
    this.#interest = new Interest({
      ...{ link, incarnation, now, isNodeAlive, logger: options.logger, others: options.others },
      pause: options.pause,
      onNode: (name, node) => this.#followAt(name, node),
    });
    this.#members = new MembersOfNodes({
      own: incarnation,
      nodesOf: (name) => this.#interest.nodesOf(name),
      here: (name, after, limit) => membersHere(options.groups, incarnation, name, after, limit),
      send: (node, type, fields, bytes) => this.#peer(node).out.send(type, fields, bytes),
    });
    links.serve(GROUPS, (opened) => this.#peer(opened.node).in.accept(opened));
  }

  get presence(): PresenceSource {
    return this;
  }
  get keptMs(): number {
    return this.#options.keptMs;
  }
  isAlive(node: string): boolean {
    return this.#options.isNodeAlive(node);
  }
  /** The groups of other nodes are known. */
  get isReady(): boolean {
    return this.#interest.isReady;
  }
  /** Bytes that are kept for members, or wait for nodes. */
  get waitingBytes(): number {
    let bytes = this.#sent.bytes;
    for (const { out } of this.#peers.values()) bytes += out.bytes;
    return bytes;
  }

  start(): Promise<void> {
    return this.#interest.start();
  }

  async close(): Promise<void> {
    this.#members.close();
    await this.#interest.stop();
    this.#memory.close();
  }

  handleTick(): void {
    const { now, isNodeAlive, hasLease, groups, presences } = this.#options;
    const isForgotten = this.#lapse.check(hasLease(), now());
    this.#sent.handleTick();
    this.#interest.handleTick();
    this.#members.handleTick();
    for (const [node, peer] of this.#peers) {
      peer.in.handleTick();
      peer.out.handleTick();
      const isAlive = isNodeAlive(node);
      if (isAlive) peer.goneSince = undefined;
      else peer.goneSince ??= now();
      // When it is back, it is asked again.
      if (!isAlive || isForgotten) peer.followed.clear();
      if (isForgotten) {
        presences.doubt(node);
        groups.doubt(node);
      }
      if (peer.goneSince === undefined || now() - peer.goneSince < FORGET_MS) continue;
      this.#peers.delete(node);
      for (const name of groups.feed.namesOf(peer.sink)) groups.feed.unwatch(name, peer.sink);
      groups.forgetNode(node);
    }
    for (const name of presences.names) this.follow(name);
    this.#memory.hold(this.waitingBytes);
  }

  #peer(node: string): Peer {
    const known = this.#peers.get(node);
    if (known !== undefined) return known;
    const out = new Outflow(node, this.#options.links, randomInt(MAX_STREAM));
    const peer: Peer = {
      out,
      in: new Inflow((message) => this.#handle(node, message)),
      skipped: new Map(),
      followed: new Set(),
      sink: { tell: (name, entries) => this.#tellPresent(out, name, entries) },
      goneSince: undefined,
    };
    this.#peers.set(node, peer);
    return peer;
  }

  // --- as the groups of this node use it

  know(node: string): void {
    if (node !== this.#options.incarnation) this.#peer(node);
  }

  get senders(): Iterable<string> {
    return [this.#options.incarnation, ...this.#options.others()];
  }

  handleFirst(name: string): void {
    this.#interest.add(name);
  }

  handleLast(name: string): void {
    this.#interest.remove(name);
  }

  async members(name: string, after: string | undefined, limit: number): Promise<MembersFound> {
    return await this.#members.read(name, after, limit);
  }

  say(name: string, message: GroupMessage): SaidElsewhere {
    const { incarnation, maxMessageSize } = this.#options;
    const nodes = [...this.#interest.nodesOf(name)];
    if (message.size > maxMessageSize) {
      const error = tooLarge(maxMessageSize);
      const unreached = nodes.map((node) => ({ node, error }));
      // It has no number, so that no node asks for it.
      return { sequence: undefined, elsewhere: { nodes: 0, unreached } };
    }
    const kept = this.#sent.add(name, message);
    const unreached: { node: string; error: ProtocolError }[] = [];
    let coded: ReturnType<typeof bytesOf> | undefined;
    for (const node of nodes) {
      const peer = this.#peer(node);
      const error = this.#refusalOf(peer, message.size);
      if (error !== undefined) {
        if (!peer.skipped.has(name)) peer.skipped.set(name, kept.previous);
        unreached.push({ node, error });
        continue;
      }
      coded ??= bytesOf(message.content);
      const previous = peer.skipped.get(name) ?? kept.previous;
      peer.skipped.delete(name);
      const [kind, bytes] = coded;
      peer.out.send('say', sayFields(name, message, { number: kept.number, previous }, kind), bytes);
    }
    const { number, previous } = kept;
    const sequence = { sender: incarnation, number, previous };
    return { sequence, elsewhere: { nodes: nodes.length - unreached.length, unreached } };
  }

  #refusalOf({ out }: Peer, size: number): ProtocolError | undefined {
    if (out.hasRoom(size) && !this.#memory.isScarce) return undefined;
    return new ProtocolError('over_budget', 'too much waits for the node already');
  }

  ask(question: Question): number {
    const { sender, name, mark, ageMs } = question;
    const key = JSON.stringify([sender, name, mark > 0]);
    const known = this.#questions.get(key);
    if (this.#questions.size === 0) queueMicrotask(() => this.#sendQuestions());
    const ask = known?.ask ?? ++this.#lastAsk;
    const [least, oldest] = [Math.min(mark, known?.mark ?? mark), Math.max(ageMs, known?.ageMs ?? ageMs)];
    this.#questions.set(key, { sender, name, mark: least, ageMs: oldest, ask });
    return ask;
  }

  #sendQuestions(): void {
    const { incarnation } = this.#options;
    const questions = [...this.#questions.values()];
    this.#questions.clear();
    for (const sender of new Set(questions.map((each) => each.sender))) {
      const some = questions.filter((each) => each.sender === sender);
      if (sender === incarnation) for (const each of some) this.#answerSelf(each);
      else
        for (const list of listBytes(some.map(({ ask, name, mark, ageMs }) => [ask, name, mark, ageMs])))
          this.#peer(sender).out.send('ask', [], list);
    }
  }

  // --- what was missed

  #answerSelf({ ask, name, mark, ageMs }: Question & { readonly ask: number }): void {
    const { groups, incarnation: sender } = this.#options;
    const { kept, last, isIncomplete } = this.#sent.after(name, mark, ageMs);
    for (const [each, previous] of inOrder(kept, mark))
      groups.hand(name, each.message, { sender, number: each.number, previous, ask });
    groups.handleAnswered(name, sender, ask, last, isIncomplete);
  }

  /** @throws {ProtocolError} `bad_message`. */
  #answer(node: string, [ask, named, marked, age]: readonly unknown[]): void {
    const [name, mark, ageMs] = [nameField(named), countField(marked), countField(age)];
    const number = countField(ask);
    const peer = this.#peer(node);
    // The asking node gets later messages as well.
    this.#interest.note(name, node);
    const { kept, last, isIncomplete } = this.#sent.after(name, mark, ageMs);
    let isCut = false;
    for (const [each, previous] of inOrder(kept, mark)) {
      isCut ||= this.#refusalOf(peer, each.message.size) !== undefined;
      if (isCut) break;
      const [kind, bytes] = bytesOf(each.message.content);
      const sequence = { number: each.number, previous, ask: number };
      peer.out.send('say', sayFields(name, each.message, sequence, kind), bytes);
    }
    peer.skipped.delete(name);
    peer.out.send('answered', [name, number, last, isIncomplete || isCut ? 1 : 0], NOTHING);
  }

  // --- presence

  follow(name: string): void {
    for (const node of this.#interest.nodesOf(name)) this.#followAt(name, node);
  }

  #followAt(name: string, node: string): void {
    if (!this.#options.presences.has(name) || !this.isAlive(node)) return;
    const { followed, out } = this.#peer(node);
    if (followed.has(name)) return;
    followed.add(name);
    out.send('watch', [name], NOTHING);
  }

  unfollow(name: string): void {
    for (const { followed, out } of this.#peers.values())
      if (followed.delete(name)) out.send('unwatch', [name], NOTHING);
  }

  #tellPresent(out: Outflow, name: string, entries: readonly PresenceEntry[]): boolean {
    if (!out.hasRoom(0)) return false;
    for (const list of listBytes(entries.map(presenceValues))) out.send('present', [name], list);
    return true;
  }

  // --- what other nodes say

  /** @throws {ProtocolError} `bad_message`. */
  #handle(node: string, { type, fields, bytes }: LinkMessage): void {
    const { groups, presences } = this.#options;
    switch (type as GroupMessageType) {
      case 'say': {
        const { name, sequence, message } = readSay(node, fields, bytes);
        this.#handOver(name, sequence, message).catch((error: unknown) => {
          const failed = { event: 'group.failed', group: name, node, err: loggable(error) };
          this.#logger.error(failed, 'a message of another node was not handed to the members of a group');
        });
        return;
      }
      case 'ask':
        for (const values of readList(bytes, (each) => each)) this.#answer(node, values);
        return;
      case 'answered': {
        const [name, ask, last, isIncomplete] = fields;
        groups.handleAnswered(nameField(name), node, countField(ask), countField(last), isIncomplete === 1);
        return;
      }
      case 'watch': {
        const name = nameField(fields[0]);
        groups.feed.watch(name, this.#peer(node).sink, groups.local.get(name)?.members.values() ?? []);
        return;
      }
      case 'unwatch':
        groups.feed.unwatch(nameField(fields[0]), this.#peer(node).sink);
        return;
      case 'present':
        presences.apply(node, nameField(fields[0]), readList(bytes, readPresence));
        return;
      case 'list':
        this.#members.answer(node, fields);
        return;
      case 'listed':
        this.#members.handleListed(node, fields, bytes);
        return;
      default:
        throw malformed();
    }
  }

  /** Members that get nothing are counted, and the first of them is logged. */
  async #handOver(name: string, sequence: Sequence, message: GroupMessage): Promise<void> {
    const { result, later } = this.#options.groups.hand(name, message, sequence);
    await Promise.all(later);
    const { refused } = result;
    if (refused[0] === undefined) return;
    const [{ error }, count] = [refused[0], refused.length];
    const fields = { event: 'group.refused', group: name, node: sequence.sender, count, code: error.code };
    this.#logger.warn(fields, 'a message of another node was not queued for some members of a group');
  }
}

/** The groups of one node of a cluster. */
export function groupsOfNodes(
  cluster: ClusterService,
  { options, memory }: OwnHost,
  groups: Groups,
  presences: Presences,
): GroupsOfNodes {
  const { incarnation, engine, links } = cluster;
  const { limits, logger, timers } = options;
  return new GroupsOfNodes({
    ...{ incarnation, links, groups, presences, memory, logger },
    link: engine.connect(),
    maxMessageSize: limits.maxMessageSize,
    keptMs: retentionMsOf(timers),
    now: () => systemClock.now(),
    isNodeAlive: (node) => cluster.isAlive(node),
    hasLease: () => cluster.hasLease,
    others: () => cluster.others,
  });
}
