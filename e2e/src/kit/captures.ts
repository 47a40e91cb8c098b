import type { InspectionEvent } from '@parlance/client/inspect';
import { createRecorder } from '@parlance/client/inspect';

/** Captures for tests and measurements of the inspector. */

export function captureOf(events: readonly InspectionEvent[]): string {
  return events.map((event) => `${JSON.stringify(event)}\n`).join('');
}

export interface MadeCapture {
  readonly frames: number;
  /** Bytes of each frame that are in the capture; the frames are as long. */
  readonly hexBytes: number;
}

const STREAMS = 40;
const FIRST = Date.UTC(2026, 0, 1);
/** One acknowledgement for so many frames. */
const ACKNOWLEDGED = 25;

/** Replies on many streams with acknowledgements between them, at 10 ms, lost once in the middle. */
export function makeCapture({ frames, hexBytes }: MadeCapture): string {
  const recorder = createRecorder({ hexBytes });
  const text = new TextEncoder().encode(
    'the quick brown fox jumps over the lazy dog, '.repeat(Math.ceil(hexBytes / 45)),
  );
  const lines: string[] = [];
  const add = (events: readonly InspectionEvent[]) => lines.push(captureOf(events));
  add(recorder.open(FIRST, 1));
  for (let i = 0; i < frames; i++) {
    const at = FIRST + 10 * i;
    const stream = 1 + 2 * (Math.floor(i / (frames / STREAMS)) % STREAMS);
    const isAck = i % ACKNOWLEDGED === ACKNOWLEDGED - 1;
    const frame = isAck
      ? Uint8Array.of(0x18, Math.min(127, i / ACKNOWLEDGED))
      : Uint8Array.of(0x13, stream, 0, ...text.subarray(0, hexBytes - 3));
    add(recorder.frame(at, 1, isAck ? 'sent' : 'received', frame));
  }
  return lines.join('');
}
