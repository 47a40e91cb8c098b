import { afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import type { Link } from '../link/link.js';
import { RestedLink } from '../link/rest.js';
import { runMoveHistory } from '../testing/move-history.js';
import { platform } from '../testing/this-platform.js';

/** `REST_SEED=N REST_HISTORIES=1` repeats a history that has failed. */
const HISTORIES = Number(process.env['REST_HISTORIES'] ?? 25);
const SEED = Number(process.env['REST_SEED'] ?? Date.now() % 2 ** 31);

const MUTANT_HISTORIES = 60;

beforeAll(() => platform.loadZstd());
afterEach(() => vi.restoreAllMocks());

describe('a session that rests whenever it can', () => {
  it(`writes what it writes without a rest, in ${HISTORIES} histories from seed ${SEED}`, {
    timeout: 600_000,
  }, () => {
    let rests = 0;
    const counts = new Map<string, number>();
    for (let seed = SEED; seed < SEED + HISTORIES; seed++) {
      const awake = runMoveHistory({ seed, rests: false });
      const resting = runMoveHistory({ seed, rests: true });
      expect(awake.faults, `seed ${seed}`).toEqual([]);
      expect(resting.faults, `seed ${seed}`).toEqual([]);
      expect(resting.frames, `seed ${seed}`).toEqual(awake.frames);
      rests += resting.rests;
      for (const [name, count] of resting.counts) counts.set(name, (counts.get(name) ?? 0) + count);
    }
    if (HISTORIES < 10) return;
    for (const what of ['cut', 'reload', 'moved while suspended', 'arrived in context'])
      expect(counts.get(what) ?? 0, what).toBeGreaterThan(0);
    // 1.8 a history on average, and by chance sometimes few in 25.
    expect(rests).toBeGreaterThan(0);
  });
});

/** Wakes that forget one part. */
const FORGETFUL: Readonly<Record<string, (parts: Link['parts'] & Pick<Link, 'acknowledgement'>) => void>> = {
  'the frames that have arrived': ({ acknowledgement }) => {
    acknowledgement.received = 0;
    acknowledgement.restore([0, 0]);
  },
  'the frames that were written': ({ outbox }) => {
    outbox.parts.written.count = 0;
  },
  'credit that was spent': ({ sendCredit }) => sendCredit.restore(new Map()),
  'credit that was granted': ({ receiveCredit }) =>
    receiveCredit.restore([undefined, receiveCredit.snapshot()[1], undefined, undefined, 0]),
  'how far shares may grow': ({ receiveCredit }) => {
    const [accounts] = receiveCredit.snapshot();
    receiveCredit.restore([accounts, 0, undefined, undefined, 0]);
  },
  'names of the peer': ({ aliases }) => aliases?.names.clear(),
  'names of this end': ({ outbox }) => outbox.parts.writer.aliases?.restore([new Map(), 0]),
  'the context to the client': ({ context }) => {
    if (context !== undefined) context.encoder = undefined;
  },
  'the context to the server': ({ context }) => {
    if (context !== undefined) context.decoder = undefined;
  },
};

describe('a session that wakes', () => {
  it.each(Object.keys(FORGETFUL))('breaks if it forgets %s', (part) => {
    const { wake } = RestedLink.prototype;
    vi.spyOn(RestedLink.prototype, 'wake').mockImplementation(function (this: RestedLink, link) {
      wake.call(this, link);
      FORGETFUL[part]?.({ ...link.parts, acknowledgement: link.acknowledgement });
    });
    for (let seed = 1; seed <= MUTANT_HISTORIES; seed++) {
      const { faults, frames } = runMoveHistory({ seed, rests: true });
      if (faults.length > 0 || frames.join() !== runMoveHistory({ seed, rests: false }).frames.join()) return;
    }
    expect.unreachable(`${MUTANT_HISTORIES} histories have noticed nothing`);
  });
});
