import { ProtocolError } from '@parlance/protocol';
import { countField, malformed, shortField } from '../../cluster/link/message.js';
import type { Member, MembersPage } from '../group.js';
import type { MembersFound } from '../nodes.js';
import { MAX_AFTER } from '../state.js';
import {
  type GroupMessageType,
  listBytes,
  MAX_LIST,
  memberValues,
  nameField,
  readList,
  readMember,
} from './messages.js';

/** Ticks of a second within which a node has to answer. */
const MAX_TICKS = 5;

export interface MembersOfNodesOptions {
  /** This node. */
  readonly own: string;
  /** Other nodes that have members. */
  readonly nodesOf: (name: string) => Iterable<string>;
  readonly here: (name: string, after: string | undefined, limit: number) => MembersPage;
  readonly send: (
    node: string,
    type: GroupMessageType,
    fields: readonly unknown[],
    bytes: Uint8Array,
  ) => void;
}

interface Waiting {
  readonly node: string;
  readonly resolve: (page: MembersPage) => void;
  readonly reject: (error: ProtocolError) => void;
  ticks: number;
}

/** Pages of the members that a group has at all nodes: node by node, in the order of their names. */
export class MembersOfNodes {
  readonly #options: MembersOfNodesOptions;
  readonly #waiting = new Map<number, Waiting>();
  #last = 0;
  #isClosed = false;

  constructor(options: MembersOfNodesOptions) {
    this.#options = options;
  }

  /** @param after node and ID of the last member of the page before. @throws {ProtocolError} `timeout`, `draining`. */
  async read(name: string, after: string | undefined, limit: number): Promise<MembersFound> {
    const { own, nodesOf, here } = this.#options;
    const [first = '', last] = after?.split('/', 2) ?? [];
    const isHere = here(name, undefined, 1).members.length > 0;
    const nodes = [...(isHere ? [own] : []), ...nodesOf(name)].sort().filter((node) => node >= first);
    const members: Member[] = [];
    for (const node of nodes) {
      const left = limit - members.length;
      if (left === 0) return pageOf(members, true);
      const page = await this.#ask(node, name, node === first ? last : undefined, left);
      members.push(...page.members);
      if (page.next !== undefined) return pageOf(members, true);
    }
    return pageOf(members, false);
  }

  #ask(
    node: string,
    name: string,
    after: string | undefined,
    limit: number,
  ): Promise<MembersPage> | MembersPage {
    const { own, here, send } = this.#options;
    if (node === own) return here(name, after, limit);
    if (this.#isClosed) throw closing();
    const number = ++this.#last;
    return new Promise<MembersPage>((resolve, reject) => {
      this.#waiting.set(number, { node, resolve, reject, ticks: 0 });
      send(node, 'list', [number, name, after ?? '', limit], new Uint8Array(0));
    });
  }

  /** Another node asks. @throws {ProtocolError} `bad_message`. */
  answer(node: string, [number, name, after, limit]: readonly unknown[]): void {
    const { here, send } = this.#options;
    const from = shortField(after, MAX_AFTER);
    const most = Math.min(MAX_LIST, countField(limit));
    const { members, next } = here(nameField(name), from === '' ? undefined : from, most);
    // Members that do not fit into one message are on the next page.
    const lists = listBytes(members.map(memberValues));
    const hasMore = next !== undefined || lists.length > 1;
    send(node, 'listed', [countField(number), hasMore ? 1 : 0], lists[0] as Uint8Array);
  }

  /** @throws {ProtocolError} `bad_message`. */
  handleListed(node: string, [number, hasMore]: readonly unknown[], bytes: Uint8Array): void {
    const members = readList(bytes, (values) => readMember(node, values));
    const waiting = this.#waiting.get(countField(number));
    // The caller does not wait for it any longer.
    if (waiting === undefined) return;
    if (waiting.node !== node) throw malformed();
    this.#waiting.delete(number as number);
    waiting.resolve({ members, next: hasMore === 1 ? members.at(-1)?.id : undefined });
  }

  /** Nothing is answered any more. */
  close(): void {
    this.#isClosed = true;
    for (const { reject } of this.#waiting.values()) reject(closing());
    this.#waiting.clear();
  }

  handleTick(): void {
    for (const [number, waiting] of this.#waiting) {
      if (waiting.ticks++ < MAX_TICKS) continue;
      this.#waiting.delete(number);
      waiting.reject(new ProtocolError('timeout', `members: a node has not answered within ${MAX_TICKS} s`));
    }
  }
}

function pageOf(members: readonly Member[], hasMore: boolean): MembersFound {
  const last = members.at(-1);
  return { members, next: hasMore && last !== undefined ? `${last.node}/${last.id}` : undefined };
}

function closing(): ProtocolError {
  return new ProtocolError('draining', 'members: the server closes');
}
