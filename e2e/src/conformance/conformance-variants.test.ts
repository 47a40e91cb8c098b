import { afterEach, describe, expect, it } from 'vitest';
import { visit } from '../../../conformance/peers/parlance/client.js';
import { leavesEarly, startFaulty } from '../../../conformance/peers/parlance/faults.js';
import { Dialer, type Door, Listener } from '../../../conformance/src/kit/door.js';
import { pythonMissing, startPython } from '../../../conformance/src/kit/python.js';
import { run } from '../../../conformance/src/kit/run.js';

/** The kit fails no peer for what the specification allows, and is not harmed by it. */

/**
 * By name in `peers/python/faults/variants.py`, with the scenarios that are about it. All scenarios run with all variants at once;
 * with `CONFORMANCE_ALL` set, each variant runs alone as well, because one may hide another.
 */
const VARIANTS: Readonly<Record<string, readonly string[]>> = {
  leaves_out_defaults_of_accept: ['handshake', 'resume', 'refusals'],
  leaves_out_defaults_of_hello: ['handshake', 'codecs', 'resume/idle'],
  states_null: ['handshake', 'resume/idle'],
  gives_no_reasons: ['handshake', 'resume', 'rules/wrong'],
  errors_without_messages: ['streams', 'tensors/wrong', 'rules'],
  small_frames: ['credit', 'fragments', 'tensors/of-the-peer'],
  bare_envelopes: ['messages', 'closing', 'handshake/wait'],
  leaves_streams_out: ['streams', 'cancel', 'resume/cut'],
  cancels_by_error: ['cancel', 'tensors/cancelled', 'resume/cancel'],
  credit_at_once: ['handshake', 'credit'],
  speaks_at_once: ['handshake', 'messages', 'plain/text'],
  other_spelling: ['handshake', 'codecs', 'agreement'],
  version_three: ['handshake', 'streams/response'],
  acknowledges_each_frame: ['messages', 'resume'],
};
/** Those that change what a peer knows, and hide what others change. */
const UNKNOWN = ['unknown_is_unsupported', 'unknown_is_internal'];

const TIMEOUT_MS = 20_000;
const closing: (() => unknown)[] = [];

afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

async function python(role: Door['peer'], variants: readonly string[]): Promise<Door> {
  const listener = role === 'client' ? await Listener.listen(0, TIMEOUT_MS) : undefined;
  if (listener !== undefined) closing.push(() => listener.close());
  const peer = await startPython(listener?.url, { variants });
  closing.push(() => peer.stop());
  return listener ?? new Dialer(peer.url, TIMEOUT_MS);
}

/** @returns the verdicts that no peer may get for what is allowed, and how many scenarios have passed. */
async function wronged(
  door: Door,
  only: readonly string[] = [],
): Promise<{ others: string[]; passed: number }> {
  const verdicts = await run(door, { only });
  const others = verdicts.filter(({ verdict }) => verdict === 'failed' || verdict === 'error');
  return {
    others: others.map(({ name, verdict, why, bytes }) => `${verdict} ${name}: ${why} ${bytes ?? ''}`.trim()),
    passed: verdicts.filter(({ verdict }) => verdict === 'passed').length,
  };
}

describe.skipIf(pythonMissing !== undefined)(
  pythonMissing ?? 'a peer that does what the specification allows',
  () => {
    const roles = ['server', 'client'] as const;

    it.each(roles)('has no scenario failed, as a %s with all variants at once', async (role) => {
      const { others, passed } = await wronged(await python(role, Object.keys(VARIANTS)));
      expect(others).toEqual([]);
      expect(passed).toBeGreaterThan(150);
    });

    const each = Object.entries(VARIANTS).flatMap(([name, only]) =>
      roles.map((role) => [name, role, only] as const),
    );
    it.skipIf(process.env['CONFORMANCE_ALL'] === undefined).concurrent.each(each)(
      'has none failed with %s, as a %s',
      async (name, role, only) => {
        const { others, passed } = await wronged(await python(role, [name]), only);
        expect(others).toEqual([]);
        expect(passed).toBeGreaterThan(0);
      },
    );

    const unknown = UNKNOWN.flatMap((name) => roles.map((role) => [name, role] as const));
    it.each(unknown)('has none failed with %s, as a %s', async (name, role) => {
      const { others } = await wronged(await python(role, [name]), [
        'closing',
        'rules',
        'streams',
        'tensors',
      ]);
      expect(others).toEqual([]);
    });
  },
);

describe('a client that leaves its connection as soon as the next one is open', () => {
  it('has moved', async () => {
    const door = await Listener.listen(0, TIMEOUT_MS);
    closing.push(() => door.close());
    const front = await startFaulty(door.url, leavesEarly);
    closing.push(() => front.close());
    const stop = new AbortController();
    closing.push(() => stop.abort());
    void visit(front.url, stop.signal);
    expect(await wronged(door, ['agreement/move'])).toEqual({ others: [], passed: 1 });
  });
});
