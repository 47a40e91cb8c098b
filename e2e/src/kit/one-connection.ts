import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, beforeEach } from 'vitest';
import { isFull } from '../../../scripts/extent.js';
import { connectionsSoFar } from './front.js';

/**
 * Cases with one connection are the same on three nodes as on one, so a short run leaves them out. Which cases these are is
 * counted: `ONE_CONNECTION=write` lists them again, and a full run fails a listed case that has more connections by now.
 */

const LIST = fileURLToPath(new URL('one-connection.json', import.meta.url));
const isWriting = process.env['ONE_CONNECTION'] === 'write';

const read = () => JSON.parse(readFileSync(LIST, 'utf8')) as Record<string, readonly string[]>;

/** Before the tests of another file are imported: leaves out those that `name` lists. @param name of this file, `http/http-nodes`. */
export function leaveOutOneConnection(name: string): void {
  const listed = new Set(read()[name] ?? []);
  const found: string[] = [];
  let before = 0;
  beforeEach(({ task, skip }) => {
    const isListed = listed.has(task.fullTestName);
    if (isListed && !isFull && !isWriting) skip('one connection: this is the case of one node');
    before = connectionsSoFar();
  });
  afterEach(({ task }) => {
    const count = connectionsSoFar() - before;
    if (count <= 1) found.push(task.fullTestName);
    else if (listed.has(task.fullTestName) && isFull)
      throw new Error(`${count} connections: take this case from one-connection.json`);
  });
  if (!isWriting) return;
  afterAll(() => writeFileSync(LIST, `${JSON.stringify({ ...read(), [name]: found.sort() }, null, 2)}\n`));
}
