import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { afterAll, expect, it, vi } from 'vitest';
import { sqlite } from '../sqlite.js';
import { ID, writeOf } from '../suite/record-values.js';

/** Writes to the disk, seen at the call that makes them. */

type Done = (error: Error | null) => void;
const disk = vi.hoisted(() => ({
  waiting: [] as (() => void)[],
  isHeld: false,
  calls: 0,
  failure: null as Error | null,
}));
vi.mock('node:fs', async (original) => {
  const fs = await original<typeof import('node:fs')>();
  const fdatasync = (file: number, done: Done) => {
    disk.calls++;
    const end = () => (disk.failure === null ? fs.fdatasync(file, done) : done(disk.failure));
    if (disk.isHeld) disk.waiting.push(end);
    else end();
  };
  return { ...fs, default: { ...fs, fdatasync }, fdatasync };
});

const folder = mkdtempSync(join(tmpdir(), 'parlance-flusher-'));
afterAll(() => rmSync(folder, { recursive: true }));

it("calls resolve when the disk has what they have written, with synchronous: 'full' alone", async () => {
  const link = sqlite(join(folder, 'full.db'), { synchronous: 'full' }).connect();
  await link.writeSession(ID, writeOf(1, { begin: 'b' }));
  expect(disk.calls).toBeGreaterThan(0);
  disk.isHeld = true;
  const done: string[] = [];
  const writes = [2, 3].map(async (number) => {
    await link.writeSession(ID, writeOf(number, { m1: `${number}` }));
    done.push(`${number}`);
  });
  await vi.waitFor(() => expect(disk.waiting).toHaveLength(1));
  // More than enough ticks of the event loop for a call that waited for nothing.
  for (let turn = 0; turn < 20; turn++) await pause(1);
  expect(done).toEqual([]);
  disk.isHeld = false;
  for (const end of disk.waiting.splice(0)) end();
  await Promise.all(writes);
  expect(done.toSorted()).toEqual(['2', '3']);
  await link.close();

  const other = sqlite(join(folder, 'normal.db')).connect();
  disk.isHeld = true;
  await other.writeSession(ID, writeOf(1, { begin: 'b' }));
  disk.isHeld = false;
  for (const end of disk.waiting.splice(0)) end();
  await other.close();
});

it('a disk that fails fails the call', async () => {
  const link = sqlite(join(folder, 'failing.db'), { synchronous: 'full' }).connect();
  await link.writeSession(ID, writeOf(1, { begin: 'b' }));
  disk.failure = Object.assign(new Error('EIO: i/o error'), { code: 'EIO' });
  const failing = link.writeSession(ID, writeOf(2, { m1: 'x' }));
  await expect(failing).rejects.toMatchObject({ code: 'connection_failed' });
  disk.failure = null;
  await link.close();
});
