import { totalmem } from 'node:os';
import { getHeapStatistics } from 'node:v8';
import { type Limits, type Logger, ProtocolError } from '@parlance/protocol';
import { isSet } from '@parlance/protocol/internal';

/** How much of the process a server takes. */

/** A peer may hold so much of the memory of the process, and a message has to arrive. */
const PARTS_OF_A_PEER = 4;

/**
 * @throws {ProtocolError} `invalid_option`, also if the application has set both this and a `maxMessageSize` that needs more. If it has set
 * only `maxMessageSize`, the server logs that the default memory is too small for it.
 */
export function resolveProcessMemory(given: number | undefined, limits: Limits, logger: Logger): number {
  if (given !== undefined && !(given > 0))
    throw new ProtocolError(
      'invalid_option',
      `processMemory must be a positive number of bytes, not ${given}`,
    );
  const memory = given ?? defaultProcessMemory();
  const { maxMessageSize } = limits;
  if (!isSet(limits, 'maxMessageSize') || maxMessageSize === Infinity) return memory;
  const needed = PARTS_OF_A_PEER * maxMessageSize;
  if (memory >= needed) return memory;
  const message = `limits.maxMessageSize of ${maxMessageSize} bytes needs a processMemory of ${needed} bytes, and it is ${memory}`;
  if (given !== undefined) throw new ProtocolError('invalid_option', message);
  logger.warn({ event: 'memory.small' }, message);
  return memory;
}

/** @throws {ProtocolError} `invalid_option`. */
export function resolveLoopShare(share = 0.45): number {
  if (share > 0 && share <= 1) return share;
  throw new ProtocolError('invalid_option', `loopShare must be a number over 0 and up to 1, not ${share}`);
}

/** Buffers are outside the heap and strings are in it, so both limits matter. */
function defaultProcessMemory(): number {
  // A container may have less than the machine; 0 or a huge number means no limit.
  const constrained = process.constrainedMemory?.() ?? 0;
  const total = constrained > 0 ? Math.min(constrained, totalmem()) : totalmem();
  return Math.floor(Math.min(total / 4, getHeapStatistics().heap_size_limit / 2));
}
