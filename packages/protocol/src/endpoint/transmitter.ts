import { CloseCode } from '../base/close-codes.js';
import type { Clock, Sweepable } from '../platform/clock.js';
import { LifecycleState } from '../session/lifecycle.js';
import type { SessionCore } from '../session/types.js';
import { attempt } from './guard.js';
import type { Wire } from './ports.js';
import type { StatsRecorder } from './stats.js';

/** Bytes that a wire buffers unless it says otherwise. */
const HIGH_WATER = 256 * 1024;
/** Milliseconds between two looks at the buffer of a socket that has no drain event. */
const DRAIN_POLL_MS = 4;
/** Timeouts nearer than this do not wait for the coarse clock, which ticks at least as often. */
const SHORT_TIMEOUT_MS = 1_100;

/** The endpoint whose session is written. */
export interface TransmitterHost extends Sweepable {
  readonly core: SessionCore;
  readonly recorder: StatsRecorder;
  /** Never throws. */
  pump(): void;
}

/**
 * Writes the frames of the core to the connection, pauses reading while the receive window is full, and looks again when
 * the core has something to do soon.
 */
export class Transmitter {
  readonly #host: TransmitterHost;
  readonly #clock: Clock;
  /** The short timer calls `handleTick` as well. */
  isTickSoon = false;
  /** Something has arrived, or the session closes: {@link settle} looks whether the core has to be called soon. */
  isUnsettled = false;
  #isLost = false;
  #isPolling = false;
  #isReading = true;
  #wire: Wire | undefined;
  /** The core has asked to close the connection. */
  #disconnect: { readonly code: number; readonly reason: string } | undefined;

  constructor(host: TransmitterHost, clock: Clock) {
    this.#host = host;
    this.#clock = clock;
  }

  get wire(): Wire | undefined {
    return this.#wire;
  }
  get isReading(): boolean {
    return this.#isReading;
  }

  /** @param wire the connection that carries the session from now on; `undefined` if the last one is gone. */
  attach(wire: Wire | undefined): void {
    this.#host.recorder.attach?.(wire);
    this.#wire = wire;
    this.#isReading = true;
  }

  /** {@link closeWire} is to close the connection. The first reason counts. */
  disconnect(code: number, reason: string): void {
    this.#disconnect ??= { code, reason };
  }

  /** The connection is gone. */
  lose(): void {
    this.attach(undefined);
    this.#isLost = true;
  }

  /** Closes the connection if the core has asked for that. Returns whether the session may need another one. */
  closeWire(): boolean {
    const isLost = this.#isLost;
    this.#isLost = false;
    if (this.#disconnect === undefined) return isLost;
    const { code, reason } = this.#disconnect;
    this.#disconnect = undefined;
    this.#wire?.close(code, reason);
    const { lifecycle } = this.#host.core;
    if (lifecycle !== LifecycleState.SUSPENDED && lifecycle !== LifecycleState.CLOSING) return isLost;
    // A peer that does not answer will not take part in a closing handshake either.
    this.attach(undefined);
    return true;
  }

  /** Drops the connection with the reason of a close frame. Never throws. */
  cutOff(reason: string): void {
    const wire = this.#wire;
    this.attach(undefined);
    const failed = attempt(() => wire?.close(CloseCode.INTERNAL, reason));
    if (failed !== undefined) attempt(() => wire?.terminate?.());
  }

  transmit(): void {
    const wire = this.#wire;
    if (wire === undefined) return;
    const { core } = this.#host;
    const { highWater = HIGH_WATER } = wire;
    let isCurrent = false;
    for (let room = highWater - wire.bufferedAmount; room > 0; ) {
      const frame = core.pollTransmit();
      if (frame === undefined) {
        if (isCurrent || !core.isPaced) return;
        // The pacer of the core uses the time of the last event: update it once.
        isCurrent = true;
        core.handleTimeout(this.#clock.now());
        this.#clock.soon(this.#host);
        continue;
      }
      room -= frame.length;
      this.#host.recorder.sent(frame.length);
      wire.send(frame);
      // The wire may have sent everything already.
      if (room <= 0) room = highWater - wire.bufferedAmount;
    }
    if (core.hasOutput) this.#pollForRoom();
  }

  /**
   * Stops reading while the core is full: a peer without credit-based flow control can only be held back so.
   */
  pauseWhileFull(): void {
    const { core } = this.#host;
    if (core.isFull && this.#isReading && this.#wire?.pause !== undefined) {
      this.#isReading = false;
      this.#wire.pause();
    } else if (!core.isFull && !this.#isReading) {
      this.#isReading = true;
      this.#wire?.resume?.();
    }
  }

  /** The effects of what has arrived are applied. */
  settle(): void {
    if (!this.isUnsettled) return;
    this.isUnsettled = false;
    this.pauseWhileFull();
    // An acknowledgement, or the end of closing, may be due before the coarse clock ticks.
    if (!this.isTickSoon) this.tickSoon(this.#clock.now());
  }

  /** Has the host called at the next timeout of its core, if that is near. */
  tickSoon(now: number, next = this.#host.core.nextTimeout()): void {
    const wait = next - now;
    if (wait >= SHORT_TIMEOUT_MS) return;
    this.isTickSoon = true;
    const host = this.#host;
    // Handlers work for a suspended session until its window ends, so it has to end on time.
    if (host.core.state === 'suspended') this.#clock.after(Math.max(0, wait), () => host.handleTick());
    else this.#clock.soon(host);
  }

  /** Not every socket has a drain event. */
  #pollForRoom(): void {
    if (this.#isPolling) return;
    this.#isPolling = true;
    this.#clock.after(DRAIN_POLL_MS, () => {
      this.#isPolling = false;
      this.#host.pump();
    });
  }
}
