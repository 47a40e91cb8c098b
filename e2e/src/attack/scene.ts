import { setTimeout as delay } from 'node:timers/promises';
import type { Subprotocol } from '@parlance/protocol';
import type { Child } from '../../../scripts/child-process.js';
import type { Bomb } from './bombs.js';
import type { NeighbourCommands } from './neighbour.js';
import type { ServerCommands, ServerName } from './server.js';
import { type Offer, Peer } from './wire.js';

/** The tools of an attack: connections that count their bytes, and a time limit. */

export interface OpenOptions {
  /** How the server's application handles the requests of this session, see server.ts. @default echo */
  readonly as?: string;
  readonly offer?: Offer;
  /** Number of the attacker. @default 0 */
  readonly principal?: number;
  readonly agentId?: string;
}

export interface SceneOptions {
  readonly server: Child<ServerCommands>;
  readonly neighbour: Child<NeighbourCommands>;
  readonly serverName: ServerName;
  readonly port: number;
  /** Differs for each attack of a run: addresses and principals are derived from it. */
  readonly serial: number;
  readonly isShort: boolean;
  readonly upstream: Upstream;
}

/** An API that answers no request, or each at once. */
export interface Upstream {
  readonly url: string;
  /** Bytes of bodies received. */
  received: number;
  /** The last body, truncated. */
  last: string;
  /** @default 'think' */
  behaviour: 'think' | 'answer';
  stop(): void;
}

export class Scene {
  sentBytes = 0;
  floors = 0;
  /** Close codes and reasons from the server, with their counts. */
  readonly answers = new Map<string, number>();
  readonly #options: SceneOptions;
  readonly #peers = new Set<Peer>();
  readonly #others: (() => void)[] = [];
  #endsAt = Infinity;

  constructor(options: SceneOptions) {
    this.#options = options;
  }

  get isShort(): boolean {
    return this.#options.isShort;
  }
  get port(): number {
    return this.#options.port;
  }
  get url(): string {
    return `ws://127.0.0.1:${this.port}/session`;
  }
  get upstream(): Upstream {
    return this.#options.upstream;
  }
  get server(): Child<ServerCommands> {
    return this.#options.server;
  }
  get neighbour(): Child<NeighbourCommands> {
    return this.#options.neighbour;
  }
  /** Whether the attack must stop. */
  get isOver(): boolean {
    return performance.now() >= this.#endsAt || this.server.end !== undefined;
  }

  begin(forMs: number): void {
    this.#endsAt = performance.now() + forMs;
  }
  stop(): void {
    this.#endsAt = 0;
  }

  /** A loopback address that only this attack uses. */
  address(index = 0): string {
    const { serial } = this.#options;
    return `127.${10 + (serial % 200)}.${1 + Math.floor(index / 200)}.${1 + (index % 200)}`;
  }

  token(behaviour: string, principal = 0): string {
    return `${behaviour}.${this.#options.serial}-${principal}`;
  }

  /** Opens a WebSocket without sending HELLO. */
  connect(index = 0, subprotocol?: Subprotocol, headers?: Record<string, string>): Peer {
    this.floors++;
    const peer = new Peer({
      port: this.port,
      address: this.address(index),
      onSent: (bytes) => {
        this.sentBytes += bytes;
      },
      ...(subprotocol && { subprotocol }),
      ...(headers && { headers }),
    });
    this.#peers.add(peer);
    void peer.closed.then(({ code, reason }) => {
      this.#peers.delete(peer);
      // Code 1006 is a cut connection, from either side.
      const answer = code === 1006 ? '' : `${code} ${reason}`.trim().slice(0, 70);
      if (answer !== '') this.answers.set(answer, (this.answers.get(answer) ?? 0) + 1);
    });
    return peer;
  }

  /** Opens a session. @throws if the server does not admit it. */
  async open({ as = 'echo', offer = {}, principal = 0, agentId }: OpenOptions = {}): Promise<Peer> {
    const peer = this.connect(principal);
    const stated = agentId === undefined ? offer : { ...offer, agentId };
    if (await peer.greet(stated, this.token(as, principal))) return peer;
    const { code, reason } = await peer.closed;
    throw new Error(`no session: ${code} ${reason}`);
  }

  /** Opens as many sessions as the server admits, up to `count`. */
  async openMany(count: number, options: OpenOptions = {}): Promise<Peer[]> {
    const opened: Peer[] = [];
    for (let i = 0; i < count && !this.isOver; i += 10) {
      const some = Array.from({ length: Math.min(10, count - i) }, () =>
        this.open(options).catch(() => undefined),
      );
      for (const peer of await Promise.all(some)) if (peer !== undefined) opened.push(peer);
    }
    return opened;
  }

  /** Sends requests with a bomb, as many as a session may have open. */
  ask(peer: Peer, { body, parts }: Bomb, count = 128): void {
    for (let i = 0; i < count && peer.isOpen; i++) {
      this.floors++;
      peer.request(body, parts);
    }
  }

  /**
   * Calls `step` until the attack is over or no connection is left, as fast as the server reads or
   * `perSecond` times per second.
   *
   * @param step returns the connection that it has written to.
   */
  async flood(step: (i: number) => Peer | undefined, perSecond = Infinity, most = 5_000_000): Promise<void> {
    const start = performance.now();
    for (let i = 0; i < most && !this.isOver; i++) {
      const due = start + (i * 1_000) / perSecond;
      const early = due - performance.now();
      if (early > 1) await delay(early);
      const peer = step(i);
      if (peer === undefined || !peer.isOpen) return;
      // Wait for the server to read, and let the event loop tick.
      if (peer.socket.bufferedAmount > 256 * 1024) {
        while (peer.socket.bufferedAmount > 64 * 1024 && peer.isOpen && !this.isOver) await delay(2);
      } else if (i % 64 === 63) await new Promise((resolve) => setImmediate(resolve));
    }
  }

  /** Waits until the attack is over. */
  async wait(): Promise<void> {
    while (!this.isOver) await delay(20);
  }

  /** Cuts all connections; resumable sessions become suspended. */
  cut(): void {
    for (const peer of this.#peers) peer.cut();
    for (const cut of this.#others.splice(0)) cut();
  }

  /** Calls `cut` with those of the connections that are not of clients. */
  onCut(cut: () => void): void {
    this.#others.push(cut);
  }

  get openPeers(): number {
    let count = 0;
    for (const peer of this.#peers) if (peer.isOpen) count++;
    return count;
  }
}
