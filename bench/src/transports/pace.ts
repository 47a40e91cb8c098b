import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';

/** How messages are sent: each has the time at which that was. */
export interface Pace {
  readonly messages: number;
  /** Bytes of a message, at least 8. */
  readonly size: number;
  /** Milliseconds between two messages; 0 sends 50 at once, and then waits for the next tick of a timer. */
  readonly gapMs: number;
}

const AT_ONCE = 50;

/** @param send called with a new array each time. */
export async function sendAtPace(
  { messages, size, gapMs }: Pace,
  send: (bytes: Uint8Array) => unknown,
): Promise<void> {
  for (let sent = 1; sent <= messages; sent++) {
    // No codec makes them smaller.
    const bytes = randomBytes(size);
    bytes.writeBigInt64LE(process.hrtime.bigint());
    send(bytes);
    if (gapMs > 0 || sent % AT_ONCE === 0) await sleep(gapMs);
  }
}

/** Milliseconds since a message was sent, by another process of this machine or by this one. */
export function ageOf(bytes: Uint8Array): number {
  const sentAt = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).readBigInt64LE();
  return Number(process.hrtime.bigint() - sentAt) / 1e6;
}
