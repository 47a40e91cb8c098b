import { existsSync, readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { CHECKS, NIGHTLY } from './checks.js';

it('runs in full at night whatever CI runs in short', () => {
  const nightly = NIGHTLY.map(({ name }) => name);
  const inShort = CHECKS.filter(({ name }) => /short|\d s$|^unit|^end to end/.test(name));
  expect(inShort.map(({ name }) => name)).toHaveLength(11);
  for (const { name, inFull } of inShort) expect(nightly, name).toContain(inFull);
});

it('has one name for each check, and lets none wait for a later one of its lane', () => {
  const names = [...CHECKS, ...NIGHTLY].map(({ part, name }) => `${part} ${name}`);
  expect(new Set(names).size).toBe(names.length);
  for (const [index, { part, lane, after }] of CHECKS.entries()) {
    if (after === undefined) continue;
    const first = CHECKS.findIndex(({ name }) => name === after);
    expect(CHECKS[first]).toMatchObject({ part });
    if (CHECKS[first]?.lane === lane) expect(first).toBeLessThan(index);
  }
});

it('leaves out cases of files that repeat others on three nodes only', () => {
  const listed = JSON.parse(readFileSync('e2e/src/kit/one-connection.json', 'utf8')) as Record<
    string,
    string[]
  >;
  expect(Object.keys(listed).length).toBeGreaterThan(0);
  for (const name of Object.keys(listed)) {
    const file = `e2e/src/${name}.test.ts`;
    expect(existsSync(file), file).toBe(true);
    expect(readFileSync(file, 'utf8')).toContain(`leaveOutOneConnection('${name}')`);
  }
});
