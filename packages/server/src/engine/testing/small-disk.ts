import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** A disk of some megabytes, which can be filled. */
export interface SmallDisk extends Disposable {
  readonly folder: string;
  /** Takes all room that is left. @returns what gives it back. */
  fill(): Promise<() => void>;
}

export function mountDisk(size: string): SmallDisk {
  const folder = mkdtempSync(join(tmpdir(), 'parlance-disk-'));
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${size}`, 'tmpfs', folder], { stdio: 'ignore' });
  } catch (error) {
    rmSync(folder, { recursive: true });
    throw error;
  }
  return {
    folder,
    async fill() {
      const file = join(folder, 'filler');
      await using handle = await open(file, 'w');
      for (const bytes of [1 << 20, 1 << 12])
        while (await hasRoom(handle, Buffer.alloc(bytes))) {
          // Until there is none.
        }
      return () => rmSync(file, { force: true });
    },
    [Symbol.dispose]() {
      execFileSync('umount', ['-l', folder]);
      rmSync(folder, { recursive: true });
    },
  };
}

async function hasRoom(handle: FileHandle, bytes: Buffer): Promise<boolean> {
  try {
    return (await handle.write(bytes)).bytesWritten > 0;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOSPC') return false;
    throw error;
  }
}

/** Why tests that need one are skipped: only root of a machine with Linux can mount it. */
export const diskMissing: string | undefined = (() => {
  try {
    mountDisk('1m')[Symbol.dispose]();
    return undefined;
  } catch {
    return 'skipped, as no file system can be mounted';
  }
})();
