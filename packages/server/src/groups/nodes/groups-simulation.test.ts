import { describe, expect, it } from 'vitest';
import { savedOf } from '../state.js';
import {
  type Client,
  GroupsWorld,
  type SimulatedMember,
  type SimulatedNode,
  settled,
  watch,
} from './testing/groups-world.js';

/** Random histories of groups on three nodes, whose links break and whose members move, in virtual time. */

const SEEDS = Array.from({ length: 12 }, (_, i) => i + 1);
const GROUPS = ['all', 'some'];
const STEPS = 1_500;

interface Faults {
  /** Chances per step. */
  readonly cut?: number;
  readonly move?: number;
  readonly kill?: number;
}

interface Moving {
  readonly from: SimulatedNode;
  readonly to: SimulatedNode;
  readonly member: SimulatedMember;
  readonly saved: unknown;
  isTaken: boolean;
}

function seeded(seed: number): () => number {
  let state = seed * 2_654_435_761;
  return () => {
    state = (Math.imul(state ^ (state >>> 15), 2_246_822_519) + 0x9e3779b9) | 0;
    return ((state ^ (state >>> 13)) >>> 0) / 2 ** 32;
  };
}

class History {
  readonly world = new GroupsWorld();
  readonly clients: Client[] = [];
  readonly random: () => number;
  moves = 0;
  cuts = 0;
  takeOvers = 0;
  #moving: Moving[] = [];
  #count = 0;

  constructor(seed: number) {
    this.random = seeded(seed);
  }

  #pick<Item>(items: readonly Item[]): Item | undefined {
    return items[Math.floor(this.random() * items.length)];
  }

  get #alive(): SimulatedNode[] {
    return this.world.nodes.filter(({ isAlive }) => isAlive);
  }

  async begin(): Promise<void> {
    const { world } = this;
    for (let i = 0; i < 3; i++) await world.addNode();
    for (const [i, node] of world.nodes.entries())
      for (const isKept of [false, true]) {
        const client = world.clientOf(node, `${i}${isKept ? ' kept' : ''}`, isKept);
        this.clients.push(client);
        // The third node has no member of one group until one comes.
        node.join(client, ...(i === 2 ? GROUPS.slice(0, 1) : GROUPS));
      }
    await world.calm();
  }

  async run({ cut = 0, move = 0, kill = 0 }: Faults): Promise<void> {
    const { world } = this;
    for (let step = 0; step < STEPS; step++) {
      const dice = this.random();
      if (dice < 0.15) this.#pick(this.#alive)?.say(this.#pick(GROUPS) as string, `${++this.#count}`);
      else if (dice < 0.16) world.tick();
      else if (dice < 0.2) world.dialing.shift()?.();
      else this.#pick(this.#pick(world.ends)?.pair ?? [])?.deliver();
      if (this.random() < 0.02) world.due.shift()?.();
      if (this.random() < cut && world.ends.length > 0) {
        this.cuts++;
        world.cut(Math.floor(this.random() * world.ends.length));
      }
      if (this.random() < move) this.#beginMove();
      if (this.random() < 0.1) this.#goOn();
      if (this.random() < kill && this.#alive.length > 2) this.#kill();
      await settled();
    }
    while (this.#moving.length > 0) this.#goOn();
    this.#takeOver();
    await world.calm();
  }

  #beginMove(): void {
    const [from, to] = [this.#pick(this.#alive), this.#pick(this.#alive)];
    const member = this.#pick([...(from?.members.values() ?? [])]);
    if (from === undefined || to === undefined || member === undefined || member.isFrozen) return;
    // A node refuses a session that it has, or has not let go.
    if (from === to || to.members.has(member.id)) return;
    member.isFrozen = true;
    this.#moving.push({ from, to, member, saved: savedOf(member.memberships), isTaken: false });
  }

  #goOn(): void {
    const moving = this.#pick(this.#moving);
    if (moving === undefined) return;
    const { from, to, member, saved, isTaken } = moving;
    if (!isTaken && this.random() < 0.3) {
      member.isFrozen = false;
      from.groups.release(member as never);
    } else if (!isTaken) {
      this.moves++;
      moving.isTaken = true;
      member.client.heard = [...member.sent];
      member.client.record = { saved, heard: [...member.sent] };
      to.take(member.client, saved);
      return;
    } else from.forget(member);
    this.#moving = this.#moving.filter((each) => each !== moving);
  }

  #kill(): void {
    const node = this.#pick(this.#alive) as SimulatedNode;
    // The others continue the sessions that were under way to or from the node.
    for (const moving of [...this.#moving])
      if (moving.from === node || moving.to === node) {
        this.#moving = this.#moving.filter((each) => each !== moving);
        if (moving.isTaken && moving.from !== node) moving.from.forget(moving.member);
        else if (!moving.isTaken && moving.from !== node) {
          moving.member.isFrozen = false;
          moving.from.groups.release(moving.member as never);
        }
      }
    this.world.kill(node);
    for (const { client } of node.members.values())
      if (!client.isKept && !this.#has(client)) client.isLost = true;
  }

  #has(client: Client): boolean {
    return this.#alive.some(({ members }) => members.get(client.id)?.hasEnded === false);
  }

  /** Recorded members come to nodes that live. */
  #takeOver(): void {
    for (const client of this.clients) {
      if (client.isLost || this.#has(client)) continue;
      this.takeOvers++;
      this.#pick(this.#alive)?.take(client, client.record.saved);
    }
  }

  /** Everything that is wrong. */
  verify(): string[] {
    const faults: string[] = [];
    for (const { heard, principal, isLost } of this.clients) {
      if (isLost) continue;
      for (const node of this.world.nodes)
        for (const [group, said] of node.said) {
          const isMember = group === 'all' || !principal.startsWith('2');
          const expected = isMember ? said : [];
          const own = heard.filter((text) => said.includes(text));
          // The last messages of a dead node may be missing.
          const wanted = node.isAlive ? expected : expected.slice(0, own.length);
          if (own.join() !== wanted.join())
            faults.push(`${principal} has heard ${own} of ${node.name} in ${group}, not ${wanted}`);
        }
    }
    return faults;
  }
}

describe('random histories of groups on three nodes', () => {
  it.each(SEEDS)('give each member each message once and in order on whole links (seed %i)', async (seed) => {
    const history = new History(seed);
    await history.begin();
    await history.run({});
    expect(history.verify()).toEqual([]);
    expect(history.clients.every(({ heard }) => heard.length > 50)).toBe(true);
    await history.world.stop();
  });

  it.each(SEEDS)('do so while links break (seed %i)', async (seed) => {
    const history = new History(seed);
    await history.begin();
    await history.run({ cut: 0.02 });
    expect(history.verify()).toEqual([]);
    expect(history.cuts).toBeGreaterThan(0);
    await history.world.stop();
  });

  it.each(SEEDS)('do so while members move, and tell of no one who leaves (seed %i)', async (seed) => {
    const history = new History(seed);
    await history.begin();
    const changes = watch(history.world.nodes[1] as SimulatedNode, 'all');
    await history.world.calm();
    await history.run({ move: 0.03, cut: seed % 2 === 0 ? 0.01 : 0 });
    expect(history.verify()).toEqual([]);
    expect(history.moves).toBeGreaterThan(1);
    expect(changes.map(({ principal, state }) => `${principal} ${state}`).sort()).toEqual(
      history.clients.map(({ principal }) => `${principal} joined`).sort(),
    );
    await history.world.stop();
  });

  it('give recorded members the messages that they have missed after the death of their nodes', async () => {
    let takeOvers = 0;
    for (const seed of SEEDS) {
      const history = new History(seed);
      await history.begin();
      await history.run({ move: 0.02, cut: 0.01, kill: 0.004 });
      expect(history.verify()).toEqual([]);
      takeOvers += history.takeOvers;
      await history.world.stop();
    }
    expect(takeOvers).toBeGreaterThan(SEEDS.length / 2);
  });
});
