import type { Application } from './application.js';
import { Client } from './client.js';
import { Ledger } from './ledger.js';
import { type Connection, Network } from './network.js';
import { createRandom } from './random.js';
import { Server } from './server.js';
import { Tally } from './tally.js';
import { TIMERS, type World } from './world.js';

/**
 * One client and one server that use their session at random over a failing network, in virtual time.
 * Finally both ends settle and close, and the ledger is checked.
 */

export interface HistoryOutcome {
  /** Violations found; empty if all is well. */
  readonly faults: readonly string[];
  readonly tally: Tally;
  /** Bodies that arrived. */
  readonly delivered: number;
  /** Largest sum of unread charges at one end. */
  readonly peakUnread: number;
}

/** Time to settle in: longer than a resume window. */
const SETTLE_MS = 60_000;
const TICK_MS = 20;

export function runHistory(seed: number, steps = 1_000): HistoryOutcome {
  return new History(seed).run(steps);
}

class History {
  readonly #world: World;
  readonly #client: Client;
  readonly #server: Server;
  readonly #faults: string[] = [];
  #peakUnread = 0;
  /** Until then, connecting fails. */
  #downUntil = 0;

  constructor(seed: number) {
    const random = createRandom(seed);
    let number = 0;
    this.#world = {
      random,
      network: new Network(random, (connection) => this.#server.accept(connection)),
      ledger: new Ledger({ windowMs: TIMERS.resumeWindowMs, closingMs: TIMERS.closingTimeoutMs }),
      tally: new Tally(),
      nextNumber: () => number++,
      onUnread: (charge) => {
        this.#peakUnread = Math.max(this.#peakUnread, charge);
      },
    };
    this.#server = new Server(this.#world);
    this.#client = new Client(this.#world);
  }

  run(steps: number): HistoryOutcome {
    const { ledger, tally } = this.#world;
    for (let i = 0; i < steps; i++) this.#step();
    this.#settle();
    this.#close();
    return {
      faults: [...this.#faults, ...ledger.check()],
      tally,
      delivered: ledger.delivered,
      peakUnread: this.#peakUnread,
    };
  }

  #step(): void {
    const { random } = this.#world;
    const choice = random.below(1_000);
    if (choice < 720) this.#randomApplication()?.act();
    else if (choice < 966) this.#pass(random.below(80));
    else if (choice < 995) this.#disturb();
    else this.#intervene(choice);
    this.#pump();
  }

  /** Something that networks do. */
  #disturb(): void {
    const { random, network, tally } = this.#world;
    const { wire } = this.#client;
    const choice = random.below(100);
    if (choice < 10) {
      tally.count('network down');
      // Occasionally for longer than the resume window.
      this.#downUntil = network.now + random.below(random.chance(10) ? 15_000 : 1_500);
      network.isDown = true;
      wire?.cut();
      return;
    }
    if (wire === undefined) return;
    if (this.#client.isShakingHands && random.chance(50)) return this.#disturbHandshake(wire);
    if (choice < 25) {
      tally.count('connection frozen');
      wire.frozenUntil = network.now + random.below(2_500);
    } else if (choice < 35) {
      tally.count('one direction dead');
      wire.deafen(random.chance(50) ? 'client' : 'server');
    } else if (choice < 45) {
      this.#repeatHello(wire, 2_000);
    } else {
      this.#countCut();
      if (choice < 65) this.#client.abandon();
      else wire.cut();
    }
  }

  #disturbHandshake(wire: Connection): void {
    const { random, network, tally } = this.#world;
    // Either the same HELLO arrives twice, or the next attempt overtakes this one.
    if (random.chance(50)) return this.#repeatHello(wire, 50);
    tally.count('HELLO late');
    wire.frozenUntil = network.now + random.below(2_500);
    this.#countCut();
    this.#client.abandon();
  }

  #repeatHello({ hello }: Connection, maxDelayMs: number): void {
    const { random, network, tally } = this.#world;
    if (hello === undefined) return;
    tally.count('HELLO repeated');
    network.repeat(hello, random.below(maxDelayMs));
  }

  #countCut(): void {
    const { tally } = this.#world;
    tally.count('connection cut');
    if (!this.#client.isShakingHands) return;
    const isFirst = this.#client.session === undefined;
    tally.count(isFirst ? 'cut before the first ACCEPT' : 'cut before the ACCEPT of a resume');
    const server = this.#server.applicationOf(this.#client.session);
    if (!isFirst && server?.isEstablished) tally.count('ACCEPT of a resumed session lost');
  }

  /** Something that one end does itself. */
  #intervene(choice: number): void {
    const { random } = this.#world;
    const { session } = this.#client;
    if (choice < 996) this.#client.close();
    else if (choice < 997 && session !== undefined) this.#server.close(session);
    else if (choice < 998 && random.chance(20)) this.#server.restart();
    else this.#pass(random.below(1_000));
  }

  #randomApplication(): Application | undefined {
    const { random } = this.#world;
    return random.chance(50) ? this.#client.application : random.pick(this.#server.applications);
  }

  /** Lets both ends read everything and finish every reply, without further disturbance. */
  #settle(): void {
    const client = this.#client;
    this.#downUntil = 0;
    // The connection may be dead without either end having noticed.
    client.abandon();
    const isIdle = () =>
      client.application?.isIdle === true && this.#server.applicationOf(client.session)?.isIdle === true;
    const hasSettled = this.#until(isIdle, () => {
      client.application?.settle();
      for (const application of this.#server.applications) application.settle();
    });
    if (!hasSettled)
      this.#faults.push(`not settled: ${client.core.state}, ${client.core.channel.openStreams} streams`);
  }

  /** Closes the last session; abandoned ones end when their resume window passes. */
  #close(): void {
    const { random, ledger } = this.#world;
    const client = this.#client;
    client.isLast = true;
    const { session } = client;
    if (random.chance(50) && session !== undefined) this.#server.close(session);
    else client.close();
    this.#pump();
    if (
      !this.#until(
        () => client.hasEnded && this.#server.size === 0,
        () => {},
      )
    )
      this.#faults.push(`not closed: ${client.core.state}, ${this.#server.size} held by the server`);
    if (session === undefined || !ledger.hasEndedInOrder(session)) this.#faults.push('not closed in order');
  }

  #until(isDone: () => boolean, work: () => void): boolean {
    for (let ms = 0; ms < SETTLE_MS; ms += TICK_MS) {
      work();
      this.#pass(TICK_MS);
      if (isDone()) return true;
    }
    return false;
  }

  #pass(ms: number): void {
    const { network } = this.#world;
    network.advance(ms, () => this.#pump());
    if (network.now >= this.#downUntil) network.isDown = false;
    this.#client.handleTime();
    this.#server.handleTime();
    this.#pump();
  }

  #pump(): void {
    while (this.#client.pump() || this.#server.pump());
  }
}
