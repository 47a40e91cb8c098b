import { afterEach, describe, expect, it } from 'vitest';
import { Dialer, type Door, Listener } from '../../conformance/src/kit/door.js';
import { pythonMissing, startPython } from '../../conformance/src/kit/python.js';
import { DEVIATIONS, othersFor } from '../../conformance/src/kit/python-deviations.js';
import { run } from '../../conformance/src/kit/run.js';

/** A peer that was written from the specification passes the scenarios, at both ends. */

const TIMEOUT_MS = 20_000;
const closing: (() => unknown)[] = [];

afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

/** Enough for a deviation that is a silence. */
const SHORT_MS = 2_000;

async function failed(door: Door, only: readonly string[]): Promise<string[]> {
  const verdicts = await run(door, { only });
  return verdicts
    .filter(({ verdict }) => verdict === 'failed')
    .map(({ name, why, bytes }) => `${name}: ${why} ${bytes ?? ''}`.trim());
}

describe.skipIf(pythonMissing !== undefined)(
  pythonMissing ?? 'the peer in Python',
  { timeout: 120_000 },
  () => {
    it('passes as a server', async () => {
      const peer = await startPython();
      closing.push(() => peer.stop());
      expect(await failed(new Dialer(peer.url, TIMEOUT_MS), othersFor('server'))).toEqual([]);
      expect(peer.errors()).toBe('');
    });

    it('deviates as a server where it is known to', async () => {
      const peer = await startPython();
      closing.push(() => peer.stop());
      const found = await failed(new Dialer(peer.url, SHORT_MS), DEVIATIONS.server);
      expect(found.map((line) => line.split(':')[0]).sort()).toEqual(DEVIATIONS.server);
    });

    it('deviates as a client where it is known to', async () => {
      const door = await Listener.listen(0, SHORT_MS);
      const peer = await startPython(door.url);
      closing.push(() => door.close());
      closing.push(() => peer.stop());
      const found = await failed(door, DEVIATIONS.client);
      expect(found.map((line) => line.split(':')[0]).sort()).toEqual(DEVIATIONS.client);
    });

    it('passes as a client', async () => {
      const door = await Listener.listen(0, TIMEOUT_MS);
      const peer = await startPython(door.url);
      closing.push(() => door.close());
      closing.push(() => peer.stop());
      expect(await failed(door, othersFor('client'))).toEqual([]);
      expect(peer.errors()).toBe('');
    });
  },
);
