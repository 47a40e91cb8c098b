import type { NetworkNode } from '../../../cluster/link/testing/network.js';
import { PATHS } from '../../../cluster/peer-port.js';
import type { Transport, TransportEvents } from '../../../transport/transport.js';
import type { Counts } from './traffic.js';
import type { VirtualTime } from './virtual-time.js';

/** From one node to another, in milliseconds. */
const WAY_MS = 1;
/** A process that has just died refuses; a connection that is opened takes a round trip for TCP and one for the upgrade. */
const DIAL_MS = 4 * WAY_MS;
/** Bytes of the head of a frame, with a mask from the node that has opened the connection. */
const frameBytes = (length: number, isMasked: boolean) =>
  length + 2 + (length < 126 ? 0 : length < 65_536 ? 2 : 8) + (isMasked ? 4 : 0);
/** Of the upgrade and its answer, with ticket. */
const UPGRADE_BYTES = 700 + PATHS.link.length;

/** Connections between nodes in virtual time. */
export class ScaleNetwork {
  readonly #time: VirtualTime;
  readonly #counts: Counts;
  readonly #find: (name: string) => NetworkNode | undefined;
  readonly #ends = new Map<NetworkNode, Set<End>>();
  opened = 0;

  constructor(time: VirtualTime, counts: Counts, find: (name: string) => NetworkNode | undefined) {
    this.#time = time;
    this.#counts = counts;
    this.#find = find;
  }

  dial(
    from: NetworkNode,
    name: string,
    onOpen: (wire: Transport) => void,
    onFailed: (why: unknown) => void,
  ): void {
    this.#time.at(this.#time.now() + DIAL_MS, () => {
      const to = this.#find(name);
      if (!from.isAlive) return;
      if (to?.isAlive !== true) return onFailed(new Error('refused'));
      this.opened++;
      this.#counts.add('open', 1, UPGRADE_BYTES, this.#time.now());
      const near = new End(this.#time, this.#counts, true);
      const far = new End(this.#time, this.#counts, false);
      near.other = far;
      far.other = near;
      this.#endsOf(from).add(near);
      this.#endsOf(to).add(far);
      to.links.accept(far as never as Transport, from.name);
      onOpen(near as never as Transport);
    });
  }

  #endsOf(node: NetworkNode): Set<End> {
    const ends = this.#ends.get(node) ?? new Set<End>();
    this.#ends.set(node, ends);
    return ends;
  }

  /** The process is gone, and its host closes its connections. */
  kill(node: NetworkNode): void {
    for (const end of this.#endsOf(node)) end.die();
    this.#ends.delete(node);
  }
}

class End implements Pick<Transport, 'send' | 'terminate' | 'listen'> {
  readonly #time: VirtualTime;
  readonly #counts: Counts;
  readonly #isMasked: boolean;
  other!: End;
  #events: TransportEvents | undefined;
  #isOver = false;

  constructor(time: VirtualTime, counts: Counts, isMasked: boolean) {
    this.#time = time;
    this.#counts = counts;
    this.#isMasked = isMasked;
  }

  listen(events: TransportEvents): void {
    this.#events = events;
  }

  send(data: Uint8Array | string): void {
    if (this.#isOver) return;
    this.#counts.add(kindOf(data), 1, frameBytes(data.length, this.#isMasked), this.#time.now());
    const { other } = this;
    this.#time.at(this.#time.now() + WAY_MS, () => {
      if (!other.#isOver) other.#events?.onMessage(data, data.length);
    });
  }

  terminate(): void {
    this.die();
  }

  die(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    const { other } = this;
    this.#time.at(this.#time.now() + WAY_MS, () => {
      if (other.#isOver) return;
      other.#isOver = true;
      other.#events?.onClose(1006, '');
    });
  }
}

/** The head of a message is a list that begins with service and type. */
const kindOf = (data: Uint8Array | string): string => (data.length < 16 ? 'ping' : 'groups');
