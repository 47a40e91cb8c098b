import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { dataFolder, engineAddress, openEngine, sharedUrl } from './engine-address.js';

const folder = mkdtempSync(join(tmpdir(), 'parlance-address-'));
afterAll(() => rmSync(folder, { recursive: true }));

describe('the address of an engine', () => {
  it.each([
    ['redis://127.0.0.1', { kind: 'redis' }],
    ['REDISS://:secret@cache.example:6380/1', { kind: 'redis' }],
    ['postgres://a:b@10.0.0.5,10.0.0.6:5433/app', { kind: 'postgres' }],
    ['postgresql://127.0.0.1/app', { kind: 'postgres' }],
    ['sqlite:/var/lib/parlance.db', { kind: 'sqlite', file: '/var/lib/parlance.db' }],
    ['sqlite:here.db', { kind: 'sqlite', file: 'here.db' }],
    [
      '/var/lib/parlance',
      { kind: 'sqlite', file: '/var/lib/parlance/parlance.db', folder: '/var/lib/parlance' },
    ],
    ['data', { kind: 'sqlite', file: 'data/parlance.db', folder: 'data' }],
  ])('%s', (text, expected) => {
    expect(engineAddress(text)).toMatchObject({
      ...expected,
      ...(expected.kind !== 'sqlite' && { url: text }),
    });
  });

  it.each([
    ['', 'Write redis://'],
    ['redis:10.0.0.5', 'Write redis://127.0.0.1:6379.'],
    ['rediss://', 'Write rediss://127.0.0.1:6379.'],
    ['postgres:app', 'Write postgres://127.0.0.1/app.'],
    ['postgresql://', 'Write postgresql://127.0.0.1/app.'],
    ['file:parlance.db', 'Write sqlite: in place of file:.'],
    ['mysql://root:hunter2@db/app', 'There is no engine for mysql: write redis://'],
    ['sqlite:', 'sqlite:/var/lib/parlance.db'],
    ['sqlite:///tmp/a.db', 'sqlite:/var/lib/parlance.db'],
    ['sqlite::memory:', 'sqlite:/var/lib/parlance.db'],
    ['parlance.db', 'write sqlite:parlance.db.'],
  ])('is refused with what to write: "%s"', (text, message) => {
    expect(() => engineAddress(text)).toThrow(message);
    expect(() => engineAddress(text)).not.toThrow('hunter2');
  });

  it('is no file without its scheme', () => {
    const file = join(folder, 'sessions');
    writeFileSync(file, '');
    expect(() => engineAddress(file)).toThrow(`write sqlite:${file}.`);
  });

  it('is one of a server if several nodes share it, and a folder after --data', () => {
    expect(sharedUrl('postgres://127.0.0.1/app')).toBe('postgres://127.0.0.1/app');
    for (const text of ['sqlite:a.db', 'data'])
      expect(() => sharedUrl(text)).toThrow('--engine takes a file');
    expect(dataFolder('x.db')).toMatchObject({ file: 'x.db/parlance.db' });
    expect(() => dataFolder('redis://127.0.0.1')).toThrow('use --engine');
  });

  it('opens an engine, and a folder that is not there', async () => {
    const engine = await openEngine(dataFolder(join(folder, 'new', 'deep')), '--data');
    const link = engine.connect();
    expect(await link.isVolatile()).toBe(false);
    await link.close();
    const refused = openEngine(engineAddress(join(folder, 'sessions', 'below')), '--engine');
    await expect(refused).rejects.toThrow(/^--engine: .* cannot be written \((ENOTDIR|EEXIST)\)/);
  });
});
