import { totalmem } from 'node:os';
import { getHeapStatistics } from 'node:v8';
import { ProtocolError } from '@parlance/protocol';

/** How much of the process a server takes. */

/** @throws {ProtocolError} `invalid_option`. */
export function resolveProcessMemory(given: number | undefined): number {
  if (given === undefined) return defaultProcessMemory();
  if (given > 0) return given;
  throw new ProtocolError('invalid_option', `processMemory must be a positive number of bytes, not ${given}`);
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
