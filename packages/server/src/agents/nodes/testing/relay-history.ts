import { ProtocolError } from '@parlance/protocol';
import { newSessionId } from '@parlance/protocol/internal';
import type { ServerEndpoint } from '../../../session/endpoint.js';
import { Life, SimulatedDurableSession } from './durable-session.js';
import { type Random, type SimulatedNode, settled, World } from './relay-world.js';
import { Client, SimulatedSession } from './simulated-session.js';

/** Random histories of agents on several nodes, whose connections break and whose sessions move, in virtual time. */

const NAMES = ['ada', 'bob', 'cyd', 'dot', 'eve'];
const STEPS = 1_500;

function seeded(seed: number): Random {
  let state = seed * 2_654_435_761;
  return () => {
    state = (Math.imul(state ^ (state >>> 15), 2_246_822_519) + 0x9e3779b9) | 0;
    return ((state ^ (state >>> 13)) >>> 0) / 2 ** 32;
  };
}

export interface Faults {
  /** Chances per step. */
  readonly cut?: number;
  readonly move?: number;
  readonly kill?: number;
  /** Of a move that has waited for too long: that it has to be now. */
  readonly settle?: number;
  /** That a node gives a durable session up, or another one takes it although the first one has it. */
  readonly giveUp?: number;
  readonly steal?: number;
}

interface Moving {
  readonly from: SimulatedNode;
  readonly to: SimulatedNode;
  readonly session: SimulatedSession;
  patience: number;
  /** The other node has taken it, and this one does not know yet. */
  isTaken: boolean;
}

export class History {
  readonly world = new World();
  readonly clients = NAMES.map((name) => new Client(name));
  readonly random: Random;
  moves = 0;
  cuts = 0;
  settles = 0;
  givenUp = 0;
  takeOvers = 0;
  #moving: Moving[] = [];
  #lastStream = 1;
  #isResting = false;

  /** How many of the agents have durable sessions. Then they ask nothing, and watch nothing. */
  readonly durable: number;

  constructor(seed: number, durable = 0) {
    this.random = seeded(seed);
    this.durable = durable;
  }

  pick<Item>(items: readonly Item[]): Item | undefined {
    return items[Math.floor(this.random() * items.length)];
  }

  get alive(): SimulatedNode[] {
    return this.world.nodes.filter(({ isAlive }) => isAlive);
  }

  /** The sessions that are not being handed over. */
  get sessions(): { readonly node: SimulatedNode; readonly session: SimulatedSession }[] {
    return this.alive.flatMap((node) =>
      [...node.sessions.values()].filter(({ isFrozen }) => !isFrozen).map((session) => ({ node, session })),
    );
  }

  async run(faults: Faults): Promise<void> {
    const { world, clients } = this;
    for (let i = 0; i < 3; i++) await world.addNode();
    for (const [i, client] of clients.entries()) {
      const node = world.nodes[i % 3] as SimulatedNode;
      if (i < this.durable) node.take(new Life(client, newSessionId(node.name)));
      else node.join(client);
    }
    await settled();
    await settled();
    if (this.durable === 0) for (const { session } of this.sessions) this.#watch(session);
    await settled();
    for (let step = 0; step < STEPS; step++) {
      this.#act();
      this.#carry();
      if (this.random() < (faults.cut ?? 0)) this.#cut();
      if (this.random() < (faults.move ?? 0)) this.#beginMove();
      if (this.random() < (faults.kill ?? 0)) this.#kill();
      if (this.durable > 0) {
        if (this.alive.length < 3) await world.addNode();
        this.#goOnDurably(faults);
      }
      this.#goOnMoving(faults.settle);
      if (step % 20 === 0) this.#tick();
      if (step % 7 === 0) await settled();
    }
    await this.#comeToRest();
  }

  #watch(session: SimulatedSession): void {
    const node = this.alive.find(({ sessions }) => sessions.has(session.id));
    const endpoint = session as never as ServerEndpoint;
    if (node !== undefined) session.answer(3, undefined, node.directory.handlerFor(endpoint, 3) as never);
  }

  #act(): void {
    const actor = this.pick(this.sessions.filter(({ session }) => !session.isFenced))?.session;
    const to = this.pick(NAMES);
    if (actor === undefined || to === undefined || to === actor.agentId) return;
    const [stream] = actor.asked.keys();
    const what = this.random();
    if (what < 0.7 && stream !== undefined) actor.reply(stream);
    else if (what < 0.1 && this.durable === 0 && actor.hasCredit) actor.ask(to, this.#newStream());
    else if (actor.hasCredit) actor.say(to);
  }

  #newStream(): number {
    this.#lastStream += 2;
    return this.#lastStream;
  }

  /** Delivers bytes at random places. */
  #carry(): void {
    for (let i = 0; i < 4; i++) {
      this.pick(this.world.ends.flatMap(({ pair }) => pair))?.deliver();
      const receiver = this.pick(this.sessions)?.session;
      if (this.random() < 0.7) receiver?.writeOne();
      if (this.random() < 0.3) receiver?.confirm(1 + Math.floor(this.random() * 4));
    }
    if (this.random() < 0.3) this.world.dialing.shift()?.();
  }

  #cut(): void {
    if (this.world.ends.length === 0) return;
    this.cuts++;
    this.world.cut(Math.floor(this.random() * this.world.ends.length));
  }

  get durableSessions() {
    return this.alive.flatMap((node) =>
      [...node.sessions.values()].flatMap((session) =>
        session instanceof SimulatedDurableSession ? [{ node, session }] : [],
      ),
    );
  }

  /** Records durable sessions, gives them up, takes them over and fences them, in any order. */
  #goOnDurably({ giveUp = 0, steal = 0 }: Faults): void {
    const { random } = this;
    for (const { node, session } of this.durableSessions) {
      if (random() < 0.3) session.record();
      if (session.isFenced && random() < 0.1) this.#leave(node, session);
      else if (!session.isFenced && random() < giveUp) {
        this.givenUp++;
        node.giveUp(session);
      } else if (!session.isFenced && random() < steal) {
        const other = this.pick(this.alive.filter((each) => each !== node && !each.sessions.has(session.id)));
        other?.take(session.life);
        this.takeOvers++;
      }
    }
    if (random() < 0.05) this.#takeOver();
  }

  #leave(node: SimulatedNode, session: SimulatedDurableSession): void {
    if (session.isGivenUp) this.world.waiting.push(session.life);
    session.isElsewhere = true;
    node.forget(session);
  }

  #takeOver(): void {
    const { waiting } = this.world;
    const at = Math.floor(this.random() * waiting.length);
    const life = waiting[at];
    const node = life && this.pick(this.alive.filter(({ sessions }) => !sessions.has(life.sessionId)));
    if (life === undefined || node === undefined) return;
    waiting.splice(at, 1);
    node.take(life);
    this.takeOvers++;
  }

  #beginMove(): void {
    const plain = this.sessions.filter(({ session }) => session.retentionMs === 0);
    const { node: from, session } = this.pick(plain) ?? {};
    const to = this.pick(this.alive.filter((node) => node !== from));
    if (from === undefined || session === undefined || to === undefined) return;
    // A node that hands sessions over takes none, so a session does not come back before its node knows that it has gone.
    if (this.#moving.some((each) => each.session.id === session.id)) return;
    from.moves.hold(session as never as ServerEndpoint);
    const patience = 20 + Math.floor(this.random() * 200);
    this.#moving.push({ from, to, session, patience, isTaken: false });
  }

  #goOnMoving(settle = 0): void {
    for (const move of [...this.#moving]) {
      const { from, to, session } = move;
      const endpoint = session as never as ServerEndpoint;
      const isOver = () => {
        this.#moving = this.#moving.filter((each) => each !== move);
      };
      if (!from.isAlive) isOver();
      else if (move.isTaken) {
        if (!this.#isResting && this.random() > 0.1) continue;
        isOver();
        from.moves.handleMoved(endpoint, to.name);
        from.forget(session);
      } else if (!to.isAlive) {
        isOver();
        from.moves.release(endpoint);
      } else if (from.moves.isQuiet(endpoint)) this.#handOver(move);
      else if (--move.patience > 0) continue;
      else if (this.random() < settle) {
        this.settles++;
        from.moves.settle(endpoint, new ProtocolError('draining', 'the server was drained'));
        if (from.moves.isQuiet(endpoint)) this.#handOver(move);
        else session.client.faults.push(`${session.client.name} is not quiet although it was settled`);
      } else {
        isOver();
        from.moves.release(endpoint);
      }
    }
  }

  #handOver(move: Moving): void {
    const { from, to, session } = move;
    const text = from.moves.stateOf(session as never as ServerEndpoint, 'move');
    const carried = session.snapshot();
    const moved = new SimulatedSession(session.id, session.client, to.relay, carried);
    to.sessions.set(moved.id, moved);
    to.moves.adopt(moved as never as ServerEndpoint, to.moves.read(text), from.name);
    move.isTaken = true;
    this.moves++;
  }

  #kill(): void {
    // Not in the middle of a move, whose outcome the record of the session decides.
    if (this.#moving.some(({ isTaken }) => isTaken) || this.alive.length < 2) return;
    const node = this.pick(this.alive);
    if (node !== undefined) this.world.kill(node);
  }

  #tick(): void {
    this.world.time += 1_000;
    for (const node of this.alive) node.tick();
  }

  async #comeToRest(): Promise<void> {
    this.#isResting = true;
    for (const move of this.#moving) move.patience = Math.min(move.patience, 20);
    for (let round = 0; round < 60; round++) {
      while (this.world.waiting.length > 0) this.#takeOver();
      for (const { node, session } of this.durableSessions) {
        if (session.isFenced) this.#leave(node, session);
        else session.record();
      }
      while (this.world.dialing.length > 0) this.world.dialing.shift()?.();
      for (const { pair } of this.world.ends)
        for (const end of pair) while (end.queue.length > 0) end.deliver();
      for (const { session } of this.sessions) {
        for (const stream of [...session.asked.keys()]) session.reply(stream);
        while (session.waiting > 0) session.writeOne();
        session.confirm(1_000_000);
      }
      this.#goOnMoving();
      await settled();
      this.#tick();
      await settled();
    }
  }

  /** Describes all faults in words. */
  verify(): string[] {
    const faults = this.clients.flatMap((client) => client.faults);
    for (const sender of this.clients) {
      if (sender.isLost) continue;
      for (const [to, count] of sender.sent) {
        const receiver = this.clients.find(({ name }) => name === to) as Client;
        const heard = new Set(receiver.heard.get(sender.name));
        const reported = sender.reported.get(to);
        let unnumbered = sender.unnumbered.get(to) ?? 0;
        for (let number = 1; number <= count; number++) {
          const outcome = reported?.get(number);
          if (!heard.has(number) && outcome === undefined && unnumbered-- <= 0)
            faults.push(`${sender.name} ${to} ${number} was lost`);
          if (heard.has(number) && outcome === 'not_sent')
            faults.push(`${sender.name} ${to} ${number} was heard and not sent`);
        }
      }
      for (const receiver of this.clients)
        for (const [from, number] of receiver.late) {
          // Only a message that a deadline has cut off may still be under way when its sender continues elsewhere.
          const isReported = sender.reported.get(receiver.name)?.get(number) === 'unknown';
          if (from === sender.name && !(this.settles > 0 && isReported))
            faults.push(`${receiver.name}: ${from} ${number} was late`);
        }
      for (const [stream, parts] of sender.replies) {
        const said = parts.slice(0, -1);
        if (!/^(ended|failed)/.test(parts.at(-1) ?? '')) faults.push(`${sender.name} ${stream} never ended`);
        if (said.join() !== said.map((_, i) => `part ${i + 1}`).join())
          faults.push(`${sender.name} ${stream}: ${said.join()}`);
        if (parts.at(-1) === 'ended' && said.length !== 3)
          faults.push(`${sender.name} ${stream} is incomplete`);
      }
    }
    const lost = new Set(this.clients.filter(({ isLost }) => isLost).map(({ name }) => name));
    for (const { session } of this.sessions) {
      const { client } = session;
      const open = session instanceof SimulatedDurableSession ? session.life.log.size : 0;
      if (open > 0) faults.push(`${open} messages of ${client.name} are never acknowledged`);
      if (this.durable > 0 && client.known.size === 0) continue;
      if (session.spent !== 0) faults.push(`${client.name} has ${session.spent} bytes of credit less`);
      const due = NAMES.filter((name) => name !== client.name && !lost.has(name));
      if ([...client.known.keys()].sort().join() !== due.join())
        faults.push(`${client.name} knows ${[...client.known.keys()].sort().join()}`);
      for (const name of client.gone) if (!lost.has(name)) faults.push(`${client.name}: ${name} was gone`);
    }
    for (const node of this.alive)
      if (node.peers.openRequests > 0) faults.push(`${node.peers.openRequests} requests are left`);
    return faults;
  }
}
