import type { Random } from './random.js';

/**
 * Connections in virtual time that are slow, freeze, die in one direction and are cut. The network knows
 * frames and close codes, but not the protocol.
 */

export type Frame = Uint8Array | string;
export type Side = 'client' | 'server';

/** One end of a connection, until it learns that the connection is closed. */
export interface Party {
  handleFrame(frame: Frame): void;
  /** The connection is closed; the code is 1006 if neither end closed it. */
  handleClose(code: number): void;
}

/** A frame in flight, or the close after the last frame. */
interface Item {
  readonly at: number;
  readonly frame?: Frame;
  readonly code?: number;
}

interface Pipe {
  readonly items: Item[];
  /** Accepts nothing more: its end has closed, or the connection was cut. */
  isShut: boolean;
  /** Drops everything without notice. */
  isDead: boolean;
}

const MAX_DELAY_MS = 60;
/** Frames that a socket buffers. */
const CAPACITY = 50;

export class Connection {
  readonly #network: Network;
  readonly #pipes: Readonly<Record<Side, Pipe>> = { client: createPipe(), server: createPipe() };
  readonly #parties: Partial<Record<Side, Party>> = {};
  /** Nothing is delivered before this time. */
  frozenUntil = 0;
  /** The first frame of the client. */
  hello: Frame | undefined;

  constructor(network: Network) {
    this.#network = network;
  }

  get isOver(): boolean {
    return this.#parties.client === undefined && this.#parties.server === undefined;
  }

  join(side: Side, party: Party): void {
    this.#parties[side] = party;
  }

  isFull(from: Side): boolean {
    return this.#pipes[from].items.length >= CAPACITY;
  }

  /** Sends a copy, as a socket does: the sender reuses its memory. */
  send(from: Side, frame: Frame): void {
    if (from === 'client') this.hello ??= frame.slice();
    this.#push(from, { frame: frame.slice() });
  }

  /** `from` leaves: it receives nothing more, and the other end receives `code` after every frame sent. */
  close(from: Side, code: number): void {
    delete this.#parties[from];
    this.#push(from, { code });
    this.#pipes[from].isShut = true;
  }

  /** Drops a random number of the last frames in flight; each end notices after a delay of its own. */
  cut(): void {
    for (const side of ['client', 'server'] as const) this.#shut(side);
  }

  /** `side` gives up the connection; frames it has sent may still arrive. */
  abandon(side: Side): void {
    this.close(side, 1006);
  }

  /** From now on nothing that `from` sends arrives, and neither end is notified. */
  deafen(from: Side): void {
    this.#pipes[from].isDead = true;
    this.#pipes[from].items.length = 0;
  }

  /** When the next item may be delivered. */
  get due(): number {
    const first = Math.min(...this.#heads().map(({ item }) => item.at));
    return Math.max(first, this.frozenUntil);
  }

  /** Delivers the item that is due first. */
  deliver(): void {
    const heads = this.#heads();
    const head = heads.reduce((a, b) => (b.item.at < a.item.at ? b : a));
    this.#pipes[head.from].items.shift();
    const to = head.from === 'client' ? 'server' : 'client';
    const party = this.#parties[to];
    if (head.item.code !== undefined) {
      delete this.#parties[to];
      party?.handleClose(head.item.code);
    } else if (head.item.frame !== undefined) {
      party?.handleFrame(head.item.frame);
    }
  }

  #heads(): { readonly from: Side; readonly item: Item }[] {
    return (['client', 'server'] as const).flatMap((from) => {
      const [item] = this.#pipes[from].items;
      return item === undefined ? [] : [{ from, item }];
    });
  }

  #push(from: Side, content: Pick<Item, 'frame' | 'code'>, delayMs = this.#network.delay()): void {
    const { items, isShut, isDead } = this.#pipes[from];
    if (isShut || isDead) return;
    const last = items.at(-1)?.at ?? 0;
    items.push({ at: Math.max(last, this.#network.now + delayMs), ...content });
  }

  #shut(from: Side): void {
    const { random } = this.#network;
    const pipe = this.#pipes[from];
    if (pipe.isShut) return;
    pipe.items.length = random.below(pipe.items.length + 1);
    // A dead direction stays silent, so the other end has to find out by itself.
    this.#push(from, { code: 1006 }, random.chance(20) ? random.below(3_000) : undefined);
    pipe.isShut = true;
  }
}

export class Network {
  now = 0;
  /** Connecting fails. */
  isDown = false;
  readonly random: Random;
  readonly #accept: (connection: Connection) => Party;
  #connections: Connection[] = [];

  constructor(random: Random, accept: (connection: Connection) => Party) {
    this.random = random;
    this.#accept = accept;
  }

  delay(): number {
    return 1 + this.random.below(MAX_DELAY_MS);
  }

  connect(client: Party): Connection {
    const connection = new Connection(this);
    connection.join('client', client);
    connection.join('server', this.#accept(connection));
    this.#connections.push(connection);
    return connection;
  }

  /** Sends a HELLO again, on a connection without a client. */
  repeat(hello: Frame, delayMs: number): void {
    const connection = this.connect({ handleFrame() {}, handleClose() {} });
    connection.frozenUntil = this.now + delayMs;
    connection.send('client', hello);
    connection.close('client', 1006);
  }

  /** Lets `ms` pass. @param afterEach runs after every delivery. */
  advance(ms: number, afterEach: () => void): void {
    const until = this.now + ms;
    for (;;) {
      this.#connections = this.#connections.filter((connection) => !connection.isOver);
      let next: Connection | undefined;
      for (const connection of this.#connections) {
        if (connection.due <= until && connection.due < (next?.due ?? Infinity)) next = connection;
      }
      if (next === undefined) break;
      this.now = Math.max(this.now, next.due);
      next.deliver();
      afterEach();
    }
    this.now = until;
  }
}

function createPipe(): Pipe {
  return { items: [], isShut: false, isDead: false };
}
