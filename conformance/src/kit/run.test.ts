import { describe, expect, it } from 'vitest';
import { Deviation, NotApplicable } from './deviation.js';
import type { Door } from './door.js';
import { run } from './run.js';
import type { Scenario } from './scenario.js';
import { isUnknown, NO_TEST, NONE_PROBED, unknownFrom } from './unknown.js';

const door: Door = {
  peer: 'server',
  timeoutMs: 1_000,
  open: () => Promise.reject(new Deviation('there is no peer')),
  close: async () => {},
};

const scenario = (name: string, act: () => unknown): Scenario => ({
  name,
  section: '',
  title: '',
  run: async () => void (await act()),
});

describe('a run', () => {
  it('tells an error of the kit from a fault of the peer, and runs what comes after it', async () => {
    const missing = undefined as unknown as { readonly list: string };
    const verdicts = await run(door, {
      scenarios: [
        scenario('a/sound', () => {}),
        scenario('a/broken', () => missing.list),
        scenario('a/fault', () => Promise.reject(new Deviation('not as it has to be'))),
        scenario('a/other', () => Promise.reject(new NotApplicable('not for this peer'))),
        scenario('a/last', () => {}),
      ],
    });
    expect(verdicts.map(({ name, verdict }) => `${name} ${verdict}`)).toEqual([
      'a/sound passed',
      'a/broken error',
      'a/fault failed',
      'a/other skipped',
      'a/last passed',
    ]);
    expect(verdicts[1]?.why).toContain('TypeError');
  });
});

describe('a test that a peer does not know', () => {
  const call = (wish: string, code: string, message: string) => ({
    id: 1,
    parts: [],
    wish,
    error: { code, message },
  });

  it('is one that is answered as README.md says, or as a test that nobody knows', () => {
    const unsupported = unknownFrom(call(NO_TEST, 'unsupported', 'no such thing'));
    expect(isUnknown(call('say', 'unsupported', 'another text'), unsupported)).toBe(true);
    expect(isUnknown(call('say', 'unknown_test', ''), unsupported)).toBe(true);
    expect(isUnknown(call('say', 'unsupported', 'no such thing'), NONE_PROBED)).toBe(false);
  });

  it('is told from a handler that fails by the text, if the code is that of any failure', () => {
    const internal = unknownFrom(call(NO_TEST, 'internal', `there is no ${NO_TEST}`));
    expect(isUnknown(call('say', 'internal', 'there is no say'), internal)).toBe(true);
    expect(isUnknown(call('say', 'internal', 'the handler failed'), internal)).toBe(false);
  });
});
