import type { ServerWire, WireEvents } from '../../http/ws.js';

/** Two ends of a connection of this node to itself. What one sends reaches the other in a later microtask, in order. */
export function createLoopback(): readonly [LoopbackWire, LoopbackWire] {
  const [near, far] = [new LoopbackWire(), new LoopbackWire()];
  near.connect(far);
  far.connect(near);
  return [near, far];
}

class LoopbackWire implements Pick<ServerWire, 'send' | 'terminate' | 'listen'> {
  #other: LoopbackWire | undefined;
  #events: WireEvents | undefined;
  #isOver = false;

  connect(other: LoopbackWire): void {
    this.#other = other;
  }

  listen(events: WireEvents): void {
    this.#events = events;
  }

  send(data: Uint8Array | string): void {
    queueMicrotask(() => this.#other?.deliver(data));
  }

  terminate(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    queueMicrotask(() => this.#other?.handleClosed());
  }

  deliver(data: Uint8Array | string): void {
    if (!this.#isOver) this.#events?.onMessage(data, data.length);
  }

  handleClosed(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#events?.onClose(1006, '');
  }
}
