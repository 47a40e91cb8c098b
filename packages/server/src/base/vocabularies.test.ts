import type { EncodingName } from '@parlance/protocol';
import { beforeEach, expect, it, vi } from 'vitest';
import { Vocabularies } from './vocabularies.js';

const loaded = new Set<string>();
/** Those that are being loaded, and how that ends. */
const loads: { readonly name: string; readonly end: (error?: Error) => void }[] = [];
vi.mock('@parlance/protocol', async (original) => ({
  ...(await original<object>()),
  getEncoding: (name: string) => (loaded.has(name) ? {} : undefined),
  isEncodingAvailable: async (name: string) => name !== 'LLAMA_BPE',
  loadEncoding: (name: string) =>
    new Promise<void>((resolve, reject) => {
      loads.push({
        name,
        end(error) {
          if (error !== undefined) return reject(error);
          loaded.add(name);
          resolve();
        },
      });
    }),
}));

const NAMES: readonly EncodingName[] = ['CL100K_BASE', 'O200K_BASE'];
const errors: unknown[] = [];
const logger = {
  debug() {},
  info() {},
  warn() {},
  error: ({ event }: object & { event?: unknown }) => void errors.push(event),
};
let use = 0;
const vocabularies = (names = NAMES) => new Vocabularies(names, logger, () => use);
const hello = (...encodings: EncodingName[]) =>
  ({ algorithms: ['TOKEN_NATIVE', 'NONE'], encodings, preferredEncoding: null }) as const;
const names = () => loads.map(({ name }) => name);

beforeEach(() => {
  loaded.clear();
  loads.length = errors.length = use = 0;
});

it('loads nothing before it listens if the packages are there', async () => {
  await vocabularies().prepare(false);
  expect(names()).toEqual([]);
});

it('loads those whose packages are missing before it listens, which fails', async () => {
  const prepared = vocabularies([...NAMES, 'LLAMA_BPE']).prepare(false);
  await vi.waitFor(() => expect(names()).toEqual(['LLAMA_BPE']));
  loads[0]?.end(new Error('not installed'));
  await expect(prepared).rejects.toThrow('not installed');
});

it('loads all of them before it listens if recorded sessions may need them', async () => {
  const prepared = vocabularies().prepare(true);
  expect(names()).toEqual(NAMES);
  for (const { end } of loads) end();
  await prepared;
});

it('loads for a HELLO the first one that both have, once for all who wait', async () => {
  const all = vocabularies();
  const first = all.need(hello('LLAMA_BPE', 'O200K_BASE', 'CL100K_BASE'));
  const second = all.need({ ...hello('CL100K_BASE'), preferredEncoding: 'O200K_BASE' });
  expect(names()).toEqual(['O200K_BASE']);
  loads[0]?.end();
  expect([await first, await second]).toEqual([true, true]);
  expect(all.need(hello('O200K_BASE'))).toBeUndefined();
});

it('loads nothing for a HELLO that cannot agree on one', () => {
  const all = vocabularies();
  expect(all.need(hello('LLAMA_BPE'))).toBeUndefined();
  expect(all.need({ ...hello('O200K_BASE'), algorithms: ['NONE'] })).toBeUndefined();
  expect(names()).toEqual([]);
});

it('logs a failure once, and tries again for the next HELLO', async () => {
  const all = vocabularies();
  const waiting = [all.need(hello('O200K_BASE')), all.need(hello('O200K_BASE'))];
  loads[0]?.end(new Error('a broken file'));
  expect(await Promise.all(waiting)).toEqual([false, false]);
  expect(errors).toEqual(['server.failed']);
  const again = all.need(hello('O200K_BASE'));
  loads[1]?.end();
  expect(await again).toBe(true);
});

it('loads one after the other in the background, not while the process is busy, and none twice', async () => {
  const all = vocabularies();
  use = 0.9;
  all.loadIfIdle();
  expect(names()).toEqual([]);
  use = 0.1;
  all.loadIfIdle();
  expect(names()).toEqual(['CL100K_BASE']);
  loads[0]?.end(new Error('a broken file'));
  await vi.waitFor(() => expect(errors).toHaveLength(1));
  all.loadIfIdle();
  all.loadIfIdle();
  expect(names()).toEqual(NAMES);
});
