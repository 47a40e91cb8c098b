import { ProtocolError, type Subprotocol } from '@parlance/protocol';
import { guard, systemClock } from '@parlance/protocol/internal';
import { addressKey } from '../transport/http/addresses.js';
import type { Refusal } from '../transport/http/site.js';
import { LoopQueue } from '../transport/loop-queue.js';
import { Meter } from '../transport/meter.js';
import { type Transport, type TransportEvents, terminateSoon } from '../transport/transport.js';
import { FREE_UNFINISHED, isOverlong, UnfinishedMessage } from '../transport/unfinished-message.js';
import { type Greeted, Greeting } from './admission/greeting.js';
import type { KnownPeer, ProxyTarget, Target } from './admission/lookup.js';
import type { SessionHost } from './host.js';

/** Reading up to this many bytes of an unfinished message is not counted as time of the loop. */
const UNTIMED_UNFINISHED = 64 * 1024;
/**
 * Messages that arrived together take effect together, up to this many: their effects are handlers that run, and time of the
 * loop is shared between messages.
 */
const MAX_TOGETHER = 8;

/**
 * One accepted connection: feeds the {@link Greeting} that answers its HELLO, then what that has made of it.
 *
 * There is one per connection, so keep it small: shared values are read from the host, event handlers are prototype
 * methods, and what only a long message needs exists only that long.
 */
export class Connection implements TransportEvents, Greeted {
  readonly queue: LoopQueue;
  readonly #transport: Transport;
  readonly #meter: Meter;
  /** A greeting, then a session of this server, or the proxy of one at another node. */
  #target: Target;
  /** Bytes that have arrived since the last whole message. */
  #unfinishedBytes = 0;
  /** Messages of this read whose effects wait. */
  #together = 0;
  #unfinished: UnfinishedMessage | undefined;
  #isCutOff = false;

  /**
   * @param refusal a decision made at the upgrade. It is sent in REJECT, because a browser hides an HTTP refusal from
   * its page.
   * @param hello has come with the upgrade request, and counts as the first message.
   */
  constructor(
    host: SessionHost,
    transport: Transport,
    peer: KnownPeer,
    subprotocol: Subprotocol,
    refusal: Refusal | undefined,
    hello?: Uint8Array,
  ) {
    this.#transport = transport;
    // Before authentication only the address is known.
    this.queue = new LoopQueue(host.loop, transport, `address ${addressKey(peer.ip)}`);
    this.#meter = new Meter(transport, host.options.limits);
    const greeting = new Greeting(host, transport, subprotocol, peer, this);
    this.#target = greeting;
    transport.listen(this);
    if (refusal !== undefined) guard(greeting, () => greeting.refuse(refusal));
    else host.onConnected(greeting, peer);
    if (hello === undefined) return;
    greeting.spend(hello.length);
    this.onMessage(hello, hello.length);
  }

  handOver(target: Target | ProxyTarget): void {
    // The memory of a proxy is about to close, and what waits for it would wait for ever.
    this.#releaseUnfinished();
    this.#target = target;
    if ('onHandedOver' in target) target.onHandedOver = (session) => this.handOver(session);
  }

  onData(size: number): void {
    this.#unfinishedBytes += size;
    this.#together = 0;
    this.#target.handleRead?.();
    if (this.#unfinishedBytes <= UNTIMED_UNFINISHED || this.#isCutOff) return;
    guard(this.#target, () => {
      this.queue.enterReading(systemClock.now());
      if (this.#unfinishedBytes > (this.#unfinished?.charged ?? FREE_UNFINISHED)) this.#chargeUnfinished();
    });
  }

  #chargeUnfinished(): void {
    const { memory, longestMessage: longest } = this.#target;
    // A greeting has a bound of its own.
    if (memory === undefined || longest === undefined) return;
    if (isOverlong(this.#unfinishedBytes, longest)) {
      const message = `a WebSocket message of more than ${longest} bytes`;
      this.#cutOff(new ProtocolError('message_too_large', message));
      // These bytes are held until the connection is gone, but the session is not charged for them any more.
      terminateSoon(this.#transport);
      return;
    }
    this.#unfinished ??= new UnfinishedMessage(memory, this.#transport);
    this.#unfinished.grow();
  }

  #releaseUnfinished(): void {
    this.#unfinished?.release();
    this.#unfinished = undefined;
  }

  onMessage(data: Uint8Array | string, size: number, isPart = false): void {
    this.#unfinishedBytes = 0;
    if (this.#unfinished !== undefined) this.#releaseUnfinished();
    const now = systemClock.now();
    if (this.queue.enter(now)) {
      const waits = isPart && ++this.#together < MAX_TOGETHER;
      if (!waits) this.#together = 0;
      this.#handle(data, size, now, waits);
    } else this.queue.push(() => this.#handle(data, size, systemClock.now(), false));
  }

  #handle(data: Uint8Array | string, size: number, now: number, isPart: boolean): void {
    if (this.#isCutOff) return;
    try {
      const excess = this.#meter.handleMessage(size, systemClock.now);
      if (excess === undefined) this.#target.handleMessage(data, this.#transport, now, isPart);
      else this.#cutOff(excess);
    } catch (error) {
      this.#target.crash(error);
    }
  }

  onControl(): void {
    if (this.#isCutOff) return;
    guard(this.#target, () => {
      const excess = this.#meter.handleControl(systemClock.now());
      if (excess !== undefined) this.#cutOff(excess);
    });
  }

  onDrain(): void {
    guard(this.#target, () => this.#target.handleWritable());
  }

  onClose(code: number, reason: string): void {
    // Messages that arrived before the close are handled before it.
    if (this.queue.isEmpty) this.#handleClosed(code, reason);
    else this.queue.push(() => this.#handleClosed(code, reason));
  }

  #handleClosed(code: number, reason: string): void {
    this.#releaseUnfinished();
    guard(this.#target, () => this.#target.handleDisconnected(code, reason, this.#transport));
    this.queue.close();
  }

  onFault(error: unknown): void {
    this.#target.crash(error);
  }

  /** If another connection carries the session by now, only this connection ends. */
  #cutOff(error: ProtocolError): void {
    this.#isCutOff = true;
    if (this.#target.wire === this.#transport) this.#target.abort(error);
    else this.#transport.terminate();
  }
}
