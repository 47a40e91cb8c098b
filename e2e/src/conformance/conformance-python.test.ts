import { afterEach, describe, expect, it } from 'vitest';
import { Dialer, type Door, Listener } from '../../../conformance/src/kit/door.js';
import { pythonMissing, startPython } from '../../../conformance/src/kit/python.js';
import { run } from '../../../conformance/src/kit/run.js';

/** A peer that was written from the specification passes the scenarios, at both ends. */

const TIMEOUT_MS = 20_000;
const closing: (() => unknown)[] = [];

afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

async function failed(door: Door): Promise<string[]> {
  const verdicts = await run(door);
  return verdicts
    .filter(({ verdict }) => verdict === 'failed' || verdict === 'error')
    .map(({ name, why, bytes }) => `${name}: ${why} ${bytes ?? ''}`.trim());
}

describe.skipIf(pythonMissing !== undefined)(pythonMissing ?? 'the peer in Python', () => {
  it('passes as a server', async () => {
    const peer = await startPython();
    closing.push(() => peer.stop());
    expect(await failed(new Dialer(peer.url, TIMEOUT_MS))).toEqual([]);
    expect(peer.errors()).toBe('');
  });

  it('passes as a client', async () => {
    const door = await Listener.listen(0, TIMEOUT_MS);
    const peer = await startPython(door.url);
    closing.push(() => door.close());
    closing.push(() => peer.stop());
    expect(await failed(door)).toEqual([]);
    expect(peer.errors()).toBe('');
  });
});
