import { mkdtemp, statfs } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const IN_MEMORY = '/dev/shm';
/** How much a file system in memory has to have left, in bytes. */
const ENOUGH_BYTES = 2 ** 30;

/**
 * A temporary folder for the data of a server of a test, in memory if there is enough: whether that answers in time must not depend
 * on how long others let the disk wait. A server that is killed loses nothing there.
 */
export async function newDataFolder(prefix: string): Promise<string> {
  const memory = await statfs(IN_MEMORY).catch(() => undefined);
  const isEnough = memory !== undefined && memory.bavail * memory.bsize >= ENOUGH_BYTES;
  return await mkdtemp(join(isEnough ? IN_MEMORY : tmpdir(), prefix));
}
