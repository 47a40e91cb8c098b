import { readFileSync, writeFileSync } from 'node:fs';

/** The peak memory of a process, and its memory before, in bytes. */
export interface PeakMemory {
  readonly base: number;
  /** Since the base was taken, or since the last call of `forget`; at least the base. */
  peak(): number;
  /** Forgets earlier peaks; the base stays. */
  forget(): void;
}

/** Starts watching: collects garbage if `--expose-gc` allows it, and resets the peak. */
export function watchMemory(): PeakMemory {
  for (let i = 0; i < 3; i++) globalThis.gc?.();
  // "5" resets the high-water mark to the present size (proc(5)).
  const forget = () => writeFileSync('/proc/self/clear_refs', '5');
  forget();
  const base = highWaterMark();
  return { base, peak: () => Math.max(base, highWaterMark()), forget };
}

/**
 * Brings V8 into the state of a process that has run for a while. V8 begins with a generous limit and lowers
 * it after some full collections; from then on, 256 MiB of buffers passing through cause a dozen collections
 * instead of none. Without this, one of two systems might get there in the middle of a comparison and the
 * other never.
 */
export async function settleHeap(): Promise<void> {
  for (let i = 0; i < 10; i++) {
    for (let j = 0; j < 128; j++) void new ArrayBuffer(256 * 1024);
    await new Promise((resolve) => setImmediate(resolve));
    globalThis.gc?.();
  }
}

function highWaterMark(): number {
  const [, kilobytes] = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync('/proc/self/status', 'utf8')) ?? [];
  if (kilobytes === undefined) throw new Error('/proc/self/status has no VmHWM');
  return Number(kilobytes) * 1024;
}
