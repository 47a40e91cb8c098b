import { CloseCode, type Limits, type ProtocolError } from '@parlance/protocol';
import { type MemoryBudget, systemClock, TokenBucket } from '@parlance/protocol/internal';
import { Meter } from '../meter.js';
import { type Transport, type TransportEvents, terminateSoon } from '../transport.js';
import { FREE_UNFINISHED, UnfinishedMessage } from '../unfinished-message.js';

/**
 * Holds a WebSocket whose messages are not those of a session to the bounds of a session: a message that is still arriving is
 * charged to the memory of the process, and pings, pongs and fragment headers have rates. Its client knows no rates of messages
 * and bytes, so the WebSocket is not read while they are exceeded.
 */
export function bounded(wire: Transport, limits: Limits, budget: MemoryBudget): Transport {
  const { listen } = wire;
  const meter = new Meter(wire, limits);
  const memory = budget.open(limits.sessionMemory);
  let bytes = 0;
  let unfinished: UnfinishedMessage | undefined;
  const release = (): void => {
    bytes = 0;
    unfinished?.release();
    unfinished = undefined;
  };
  const begun = systemClock.now();
  const messages = bucketOf(limits.messagesPerMinute, 60_000, begun);
  const received = bucketOf(limits.bytesPerSecond, 1_000, begun);
  let endPause: (() => void) | undefined;
  const pauseIfFast = (): void => {
    const now = systemClock.now();
    const readyAt = Math.max(messages?.readyAt(0, now) ?? now, received?.readyAt(0, now) ?? now);
    if (readyAt <= now || endPause !== undefined) return;
    wire.hold();
    endPause = systemClock.after(readyAt - now, () => {
      endPause = undefined;
      wire.unhold();
    });
  };
  /** Closes the WebSocket if there is too much. */
  const isExcess = (excess: ProtocolError | undefined): boolean => {
    if (excess === undefined) return false;
    wire.close(CloseCode.RATE_LIMITED, excess.message);
    terminateSoon(wire);
    return true;
  };
  const within = (events: Partial<TransportEvents>): TransportEvents => ({
    onMessage(data, size, isPart) {
      release();
      messages?.spend(1, systemClock.now());
      if (!isExcess(meter.handleMessage(size, systemClock.now))) events.onMessage?.(data, size, isPart);
    },
    onControl() {
      if (!isExcess(meter.handleControl(systemClock.now()))) events.onControl?.();
    },
    onData(size) {
      bytes += size;
      received?.spend(size, systemClock.now());
      pauseIfFast();
      if (bytes > (unfinished?.charged ?? FREE_UNFINISHED)) {
        unfinished ??= new UnfinishedMessage(memory, wire);
        unfinished.grow();
      }
      events.onData?.(size);
    },
    onDrain: () => events.onDrain?.(),
    onClose(code, reason) {
      endPause?.();
      release();
      memory.close();
      events.onClose?.(code, reason);
    },
    onFault: (error) => events.onFault?.(error),
  });
  // Also one that nothing listens to yet.
  listen.call(wire, within({}));
  return Object.assign(wire, { listen: (events: TransportEvents) => listen.call(wire, within(events)) });
}

/** Bursts that a receiver allows, as in a session. */
const TOLERANCE = 2;

function bucketOf(rate: number, perMs: number, now: number): TokenBucket | undefined {
  return rate === Infinity ? undefined : new TokenBucket(TOLERANCE * rate, rate / perMs, now);
}
