import { Extension, Subprotocol } from '../base/constants.js';
import { decodeControl } from '../control/envelope.js';
import type { HelloPayload } from '../control/messages.js';
import { createSession } from '../session/create.js';
import { createServerSession } from '../session/create-server.js';
import * as durable from '../session/durable/client-module.js';
import { fencedError } from '../session/durable/record.js';
import { restoreDurableSession } from '../session/durable/restore.js';
import type { Commit } from '../session/durable-session.js';
import type { ServerSessionCore, SessionCore, SessionEvent, SessionOptions } from '../session/types.js';
import type { Random } from './chaos/random.js';
import { MOVE_OPTIONS } from './move-options.js';
import { SimulatedEngine, type TakeOverEngine, type TakeOverFault } from './take-over-engine.js';

/**
 * One durable session, its client and the processes that have had it, in virtual time. A process can die or stand still at
 * any moment; the connection, answers of the engine and the order in which late requests reach it are up to chance.
 */

const EXTENSIONS = { ...MOVE_OPTIONS.capabilities.extensions, [Extension.DURABLE]: '1' };
const OPTIONS = {
  ...MOVE_OPTIONS,
  capabilities: { ...MOVE_OPTIONS.capabilities, extensions: EXTENSIONS },
  subprotocol: Subprotocol.BINARY,
} satisfies Omit<SessionOptions, 'role'>;

/** A process that has, or had, the session. */
export interface Owner {
  readonly core: ServerSessionCore;
  readonly epoch: number;
  isAlive: boolean;
  /** Stands still; what arrives waits. */
  isPaused: boolean;
  isFenced: boolean;
  isRecording: boolean;
  readonly inbox: (() => void)[];
  /** The one that it reads from. */
  connection: Connection | undefined;
}

interface Connection {
  owner: Owner | undefined;
  isOpen: boolean;
}

/** The applications of both ends. */
export interface Applications {
  handleClient(event: SessionEvent): void;
  handleServer(owner: Owner, event: SessionEvent): void;
}

export class TakeOverWorld {
  now = 0;
  takeOvers = 0;
  zombies = 0;
  readonly client: SessionCore;
  readonly engine: TakeOverEngine;
  readonly faults: string[] = [];
  /** How often a session has rested. */
  rests = 0;
  owners: Owner[] = [];
  #connection: Connection = { owner: undefined, isOpen: false };
  readonly #random: Random;
  readonly #fault: TakeOverFault | undefined;
  readonly #applications: Applications;
  readonly #queue: { readonly at: number; readonly order: number; readonly run: () => void }[] = [];
  #order = 0;

  /** @param engine without faults of its own. @default one that has `fault` */
  constructor(
    random: Random,
    fault: TakeOverFault | undefined,
    applications: Applications,
    engine: TakeOverEngine = new SimulatedEngine(fault),
  ) {
    this.#random = random;
    this.#fault = fault;
    this.#applications = applications;
    this.engine = engine;
    this.client = createSession({ ...OPTIONS, role: 'client' });
    this.dial();
  }

  /** The process that has the session, as far as the engine knows. */
  get owner(): Owner | undefined {
    return this.owners.find(({ epoch }) => epoch === this.engine.epoch);
  }
  get isConnected(): boolean {
    return this.#connection.isOpen;
  }

  // --- time

  later(ms: number, run: () => void): void {
    this.#queue.push({ at: this.now + ms, order: this.#order++, run });
  }

  advance(ms: number): void {
    const until = this.now + ms;
    for (let steps = 0; ; steps++) {
      if (steps > 1_000_000) throw new Error('the world never settles');
      this.#drive();
      const next = this.#queue.reduce(
        (first, one) => (one.at < first.at || (one.at === first.at && one.order < first.order) ? one : first),
        { at: Infinity, order: 0, run: () => {} },
      );
      const living = this.owners.filter(({ isPaused }) => !isPaused);
      for (const { core } of living)
        if (this.#random.chance(30) && core.isAwake && core.rest(this.now)) this.rests++;
      const timeout = Math.min(this.client.nextTimeout(), ...living.map(({ core }) => core.nextTimeout()));
      if (Math.min(next.at, timeout) > until) break;
      if (next.at <= timeout) {
        this.now = Math.max(this.now, next.at);
        this.#queue.splice(this.#queue.indexOf(next), 1);
        next.run();
      } else {
        this.now = Math.max(this.now, timeout);
        this.client.handleTimeout(this.now);
        for (const { core } of living) core.handleTimeout(this.now);
      }
    }
    this.now = until;
  }

  /** Events, commits and frames of everybody, until nothing is left to do at this instant. */
  #drive(): void {
    for (let isBusy = true; isBusy; ) {
      isBusy = false;
      for (let event = this.client.pollEvent(); event !== undefined; event = this.client.pollEvent()) {
        isBusy = true;
        if (event.type === 'disconnect') this.cut();
        this.#applications.handleClient(event);
      }
      for (const owner of this.owners) if (!owner.isPaused) isBusy = this.#driveOwner(owner) || isBusy;
      const connection = this.#connection;
      for (let frame = this.#pollClient(); frame !== undefined; frame = this.#pollClient()) {
        isBusy = true;
        const copy = typeof frame === 'string' ? frame : frame.slice();
        this.later(DELAY_MS, () => this.#deliverToServer(connection, copy));
      }
    }
  }

  #pollClient(): Uint8Array | string | undefined {
    return this.#connection.isOpen ? this.client.pollTransmit() : undefined;
  }

  #driveOwner(owner: Owner): boolean {
    const { core } = owner;
    let isBusy = false;
    for (let event = core.pollEvent(); event !== undefined; event = core.pollEvent()) {
      isBusy = true;
      if (event.type === 'hello') core.accept('sess_one', this.now, { isDurable: true });
      this.#applications.handleServer(owner, event);
    }
    if (!owner.isRecording && this.#random.chance(70)) isBusy = this.record(owner) || isBusy;
    if (!owner.isRecording && core.channel.hasUntold === true) this.later(1, () => this.record(owner));
    const connection = this.#connection;
    const isCurrent = connection.owner === owner && connection.isOpen;
    for (let frame = core.pollTransmit(); frame !== undefined; frame = core.pollTransmit()) {
      isBusy = true;
      const copy = typeof frame === 'string' ? frame : frame.slice();
      if (isCurrent) this.later(DELAY_MS, () => this.#deliverToClient(connection, copy));
    }
    return isBusy;
  }

  // --- the engine

  /** Writes the commit that waits. Returns whether there was one. */
  record(owner: Owner): boolean {
    if (owner.isRecording || owner.isPaused || !owner.isAlive || owner.isFenced) return false;
    const commit = owner.core.record?.pollCommit(this.#random.chance(10));
    if (commit === undefined) return false;
    owner.isRecording = true;
    const tellsEarly =
      (this.#fault === 'an ACCEPT does not wait for its commit' && commit.accept !== undefined) ||
      (this.#fault === 'parts are told before they are recorded' && hasParts(commit));
    if (tellsEarly) owner.core.record?.handleCommitted(this.now);
    this.#write(owner, commit, tellsEarly);
    return true;
  }

  #write(owner: Owner, commit: Commit, wasTold: boolean): void {
    const { below, chance } = this.#random;
    const isAnswered = chance(85);
    let isDone = false;
    this.later(1 + below(12), () => {
      // The request was on its way when the process died or stopped, or it was not.
      if (!owner.isAlive && chance(50)) return;
      const isRecorded = this.engine.commit(owner.epoch, commit);
      if (chance(5)) this.later(below(80), () => this.engine.commit(owner.epoch, commit));
      if (!isAnswered) return;
      isDone = true;
      this.later(1 + below(3), () =>
        this.#whenAwake(owner, () => this.#handleAnswer(owner, isRecorded, wasTold)),
      );
    });
    this.later(40, () => {
      if (!isDone) this.#whenAwake(owner, () => this.#write(owner, commit, wasTold));
    });
  }

  #handleAnswer(owner: Owner, isRecorded: boolean, wasTold: boolean): void {
    owner.isRecording = false;
    if (!isRecorded) {
      owner.isFenced = true;
      this.owners = this.owners.filter((one) => one !== owner);
      const isDialed = this.#connection.owner === owner && this.#connection.isOpen;
      owner.core.abort(fencedError(), this.now);
      if (isDialed) this.cut();
    } else if (!wasTold) {
      owner.core.record?.handleCommitted(this.now);
    }
  }

  #whenAwake(owner: Owner, run: () => void): void {
    if (!owner.isAlive || owner.isFenced) return;
    if (owner.isPaused) owner.inbox.push(run);
    else run();
  }

  // --- connections and processes

  dial(): void {
    if (this.#connection.isOpen) return;
    this.#connection = { owner: undefined, isOpen: true };
    this.client.handleConnected(this.now);
  }

  cut(code = 1006): void {
    const connection = this.#connection;
    const { owner, isOpen } = connection;
    if (!isOpen) return;
    connection.isOpen = false;
    this.client.handleDisconnected(code, '', this.now);
    if (owner === undefined) return;
    // A process notices at once or late, and one that stands still does not.
    if (this.#random.chance(50)) this.#whenAwake(owner, () => this.#handleLoss(owner, connection));
  }

  #handleLoss(owner: Owner, connection: Connection | undefined): void {
    if (connection === undefined || owner.connection !== connection) return;
    owner.connection = undefined;
    owner.core.handleDisconnected(1006, '', this.now);
  }

  kill(): void {
    const owner = this.#random.pick(this.owners);
    if (owner === undefined) return;
    owner.isAlive = false;
    this.owners = this.owners.filter((one) => one !== owner);
    if (this.#connection.owner === owner) this.cut();
  }

  /** The process stands still, and may come to life when another one has the session. */
  pause(): void {
    const { owner } = this;
    if (owner === undefined || owner.isPaused) return;
    owner.isPaused = true;
    if (this.#connection.owner === owner) this.cut();
  }

  wake(): void {
    const owner = this.owners.find(({ isPaused }) => isPaused);
    if (owner === undefined) return;
    owner.isPaused = false;
    if (owner !== this.owner) this.zombies++;
    for (const run of owner.inbox.splice(0)) run();
  }

  #deliverToClient(connection: Connection, frame: Uint8Array | string): void {
    if (connection !== this.#connection || !connection.isOpen) return;
    this.client.handleMessage(frame, this.now);
    this.client.openChannel(durable);
  }

  #deliverToServer(connection: Connection, frame: Uint8Array | string): void {
    const { owner } = connection;
    if (owner === undefined) {
      if (connection === this.#connection && connection.isOpen) this.#handleHello(connection, frame);
    } else {
      // Frames under way when the client lost the connection are still read until the process notices the loss as well.
      this.#whenAwake(owner, () => {
        if (owner.connection === connection) owner.core.handleMessage(frame, this.now);
      });
    }
  }

  #handleHello(connection: Connection, frame: Uint8Array | string): void {
    const message = decodeControl(frame as Uint8Array, OPTIONS.limits);
    if (message.type !== 'HELLO') throw new Error('expected a HELLO');
    if (message.payload.resume === undefined) {
      const owner = this.#add(createServerSession({ ...OPTIONS, role: 'server' }), this.engine.epoch);
      connection.owner = owner;
      owner.connection = connection;
      owner.core.handleConnected(this.now);
      return owner.core.handleMessage(frame, this.now);
    }
    const awake = this.owners.filter(({ isPaused }) => !isPaused);
    // A balancer knows nothing: the connection may arrive where the session was.
    const landed = this.#random.chance(40) ? this.#random.pick(awake) : undefined;
    const { owner } = this;
    if (landed !== undefined) this.#resume(connection, landed, message.payload);
    else if (owner !== undefined && !owner.isPaused) this.#resume(connection, owner, message.payload);
    else this.#takeOver(connection, message.payload);
  }

  #takeOver(connection: Connection, hello: HelloPayload): void {
    const seen = this.engine.epoch;
    this.later(1 + this.#random.below(5), () => {
      if (connection !== this.#connection || !connection.isOpen) return;
      const claimed = this.engine.claim(seen);
      if (claimed === undefined) return this.cut();
      this.takeOvers++;
      const options: SessionOptions = { ...OPTIONS, role: 'server' };
      const core = restoreDurableSession(options, claimed.record, this.now);
      const owner = this.#add(core, claimed.epoch);
      this.#resume(connection, owner, hello);
    });
  }

  #resume(connection: Connection, owner: Owner, hello: HelloPayload): void {
    const { core } = owner;
    const refusal = core.checkResume(hello, OPTIONS.subprotocol);
    if (refusal === 'stale_attempt') return this.cut(4410);
    if (refusal !== undefined || hello.resume === undefined) {
      // Only the record counts: a zombie that knows nothing of the client is asked once more.
      if (owner !== this.owner) return this.cut();
      this.faults.push(`not resumed: ${refusal}`);
      return this.cut();
    }
    this.#handleLoss(owner, owner.connection);
    connection.owner = owner;
    owner.connection = connection;
    core.resume(hello.resume, this.now);
  }

  #add(core: ServerSessionCore, epoch: number): Owner {
    const owner: Owner = {
      ...{ core, epoch, isAlive: true, isPaused: false, isFenced: false, isRecording: false, inbox: [] },
      connection: undefined,
    };
    this.owners.push(owner);
    return owner;
  }
}

const DELAY_MS = 3;
const hasParts = ({ streams }: Commit): boolean =>
  [...streams.values()].some(({ parts }) => parts.length > 0);
