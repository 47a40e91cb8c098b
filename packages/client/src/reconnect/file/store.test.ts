import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { file } from './store.js';

let folder = '';
let path = '';
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'parlance-file-'));
  path = join(folder, 'session');
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const KEY = 'parlance:ws://127.0.0.1/session';

describe('a store in a file', () => {
  it('has what the store before it has set, and nothing that it has removed', () => {
    const before = file(path);
    before.setItem(KEY, 'one');
    before.setItem(`${KEY}/other`, 'two');
    before.setItem(KEY, 'three');
    before.removeItem(`${KEY}/other`);
    before.close();
    using store = file(path);
    expect([store.getItem(KEY), store.getItem(`${KEY}/other`)]).toEqual(['three', null]);
    expect(store).not.toBe(before);
    expect(() => before.setItem(KEY, 'late')).toThrow('closed');
    before.close();
    expect(existsSync(`${path}.lock`)).toBe(true);
  });

  it('is one for a process, which is the only one that may read it', () => {
    using store = file(path);
    expect(file(path)).toBe(store);
    store.setItem(KEY, 'secret');
    expect(statSync(path).mode & 0o777).toBe(0o600);
    expect(readdirSync(folder).toSorted()).toEqual(['session', 'session.lock']);
  });

  it('leaves no lock behind', () => {
    file(path).close();
    expect(readdirSync(folder)).toEqual(['session']);
  });
});

describe('a file that is locked', () => {
  it('by a process that lives is refused, with its number', () => {
    // Its parent: it is there, and began at another time than this process.
    writeFileSync(`${path}.lock`, `${process.ppid} -`);
    expect(() => file(path)).toThrow(
      expect.objectContaining({
        code: 'unsupported',
        message: `file: ${path} is used by process ${process.ppid}; each process needs a file of its own`,
      }),
    );
    expect(readFileSync(`${path}.lock`, 'utf8')).toBe(`${process.ppid} -`);
    expect(readdirSync(folder)).toEqual(['session.lock']);
  });

  it.each([
    ['a process that has died', '4194300 -'],
    ['another process that had its number', `${process.ppid} of-another-boot/1`],
    ['nobody', ''],
    ['nonsense', '-1 x'],
  ])('by %s is taken over', (_, owner) => {
    if (owner.startsWith(`${process.ppid}`) && !existsSync('/proc/self/stat')) return;
    writeFileSync(`${path}.lock`, owner);
    using store = file(path);
    store.setItem(KEY, 'x');
    expect(readFileSync(`${path}.lock`, 'utf8')).toMatch(new RegExp(`^${process.pid} `));
    expect(readdirSync(folder).toSorted()).toEqual(['session', 'session.lock']);
  });
});

describe('a file that cannot be a store', () => {
  it.each(['{', '[]', '"text"', '{"other":"x"}', `{"${KEY}":5}`, 'x'.repeat(1024 * 1024 + 1)])(
    'is refused and stays as it is: %#',
    (text) => {
      writeFileSync(path, text);
      expect(() => file(path)).toThrow(expect.objectContaining({ code: 'invalid_argument' }));
      expect(readFileSync(path, 'utf8')).toBe(text);
      expect(readdirSync(folder)).toEqual(['session']);
    },
  );

  it.each([
    ['a folder', () => folder],
    ['a place that is not there', () => join(folder, 'no', 'session')],
    ['no path', () => ''],
    ['a number', () => 5 as never],
  ])('is refused: %s', (_, place) => {
    expect(() => file(place())).toThrow(expect.objectContaining({ code: 'invalid_argument' }));
  });
});
