import { readFileSync, writeFileSync } from 'node:fs';

/** What a process held at its peak, beside what it held before, in bytes. */
export interface PeakMemory {
  readonly base: number;
  /** Since the base was taken, or since the last call of `forget`; no less than the base. */
  peak(): number;
  /** Earlier peaks count no more; the base stays. */
  forget(): void;
}

/** Begins to watch: garbage is collected where that is allowed, and the system forgets earlier peaks. */
export function watchMemory(): PeakMemory {
  for (let i = 0; i < 3; i++) globalThis.gc?.();
  // "5" makes the high-water mark the present size (proc(5)).
  const forget = () => writeFileSync('/proc/self/clear_refs', '5');
  forget();
  const base = highWaterMark();
  return { base, peak: () => Math.max(base, highWaterMark()), forget };
}

/**
 * Brings V8 to where a process is that has run for a while. It begins with a generous limit and lowers it
 * after some full collections; from then on buffers that pass through cause a dozen of them for 256 MiB where
 * there were none. One of two systems may get there in the middle of a comparison, and the other never.
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
  if (kilobytes === undefined) throw new Error('/proc/self/status does not state VmHWM');
  return Number(kilobytes) * 1024;
}
