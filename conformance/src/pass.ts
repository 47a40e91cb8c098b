import { writeSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { type Case, type Result, runCase } from './family.js';
import { platform } from './subject.js';
import { readVectors } from './vectors.js';

/**
 * One pass over a folder on the platform of this process: Node's own, or the browsers' if the process was
 * started with `--import web-platform.mjs`. Writes a line before and after each case, so that the parent
 * process knows in which case it stopped.
 */

export type PassLine = { readonly file: string; readonly key: string; readonly result?: Result };

const { values } = parseArgs({ options: { vectors: { type: 'string' }, platform: { type: 'string' } } });
if (values.vectors === undefined) throw new Error('--vectors DIR is missing');
if (values.platform !== platform.name) {
  throw new Error(`this process runs on ${platform.name}, not on ${values.platform}`);
}

for (const { family, cases } of readVectors(values.vectors)) {
  let failure: unknown;
  try {
    await family.prepare?.();
  } catch (error) {
    failure = error;
  }
  for (const one of cases) {
    write({ file: family.file, key: one.key });
    write({ file: family.file, key: one.key, result: resultOf(one, failure) });
  }
}

function resultOf(one: Case, failure: unknown): Result {
  if (failure === undefined) return runCase(one);
  return { status: 'failed', why: `the family could not be prepared: ${String(failure)}` };
}

/** Writes at once and in order, in case the process dies; waits for a full pipe. */
function write(line: PassLine): void {
  let rest = Buffer.from(`${JSON.stringify(line)}\n`);
  while (rest.length > 0) {
    try {
      rest = rest.subarray(writeSync(1, rest));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5);
    }
  }
}
