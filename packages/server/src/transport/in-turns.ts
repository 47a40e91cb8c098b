import type { LoopShares } from '../base/loop-shares.js';
import { LoopQueue } from './loop-queue.js';
import type { Transport, TransportEvents } from './transport.js';

/** The account of all other nodes. */
const NODES = 'other nodes';

/**
 * A connection of another node whose messages are handled in ticks of the event loop, so that a node that writes without a
 * pause does not make clients wait.
 */
export function inTurns(wire: Transport, loop: LoopShares, now: () => number): Transport {
  const queue = new LoopQueue(loop, wire, NODES);
  /** Runs `task` now, or after what waits. */
  const run = (task: () => void) => {
    if (queue.isEmpty) task();
    else queue.push(task);
  };
  return {
    get traffic() {
      return wire.traffic;
    },
    overhead: wire.overhead,
    get bufferedAmount() {
      return wire.bufferedAmount;
    },
    send: (frame) => wire.send(frame),
    close: (code, reason) => wire.close(code, reason),
    terminate: () => wire.terminate(),
    pause: () => wire.pause?.(),
    resume: () => wire.resume?.(),
    hold: () => wire.hold(),
    unhold: () => wire.unhold(),
    listen(events: TransportEvents) {
      wire.listen({
        onMessage(data, size) {
          if (queue.enter(now())) events.onMessage(data, size);
          else queue.push(() => events.onMessage(data, size));
        },
        onClose(code, reason) {
          run(() => events.onClose(code, reason));
          queue.close();
        },
        onFault: (error) => run(() => events.onFault(error)),
        onControl: () => events.onControl(),
        onData: (size) => events.onData(size),
        onDrain: () => events.onDrain(),
      });
    },
  };
}
