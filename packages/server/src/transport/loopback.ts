import { setImmediate } from 'node:timers';
import { copyBytes } from '@parlance/protocol/internal';
import { Reading } from './reading.js';
import type { Transport, TransportEvents } from './transport.js';

/** The code of a connection that ends without a closing handshake. */
const ABNORMAL = 1006;

/**
 * Two transports that carry to each other what is sent, within this process: in order, in a later tick of the event loop. Messages
 * that are not read wait at their sender.
 */
export function createLoopback(): readonly [Transport, Transport] {
  const [one, other] = [new End(), new End()];
  one.peer = other;
  other.peer = one;
  return [one, other];
}

interface Closing {
  readonly code: number;
  readonly reason: string;
}

class End extends Reading implements Transport {
  declare peer: End;
  readonly traffic = { sent: 0, received: 0 };
  readonly overhead = 0;
  #events: TransportEvents | undefined;
  /** Messages of the peer, and their bytes. */
  readonly #arrived: (Uint8Array | string)[] = [];
  #waiting = 0;
  #isScheduled = false;
  /** This end has closed, and sends nothing any more. */
  #closing: Closing | undefined;
  #isOver = false;

  get bufferedAmount(): number {
    return this.peer.#waiting;
  }

  send(frame: Uint8Array | string): void {
    if (this.#closing !== undefined || this.#isOver) return;
    const size = sizeOf(frame);
    this.traffic.sent += size;
    // The sender uses its memory again.
    this.peer.#arrived.push(typeof frame === 'string' ? frame : copyBytes(frame));
    this.peer.#waiting += size;
    this.peer.#schedule();
  }

  listen(events: TransportEvents): void {
    this.#events = events;
    this.#schedule();
  }

  close(code: number, reason: string): void {
    this.#closing ??= { code, reason };
    this.peer.#schedule();
  }

  terminate(): void {
    if (this.#isOver) return;
    setImmediate(() => {
      this.#end({ code: ABNORMAL, reason: '' });
      this.peer.#end({ code: ABNORMAL, reason: '' });
    });
  }

  protected override setFlow(): void {
    this.#schedule();
  }

  /** Once this end has closed, it reads in any case, so that it notices the end of the other one. */
  get #isRead(): boolean {
    return this.#closing !== undefined || !this.isHeld;
  }

  #schedule(): void {
    if (this.#isScheduled || this.#isOver || this.#events === undefined) return;
    this.#isScheduled = true;
    setImmediate(() => {
      this.#isScheduled = false;
      this.#deliver();
    });
  }

  /** Delivers what has arrived until now; what is sent meanwhile has a turn of its own. */
  #deliver(): void {
    const { peer } = this;
    let count = 0;
    for (let left = this.#arrived.length; left > 0 && this.#isRead && !this.#isOver; left--, count++) {
      const data = this.#arrived.shift() as Uint8Array | string;
      const size = sizeOf(data);
      this.#waiting -= size;
      this.traffic.received += size;
      this.#events?.onData(size);
      this.#events?.onMessage(data, size);
    }
    if (count > 0 && !peer.#isOver) peer.#events?.onDrain();
    if (this.#isOver || this.#arrived.length > 0 || peer.#closing === undefined) return;
    this.close(peer.#closing.code, peer.#closing.reason);
    this.#end(peer.#closing);
  }

  #end({ code, reason }: Closing): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#arrived.length = 0;
    this.#waiting = 0;
    this.#events?.onClose(code, reason);
  }
}

function sizeOf(data: Uint8Array | string): number {
  return typeof data === 'string' ? Buffer.byteLength(data) : data.length;
}
