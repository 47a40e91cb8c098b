import { CloseCode, type Limits, type ProtocolError } from '@parlance/protocol';
import { type MemoryBudget, systemClock } from '@parlance/protocol/internal';
import { Meter } from '../meter.js';
import { type Transport, type TransportEvents, terminateSoon } from '../transport.js';
import { FREE_UNFINISHED, UnfinishedMessage } from '../unfinished-message.js';

/**
 * Holds a WebSocket whose messages are not those of a session to the bounds of one that is: a message that is still arriving is
 * charged to the memory of the process, and pings, pongs and fragment headers have rates.
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
      if (!isExcess(meter.handleMessage(size, systemClock.now))) events.onMessage?.(data, size, isPart);
    },
    onControl() {
      if (!isExcess(meter.handleControl(systemClock.now()))) events.onControl?.();
    },
    onData(size) {
      bytes += size;
      if (bytes > (unfinished?.charged ?? FREE_UNFINISHED)) {
        unfinished ??= new UnfinishedMessage(memory, wire);
        unfinished.grow();
      }
      events.onData?.(size);
    },
    onDrain: () => events.onDrain?.(),
    onClose(code, reason) {
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
