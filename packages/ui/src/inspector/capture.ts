import type { InspectionEvent } from '@parlance/client/inspect';
import { MAX_LINE, parseEvent } from '@parlance/client/inspect';
import { create } from '../shared/dom.js';
import { createTurn } from '../shared/slices.js';

/** Captures as files: JSON lines, read and written in slices, so that the page stays responsive. */

const REVOKE_MS = 60_000;
/** Events that are given on at once. */
const BATCH = 200;

/** The result of reading a capture. */
export interface CaptureResult {
  readonly events: number;
  /** Lines of other events, which an inspector does not show. */
  readonly skipped: number;
  /** Lines that could not be read, and why the first of them could not. */
  readonly damaged: number;
  readonly problem: string | undefined;
}

export async function saveCapture(events: readonly InspectionEvent[]): Promise<void> {
  const parts: string[] = [];
  const turn = createTurn();
  for (const event of events) {
    parts.push(`${JSON.stringify(event)}\n`);
    await turn();
  }
  const url = URL.createObjectURL(new Blob(parts, { type: 'application/x-ndjson' }));
  const stamp = new Date().toISOString().slice(0, 19).replaceAll(':', '-');
  const link = create('a', { href: url, download: `parlance-${stamp}.jsonl` });
  link.click();
  // The browser may begin to read it later.
  setTimeout(() => URL.revokeObjectURL(url), REVOKE_MS);
}

/** Reads events from lines of text, which may come from strangers. */
export async function readCapture(
  stream: ReadableStream<Uint8Array<ArrayBuffer>>,
  onEvents: (events: readonly InspectionEvent[]) => void,
  signal: AbortSignal,
): Promise<CaptureResult> {
  let result: CaptureResult = { events: 0, skipped: 0, damaged: 0, problem: undefined };
  let batch: InspectionEvent[] = [];
  const turn = createTurn();
  const flush = () => {
    if (batch.length > 0 && !signal.aborted) onEvents(batch);
    batch = [];
  };
  for await (const line of linesOf(stream, flush)) {
    if (signal.aborted) break;
    if (line.trim() === '') continue;
    try {
      const event = parseEvent(line);
      if (event === undefined) result = { ...result, skipped: result.skipped + 1 };
      else {
        batch.push(event);
        result = { ...result, events: result.events + 1 };
      }
    } catch (error) {
      const problem = result.problem ?? (error instanceof Error ? error.message : String(error));
      result = { ...result, damaged: result.damaged + 1, problem };
    }
    if (batch.length >= BATCH) flush();
    await turn();
  }
  flush();
  return result;
}

/**
 * A line that is longer than any event is cut, so that it cannot be read.
 *
 * @param onPause called before the lines have to wait for more.
 */
async function* linesOf(
  stream: ReadableStream<Uint8Array<ArrayBuffer>>,
  onPause: () => void,
): AsyncGenerator<string> {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  try {
    for (;;) {
      onPause();
      const { done, value } = await reader.read();
      if (done) break;
      const lines = (rest + value).split('\n');
      rest = (lines.pop() ?? '').slice(0, MAX_LINE + 1);
      yield* lines;
    }
    if (rest !== '') yield rest;
  } finally {
    await reader.cancel().catch(() => {});
  }
}
