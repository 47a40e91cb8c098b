import type { Transport, TransportEvents } from '../../transport/transport.js';

type LoopbackWire = Pick<Transport, 'send' | 'terminate' | 'listen'>;

/**
 * Two ends of a connection of this node to itself. Messages of one end reach the other in a later microtask, in order.
 */
export function createLoopback(): readonly [LoopbackWire, LoopbackWire] {
  const listeners: [TransportEvents?, TransportEvents?] = [];
  const isOver = [false, false];
  const end = (own: 0 | 1, other: 0 | 1): LoopbackWire => ({
    listen(events) {
      listeners[own] = events;
    },
    send(data) {
      queueMicrotask(() => {
        if (!isOver[other]) listeners[other]?.onMessage(data, data.length);
      });
    },
    terminate() {
      if (isOver[own]) return;
      isOver[own] = true;
      queueMicrotask(() => {
        if (isOver[other]) return;
        isOver[other] = true;
        listeners[other]?.onClose(1006, '');
      });
    },
  });
  return [end(0, 1), end(1, 0)];
}
