import { ProtocolError, type SessionEvent } from '@parlance/protocol';
import type { Relay } from '../../relay.js';
import { type Body, type Client, type Queued, SimulatedSession } from './simulated-session.js';

/** A durable session without its core: its record, the state of its client, and the process that has it. */

/** The state of a session that outlives processes. */
export class Life {
  readonly client: Client;
  readonly sessionId: string;
  /** The process that may write the record. */
  epoch = 0;
  readonly heard = new Map<string, number>();
  /** All messages to the client, of which it has received the first ones. */
  readonly said: Queued[] = [];
  received = 0;
  /** Messages of the client that are not acknowledged, by their numbers. */
  readonly log = new Map<number, { readonly to: string; readonly number: number }>();
  last = 0;

  constructor(client: Client, sessionId: string) {
    this.client = client;
    this.sessionId = sessionId;
  }
}

/** Events of a session since its last commit. */
interface Commit {
  readonly said: Queued[];
  readonly heard: [sender: string, number: number][];
  readonly settled: number[];
  readonly waiting: (() => void)[];
}

const newCommit = (): Commit => ({ said: [], heard: [], settled: [], waiting: [] });

/** How long other nodes wait for its agent when its node is gone, in milliseconds of the world. */
const RETENTION_MS = 600_000;

export class SimulatedDurableSession extends SimulatedSession {
  override readonly retentionMs = RETENTION_MS;
  readonly life: Life;
  isElsewhere = false;
  /** It takes nothing any more, and its process will forget it. */
  isGivenUp = false;
  readonly #epoch: number;
  #commit = newCommit();

  /** A process continues a session, or begins it. */
  constructor(life: Life, relay: Relay) {
    super(life.sessionId, life.client, relay);
    this.life = life;
    this.#epoch = ++life.epoch;
    this.queue = life.said.slice(life.received);
  }

  override get core() {
    return { ...this.plainCore, record: this.durable };
  }

  /** The core of a session that is not durable. */
  get plainCore() {
    return { ...super.core };
  }

  get durable() {
    return {
      heard: new Map(this.life.heard),
      hear: (sender: string, number: number): void => {
        this.#commit.heard.push([sender, number]);
      },
      afterCommit: (then: () => void): void => {
        this.#commit.waiting.push(then);
      },
    };
  }

  override get isFenced(): boolean {
    return this.isGivenUp || this.#epoch !== this.life.epoch;
  }

  override perform(command: (core: unknown) => unknown): unknown {
    if (this.isGivenUp) throw new ProtocolError('session_closed', 'the session continues elsewhere');
    return super.perform(command);
  }
  override tell(command: (core: unknown) => void): void {
    if (!this.isGivenUp) super.tell(command);
  }

  protected override put(_stream: number, { bytes, address, metadata, onWritten }: Body): void {
    const isMarked = metadata !== undefined;
    this.#commit.said.push({
      stream: 0,
      text: new TextDecoder().decode(bytes),
      from: address,
      isMarked,
      onWritten,
    });
  }

  /** A message of the client is settled. */
  handleDone(number: number): void {
    this.#commit.settled.push(number);
  }

  /** Records what has happened, and reports it afterwards. */
  record(): void {
    if (this.isFenced) return;
    const { said, heard, settled, waiting } = this.#commit;
    this.#commit = newCommit();
    const { life } = this;
    for (const [sender, number] of heard) {
      if (number === 0) life.heard.delete(sender);
      else life.heard.set(sender, number);
    }
    life.said.push(...said);
    for (const number of settled) life.log.delete(number);
    this.queue.push(...said);
    for (const then of waiting) then();
  }

  /** The client of another process is not connected to this one. */
  override writeOne(): void {
    if (this.isFenced || this.waiting === 0) return;
    super.writeOne();
    this.life.received++;
  }

  protected override sayNumbered(number: number, to: string): void {
    const { life } = this;
    life.log.set(++life.last, { to, number });
    this.#say(life.last, false);
  }

  #say(place: number, redelivered: boolean): void {
    const { to, number } = this.life.log.get(place) as { to: string; number: number };
    const body = this.bodyOf(`${this.client.name} ${number}`, to);
    this.take({ type: 'message', number: place, redelivered, body } as SessionEvent);
  }

  /** The client says again what was not acknowledged. */
  goOn(): void {
    for (const place of [...this.life.log.keys()]) this.#say(place, true);
  }
}
