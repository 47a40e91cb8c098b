import { afterEach, describe, expect, it } from 'vitest';
import { visit } from '../../../conformance/peers/parlance/client.js';
import { serve } from '../../../conformance/peers/parlance/server.js';
import { Dialer, type Door, Listener } from '../../../conformance/src/kit/door.js';
import { run } from '../../../conformance/src/kit/run.js';

/** Our own server and client pass the scenarios that any implementation has to pass. */

const TIMEOUT_MS = 20_000;
const closing: (() => unknown)[] = [];

afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

/** The kit's verdicts on scenarios that have not passed, and how many have. */
async function judged(
  door: Door,
  only: readonly string[] = [],
): Promise<{ passed: number; others: string[] }> {
  const verdicts = await run(door, { only });
  const others = verdicts.filter(({ verdict }) => verdict !== 'passed');
  return {
    passed: verdicts.length - others.length,
    others: others.map(({ name, verdict, why, bytes }) => `${verdict} ${name}: ${why} ${bytes ?? ''}`.trim()),
  };
}

describe('the scenarios for any implementation', () => {
  it('pass with our server', async () => {
    const server = await serve();
    closing.push(() => server.close());
    const { passed, others } = await judged(new Dialer(server.url, TIMEOUT_MS));
    expect(others).toEqual([]);
    expect(passed).toBeGreaterThan(60);
  });

  it('pass with our client', async () => {
    const door = await Listener.listen(0, TIMEOUT_MS);
    const stop = new AbortController();
    closing.push(() => door.close());
    closing.push(() => stop.abort());
    void visit(door.url, stop.signal);
    const { passed, others } = await judged(door);
    expect(others.filter((each) => !each.startsWith('skipped http/'))).toEqual([
      'skipped handshake/accept-algorithm: the client offers all algorithms',
    ]);
    expect(passed).toBeGreaterThan(50);
  });

  it('pass with our client over HTTP', async () => {
    const door = await Listener.listen(0, TIMEOUT_MS);
    const stop = new AbortController();
    closing.push(() => door.close());
    closing.push(() => stop.abort());
    void visit(door.url, stop.signal, true);
    const { passed, others } = await judged(door, [
      'http/',
      'streams/',
      'cancel/',
      'closing/',
      'resume/',
      'nonce/',
    ]);
    expect(others).toEqual([]);
    expect(passed).toBeGreaterThan(30);
  });
});
