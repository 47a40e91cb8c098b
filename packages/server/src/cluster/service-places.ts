import type { Duplex } from 'node:stream';

export interface PlacesLimits {
  /** Connections of one node; the oldest one gives way to the next. */
  readonly ofNode: number;
  /** Connections of all nodes; a further one is refused. */
  readonly ofAll: number;
}

/** A node has one connection for a service, and those that have broken unnoticed. */
const SERVICE_PLACES: PlacesLimits = { ofNode: 4, ofAll: 1_024 };

/** Connections of other nodes for one service, as long as their sockets are open. */
export class ServicePlaces {
  readonly #limits: PlacesLimits;
  /** By node, oldest first. */
  readonly #byNode = new Map<string, Set<Duplex>>();
  #size = 0;

  constructor(limits = SERVICE_PLACES) {
    this.#limits = limits;
  }

  get size(): number {
    return this.#size;
  }

  /** Returns whether there is a place for a connection of `node`. */
  tryTake(node: string, socket: Duplex): boolean {
    const { ofNode, ofAll } = this.#limits;
    const others = this.#byNode.get(node) ?? new Set();
    const [oldest] = others.size >= ofNode ? others : [];
    if (oldest !== undefined) {
      this.#leave(node, oldest);
      oldest.destroy();
    }
    if (this.#size >= ofAll) return false;
    this.#byNode.set(node, others.add(socket));
    this.#size++;
    socket.once('close', () => this.#leave(node, socket));
    return true;
  }

  #leave(node: string, socket: Duplex): void {
    const others = this.#byNode.get(node);
    if (others?.delete(socket) !== true) return;
    this.#size--;
    if (others.size === 0) this.#byNode.delete(node);
  }
}
