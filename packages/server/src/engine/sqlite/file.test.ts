import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  chownSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { EngineConnection } from '../engine.js';
import { type SqliteEngine, type SqliteOptions, sqlite } from '../sqlite.js';
import { diskMissing, mountDisk } from '../testing/small-disk.js';
import { loadLibrary } from './library.js';

const PROGRAM = fileURLToPath(new URL('../testing/hold-file.ts', import.meta.url));
const FLAGS = ['--import', 'tsx', '--conditions=@parlance/source'];
/** A user without rights. */
const UID = 65_534;
const isRoot = process.getuid?.() === 0;
const LONG_MS = 60_000;

let folder = '';
let file = '';
const open: EngineConnection[] = [];
const children: ChildProcess[] = [];
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'parlance-file-'));
  file = join(folder, 'parlance.db');
});
afterEach(async () => {
  for (const each of open.splice(0)) await each.close();
  for (const child of children.splice(0)) child.kill('SIGKILL');
  rmSync(folder, { recursive: true });
});

function connect(engine: SqliteEngine = sqlite(file)): EngineConnection {
  const link = engine.connect();
  open.push(link);
  return link;
}

const write = (link: EngineConnection, id: string, bytes = 100, ttlMs = LONG_MS) =>
  link.writeSession(id, {
    ...{ owner: 'aaaaaa', epoch: 0, number: 1, isFirst: true, ttlMs, remove: [] },
    set: new Map([['begin', new Uint8Array(bytes).fill(7)]]),
  });

/** Why a file cannot be used. */
async function refusal(path = file): Promise<unknown> {
  return await connect(sqlite(path))
    .renew('aaaaaa', '', LONG_MS)
    .then(
      () => undefined,
      (error: unknown) => error,
    );
}

const refused = (message: string) => ({ code: 'unsupported', message: expect.stringContaining(message) });

/** Opens the file in another process. Returns the line that the process prints, and the process. */
async function elsewhere(options: { readonly uid?: number; readonly umask?: string } = {}) {
  const { uid, umask } = options;
  const args = [...FLAGS, PROGRAM, file, ...(umask === undefined ? [] : [umask])];
  const child = spawn(process.execPath, args, {
    stdio: ['ignore', 'pipe', 'inherit'],
    ...(uid !== undefined && { uid, gid: uid }),
  });
  children.push(child);
  const [line] = (await once(createInterface(child.stdout), 'line')) as [string];
  return { child, line };
}

describe('a file of SQLite', () => {
  it('is for its owner alone, with all that belongs to it, with any umask', async () => {
    await elsewhere({ umask: '0' });
    const modes = ['', '-wal'].map((suffix) => statSync(`${file}${suffix}`).mode & 0o777);
    expect(modes).toEqual([0o600, 0o600]);
  });

  it('has one process at a time, also after that was killed, and then forgets its lease', async () => {
    const { child, line } = await elsewhere();
    expect(line).toBe('open');
    expect(await refusal()).toMatchObject(refused('another process uses the file'));
    child.kill('SIGKILL');
    await once(child, 'exit');
    const link = connect();
    expect((await link.renew('aaaaaa', '', LONG_MS)).nodes?.map(({ incarnation }) => incarnation)).toEqual([
      'aaaaaa',
    ]);
    expect(await link.find('holder')).toBeUndefined();
    expect((await elsewhere()).line).toContain('another process uses the file');
  });

  it('is shared by all engines of a process, whichever path names it', async () => {
    const [a, b] = [connect(), connect()];
    await write(a, 'sess_1');
    symlinkSync(file, join(folder, 'link.db'));
    const c = connect(sqlite(join(folder, 'link.db'), { synchronous: 'full' }));
    for (const each of [b, c]) expect(await each.findSession('sess_1')).toBeDefined();
    // Also if one is closed twice, the others have the file.
    await Promise.all([a.close(), a.close(), b.close()]);
    await write(c, 'sess_2');
    expect(await c.findSession('sess_2')).toBeDefined();
    await c.close();
    await expect(c.findSession('sess_2')).rejects.toMatchObject({ code: 'connection_failed' });
    expect(await connect().findSession('sess_2')).toBeDefined();
  });

  it('is refused if its folder is missing, or neither it nor the folder may be written', async () => {
    expect(await refusal(join(folder, 'none/parlance.db'))).toMatchObject(refused('folder does not exist'));
    expect(await refusal(folder)).toMatchObject(refused(''));
    await write(connect(), 'sess_1');
    await open.pop()?.close();
    if (!isRoot) {
      chmodSync(file, 0o400);
      expect(await refusal()).toMatchObject(refused('the file cannot be written'));
      return;
    }
    // Root may write everything.
    chmodSync(file, 0o444);
    chmodSync(folder, 0o777);
    expect((await elsewhere({ uid: UID })).line).toContain('the file cannot be written');
    chownSync(file, UID, UID);
    chmodSync(file, 0o600);
    chmodSync(folder, 0o755);
    expect((await elsewhere({ uid: UID })).line).toContain('its folder cannot be written');
  });

  it('is refused if it is damaged, and not touched', async () => {
    writeFileSync(file, 'This is not a database. '.repeat(500));
    expect(await refusal()).toMatchObject(refused('damaged'));
    expect(readFileSync(file, 'latin1')).toBe('This is not a database. '.repeat(500));
    rmSync(file);
    const link = connect();
    for (let i = 0; i < 200; i++) await write(link, `sess_${i}`, 2_000);
    await link.close();
    const bytes = readFileSync(file);
    bytes.fill(0xa5, bytes.length / 2, bytes.length / 2 + 20_000);
    writeFileSync(file, bytes);
    expect(await refusal()).toMatchObject(refused('damaged'));
  });

  it('is refused if a newer version has written it, or another application', async () => {
    const { DatabaseSync } = loadLibrary();
    await write(connect(), 'sess_1');
    await open.pop()?.close();
    const newer = new DatabaseSync(file);
    newer.exec('PRAGMA user_version = 99');
    newer.close();
    expect(await refusal()).toMatchObject(refused('written by a newer version (schema 99'));
    rmSync(file);
    const other = new DatabaseSync(file);
    other.exec('CREATE TABLE invoices (id INTEGER)');
    other.close();
    expect(await refusal()).toMatchObject(refused('another application'));
  });

  it('is copied while it is used, and the copy works', async () => {
    const engine = sqlite(file);
    const link = connect(engine);
    await write(link, 'sess_1');
    const copy = join(folder, 'copy.db');
    await engine.backup(copy);
    await write(link, 'sess_2');
    expect(statSync(copy).mode & 0o777).toBe(0o600);
    await expect(engine.backup(copy)).rejects.toMatchObject({ code: 'invalid_option' });
    const restored = connect(sqlite(copy));
    expect(await restored.findSession('sess_1')).toEqual({ owner: 'aaaaaa', epoch: 0 });
    expect(await restored.findSession('sess_2')).toBeUndefined();
  });

  it('becomes smaller when what was in it is over', async () => {
    const link = connect();
    await Promise.all(Array.from({ length: 600 }, (_, i) => write(link, `sess_${i}`, 20_000, 500)));
    await link.close();
    const before = statSync(file).size;
    expect(before).toBeGreaterThan(12_000_000);
    const again = connect();
    const size = async () => {
      await again.findSession('sess_1');
      return statSync(file).size;
    };
    await expect.poll(size, { interval: 500 }).toBeLessThan(before / 2);
  });
});

describe.skipIf(diskMissing !== undefined)('a disk that is full', () => {
  it('fails calls with a typed error, and is used again when there is room', async () => {
    using disk = mountDisk('16m');
    const link = connect(sqlite(join(disk.folder, 'parlance.db')));
    expect(await write(link, 'sess_0', 10)).toBe('written');
    const relieve = await disk.fill();
    const outcomes = await Promise.allSettled(
      Array.from({ length: 40 }, (_, i) => write(link, `sess_${i + 1}`, 50_000)),
    );
    const failed = outcomes.find(({ status }) => status === 'rejected');
    expect(failed).toMatchObject({ reason: { code: 'connection_failed' } });
    expect(await link.findSession('sess_0')).toBeDefined();
    relieve();
    for (let i = 1; i <= 40; i++) expect(await write(link, `sess_${i}`, 50_000)).toBe('written');
    await link.close();
    open.length = 0;
  });
});

describe('sqlite()', () => {
  it.each([
    ['', {}, 'path of a file'],
    [':memory:', {}, 'nothing survives in memory'],
    ['file:x.db?mode=memory', {}, 'path of a file'],
    ['a\0b', {}, 'path of a file'],
    [undefined, {}, 'path of a file'],
    ['x.db', { synchronous: 'off' }, "'normal' or 'full'"],
    ['x.db', { sync: 'full' }, 'sync'],
  ])('refuses %j with %j', (path, options, message) => {
    expect(() => sqlite(path as string, options as SqliteOptions)).toThrow(
      expect.objectContaining({ code: 'invalid_option', message: expect.stringContaining(message) }),
    );
  });
});
