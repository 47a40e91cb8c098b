import { MemoryBudget } from '@parlance/protocol/internal';
import { beforeEach, describe, expect, it } from 'vitest';
import { keyOfNonce, MAX_NONCES, NONCE_MS, Nonces } from './nonces.js';

const SHARES = ['address 127.0.0.1', 'principal ada'];
const NONCE = new Uint8Array(16).fill(7);

let warnings: string[];
let budget: MemoryBudget;
beforeEach(() => {
  warnings = [];
  budget = new MemoryBudget(1e9);
});

const noncesOf = (max?: number, memory = budget) => {
  const warn = (_fields: object, message: string) => void warnings.push(message);
  return new Nonces(memory, { debug() {}, info() {}, error() {}, warn }, max);
};

describe('the nonces that a server knows', () => {
  it('are n, and with one more the oldest is forgotten and said', () => {
    const n = 5;
    const nonces = noncesOf(n);
    for (let i = 0; i < n; i++) nonces.add(`key ${i}`, `sess_${i}`, SHARES, i);
    expect([nonces.size, warnings]).toEqual([n, []]);
    expect(nonces.get('key 0')?.sessionId).toBe('sess_0');
    nonces.add(`key ${n}`, `sess_${n}`, SHARES, n);
    expect(nonces.size).toBe(n);
    expect([nonces.get('key 0'), nonces.of('sess_0')]).toEqual([undefined, undefined]);
    for (let i = 1; i <= n; i++) expect(nonces.get(`key ${i}`)?.sessionId).toBe(`sess_${i}`);
    expect(warnings).toEqual([expect.stringContaining('there are 5 newer ones')]);
  });

  it('are bounded unless a test says so', () => {
    const nonces = noncesOf(undefined, new MemoryBudget(Infinity));
    for (let i = 0; i <= MAX_NONCES; i++) nonces.add(`key ${i}`, `sess_${i}`, SHARES, 0);
    expect([nonces.size, nonces.get('key 0'), nonces.get('key 1')?.sessionId]).toEqual([
      MAX_NONCES,
      undefined,
      'sess_1',
    ]);
  });

  it('are forgotten after a minute, and not before', () => {
    const nonces = noncesOf();
    nonces.add('a', 'sess_a', SHARES, 1_000);
    nonces.add('b', 'sess_b', SHARES, 2_000);
    nonces.sweep(1_000 + NONCE_MS - 1);
    expect(nonces.size).toBe(2);
    nonces.sweep(1_000 + NONCE_MS);
    expect([nonces.get('a'), nonces.get('b')?.sessionId]).toEqual([undefined, 'sess_b']);
    // One that is added makes room as well.
    nonces.add('c', 'sess_c', SHARES, 2_000 + NONCE_MS);
    expect([nonces.size, nonces.of('sess_c')?.key]).toEqual([1, 'c']);
    expect(warnings).toEqual([]);
  });

  it('are charged to their clients, as many as there is memory for and not one more, and given back', () => {
    const n = 10;
    const small = new MemoryBudget(n * 1_024);
    const nonces = noncesOf(undefined, small);
    // Each is the first one of a client of its own, which may have all that is free.
    for (let i = 0; i < n; i++) nonces.add(`key ${i}`, `sess_${i}`, [`address ${i}`], 0);
    expect([nonces.size, small.used, warnings]).toEqual([n, n * 1_024, []]);
    nonces.add('more', 'sess_more', ['address more'], 0);
    expect([nonces.size, nonces.get('more'), small.used]).toEqual([n, undefined, n * 1_024]);
    expect(warnings).toEqual([expect.stringContaining('there is no memory for it')]);
    nonces.forget('sess_3');
    nonces.add('more', 'sess_more', ['address more'], 0);
    expect([nonces.get('more')?.sessionId, small.used]).toEqual(['sess_more', n * 1_024]);
    nonces.sweep(NONCE_MS);
    expect([nonces.size, small.used, small.shares]).toEqual([0, 0, 0]);
  });

  it('tell when it is known whether their session has begun', async () => {
    const nonces = noncesOf();
    nonces.add('a', 'sess_a', SHARES, 0);
    nonces.add('b', 'sess_b', SHARES, 0);
    const [a, b] = [nonces.get('a'), nonces.get('b')];
    const both = Promise.all([a?.settled, b?.settled]);
    nonces.settle('sess_a');
    nonces.forget('sess_b');
    await both;
    expect([nonces.get('a') === a, a?.settled, nonces.get('b')]).toEqual([true, undefined, undefined]);
    nonces.settle('sess_none');
    nonces.forget('sess_none');
  });
});

describe('what a HELLO is known by', () => {
  it('does not contain the nonce, and is the same for the same nonce of the same owner only', () => {
    const owners = [
      undefined,
      [],
      ['ada'],
      ['ada', 'agent'],
      ['ada","agent'],
      ['adaagent'],
      ['bob', undefined],
    ];
    const keys = owners.map((owner) => keyOfNonce(NONCE, owner));
    // The first two have no `authenticate`.
    expect(new Set(keys).size).toBe(owners.length - 1);
    expect(keyOfNonce(NONCE.slice(), ['ada', 'agent'])).toBe(keys[3]);
    expect(keyOfNonce(new Uint8Array(16).fill(8), ['ada', 'agent'])).not.toBe(keys[3]);
    for (const key of keys) {
      expect(key).toMatch(/^sess_nonce_[\w-]{43}$/);
      expect(key).not.toContain(Buffer.from(NONCE).toString('base64url'));
    }
  });
});
