import { afterAll, describe, expect, it } from 'vitest';
import { type Child, startChild } from '../../../scripts/child-process.js';
import type { KeptMemoryCommands } from './kept-memory.js';

/** The account that bounds the memory of kept replies, against the memory of a process. */

/** The sources, as the tests run them. */
const FLAGS = ['--import', 'tsx', '--conditions=@parlance/source', '--expose-gc'];

let child: Child<KeptMemoryCommands> | undefined;
afterAll(() => child?.stop());

describe('the memory of kept replies', () => {
  it.each([
    ['10,000 of 200 tokens', { replies: 10_000, parts: 200, isEnded: true }],
    ['10,000 of 200 tokens that are being written', { replies: 10_000, parts: 200, isEnded: false }],
    ['10,000 without parts', { replies: 10_000, parts: 0, isEnded: true }],
    ['10,000 with names and share data', { replies: 10_000, parts: 1, isEnded: true, isNamed: true }],
    [
      '10,000 of as many principals',
      { replies: 10_000, parts: 1, isEnded: true, isNamed: true, isAlone: true },
    ],
    ['500 of 200 parts with small metadata', { replies: 500, parts: 200, isEnded: true, metadata: 10 }],
    ['500 of 200 parts with more metadata', { replies: 500, parts: 200, isEnded: true, metadata: 100 }],
  ])('is accounted for, and not much more than once: %s', async (_what, load) => {
    child ??= startChild<KeptMemoryCommands>(new URL('./kept-memory.ts', import.meta.url), [], FLAGS);
    const { accounted, measured, left } = await child.call('weigh', load);
    expect(accounted / measured).toBeGreaterThanOrEqual(1);
    expect(accounted / measured).toBeLessThan(3);
    expect(left).toBe(0);
  });

  it.each([
    ['without parts', { replies: 2_000, parts: 0, isEnded: false }],
    ['of 20 parts', { replies: 2_000, parts: 20, isEnded: false }],
    ['of as many principals', { replies: 2_000, parts: 1, isEnded: false, isNamed: true, isAlone: true }],
    ['of 400 parts', { replies: 200, parts: 400, isEnded: false, metadata: 100 }],
  ])('that are written to an engine is accounted for as well: 2,000 %s', async (_what, load) => {
    child ??= startChild<KeptMemoryCommands>(new URL('./kept-memory.ts', import.meta.url), [], FLAGS);
    const { accounted, measured, left } = await child.call('weighWriters', load);
    expect(accounted / measured).toBeGreaterThanOrEqual(1);
    expect(accounted / measured).toBeLessThan(3);
    expect(left).toBe(0);
  });
});
