import { execFile } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { FAMILIES } from './families.js';
import { type Case, casesOf, type Family, type Result, runCase } from './family.js';
import type { Pass } from './passes.js';
import { lineOf, reportOf } from './report.js';
import { ProtocolError } from './subject.js';
import { unknownFiles } from './vectors.js';

const VECTORS = fileURLToPath(new URL('../vectors', import.meta.url));

/** Runs the command as `npm run conformance` does. */
function conformance(folder: string): Promise<{ code: number; lines: string[] }> {
  const main = fileURLToPath(new URL('main.ts', import.meta.url));
  const args = ['--import', 'tsx', '--conditions=@parlance/source', main, '--vectors', folder];
  return new Promise((resolve) => {
    execFile(process.execPath, args, (error, stdout) => {
      resolve({
        code: typeof error?.code === 'number' ? error.code : 0,
        lines: stdout.trimEnd().split('\n'),
      });
    });
  });
}

function countedCases(name: string): number {
  const family = FAMILIES.find(({ file }) => file === name) as Family;
  const document = JSON.parse(readFileSync(join(VECTORS, name), 'utf8')) as unknown;
  return casesOf(family, document).filter(({ informative }) => !informative).length;
}

describe('npm run conformance', () => {
  it('knows every file of our vectors', () => {
    expect(unknownFiles(VECTORS)).toEqual([]);
  });

  describe('with other folders', () => {
    let folder: string;
    beforeEach(() => {
      folder = mkdtempSync(join(tmpdir(), 'conformance-'));
    });
    afterEach(() => rmSync(folder, { recursive: true }));

    it('names failed cases and sets the exit code', async () => {
      cpSync(join(VECTORS, 'avp-kv-cache.json'), join(folder, 'avp-kv-cache.json'));
      const frames = JSON.parse(readFileSync(join(VECTORS, 'm2m-frame.json'), 'utf8')) as Record<
        string,
        object[]
      >;
      const decode = frames['decode'] as { name: string; verdict: string }[];
      Object.assign(decode[0] as object, { verdict: 'reject' });
      Object.assign(decode[1] as object, { verdict: 'perhaps' });
      writeFileSync(join(folder, 'm2m-frame.json'), JSON.stringify({ ...frames, novelties: [{}] }));
      writeFileSync(join(folder, 'm2m-crypto.json'), '{"hmac":');
      writeFileSync(join(folder, 'unheard-of.json'), '{}');

      const { code, lines } = await conformance(folder);
      expect(code).toBe(1);
      expect(lines.filter((line) => line.includes('FAILED')).map((line) => line.trim())).toEqual([
        `FAILED m2m-frame.json decode[0] ${decode[0]?.name} (node, web): the frame was accepted`,
        `FAILED m2m-frame.json decode[1] ${decode[1]?.name} (node, web): the case's verdict must be one of accept, reject, either and is "perhaps"`,
        'FAILED m2m-frame.json novelties[0] (node, web): the runner does not know the section novelties',
        'FAILED m2m-crypto.json file (node, web): the file is not a JSON object',
      ]);
      const passed = countedCases('m2m-frame.json') - 2 + countedCases('avp-kv-cache.json');
      expect(lines.at(-1)).toBe(`${passed} passed, 4 failed`);
      expect(lines[0]).toMatch(/^unheard-of\.json +not known by name, not run$/);
    });

    it('accepts missing files, but not a missing folder', async () => {
      expect(await conformance(folder)).toMatchObject({
        code: 0,
        lines: expect.arrayContaining(['0 passed, 0 failed']),
      });
      expect(await conformance(join(folder, 'nowhere'))).toMatchObject({ code: 2 });
    });
  });
});

const family = (check: () => void, informative?: true): Family => ({
  file: 'some.json',
  head: ['_meta'],
  sections: [{ name: 'cases', check, ...(informative && { informative }) }],
});
const only = (known: Family, document: unknown): Case => {
  const cases = casesOf(known, document);
  expect(cases).toHaveLength(1);
  return cases[0] as Case;
};

describe('a case', () => {
  const passing = family(() => {});

  it('fails if its file does not match the family', () => {
    const why = (document: unknown) => runCase(only(passing, document));
    expect(why([])).toMatchObject({ why: 'the file is not a JSON object' });
    expect(why({ others: [{}] })).toMatchObject({ why: 'the runner does not know the section others' });
    expect(why({ others: { a: 1 } })).toMatchObject({ why: 'the runner does not know the section others' });
    expect(why({ cases: ['text'] })).toMatchObject({ why: 'the case is not an object' });
    expect(why({ cases: [], count: 1 })).toMatchObject({ why: 'the file states 1 cases and holds 0' });
    expect(runCase(only(passing, { _meta: {}, notes: ['prose'], format: 'v1', cases: [{}] }))).toEqual({
      status: 'passed',
    });
  });

  it('fails if it throws anything but a ProtocolError, or takes long', async () => {
    const { outcomeOf } = await import('./expect.js');
    const run = (check: () => void, informative?: true) =>
      runCase(only(family(check, informative), { cases: [{}] }));
    const foreign = () => outcomeOf(() => (undefined as unknown as string).length);
    expect(
      run(() =>
        outcomeOf(() => {
          throw new ProtocolError('bad_frame', '');
        }),
      ),
    ).toEqual({ status: 'passed' });
    expect(run(foreign)).toMatchObject({
      status: 'failed',
      why: expect.stringMatching(/^not a ProtocolError: TypeError/),
    });
    expect(run(foreign, true)).toMatchObject({ status: 'failed' });
    const slow = only(passing, { cases: [{}] });
    const taking = (seconds: number) => () => () => seconds;
    expect(runCase(slow, taking(2))).toEqual({ status: 'passed' });
    expect(runCase(slow, taking(2.1))).toEqual({
      status: 'failed',
      why: 'took 2.1 s, at most 2 s are allowed',
    });
  });
});

describe('a report', () => {
  const cases = casesOf(
    family(() => {}),
    { cases: [{ name: 'a' }, { name: 'b' }, { name: 'c' }] },
  );
  const pass = (platform: Pass['platform'], results: Record<string, Result>, failure?: string): Pass => ({
    platform,
    results: new Map(Object.entries(results)),
    seconds: 1,
    failure,
  });

  it('counts a case as passed if it passed on every platform', () => {
    const passed: Result = { status: 'passed' };
    const failed: Result = { status: 'failed', why: 'differs' };
    const node = pass('node', {
      'some.json cases[0]': passed,
      'some.json cases[1]': passed,
      'some.json cases[2]': passed,
    });
    const web = pass('web', { 'some.json cases[0]': passed, 'some.json cases[1]': failed }, 'it died');
    const report = reportOf({ family: family(() => {}), cases }, [node, web]);
    expect(lineOf(report)).toBe('some.json            1 passed, 2 failed, 0 informative');
    expect(report.details).toEqual([
      '  FAILED some.json cases[1] b (web): differs',
      '  FAILED some.json cases[2] (web): not run: it died',
    ]);
  });
});
