import { linkSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { ProtocolError } from '@parlance/protocol';

/** One process has a file. A lock names its process, so that one of a process that has died is known as such. */

/** Other processes that take over the same lock meanwhile; more than a few is a fault. */
const MAX_ATTEMPTS = 20;

/**
 * Takes the file at `place` for this process.
 *
 * @returns a function that releases it.
 * @throws {ProtocolError} `unsupported` if another process has it; `invalid_argument` if the lock cannot be written.
 */
export function takeFile(place: string): () => void {
  const lock = `${place}.lock`;
  const own = `${lock}.${process.pid}`;
  const name = nameOf(process.pid);
  try {
    writeFileSync(own, name, { mode: 0o600 });
    for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
      if (isMade(() => linkSync(own, lock))) return () => release(lock, name);
      const owner = readOf(lock);
      if (owner === undefined) continue;
      if (lives(owner)) throw taken(place, owner);
      removeOf(lock, owner);
    }
    throw taken(place, 'another one');
  } catch (cause) {
    if (cause instanceof ProtocolError) throw cause;
    const { code = '' } = cause as NodeJS.ErrnoException;
    throw new ProtocolError('invalid_argument', `file: ${lock} cannot be written (${code})`, { cause });
  } finally {
    rmSync(own, { force: true });
  }
}

function taken(place: string, owner: string): ProtocolError {
  const [pid] = owner.split(' ');
  return new ProtocolError(
    'unsupported',
    `file: ${place} is used by process ${pid}; each process needs a file of its own`,
  );
}

/** Linux tells when a process began, so that another one with its number is not taken for it. */
function nameOf(pid: number): string {
  return `${pid} ${beginningOf(pid)}`;
}

function beginningOf(pid: number): string {
  try {
    // The name of the program, in brackets, may have spaces.
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
      .replace(/^.*\) /s, '')
      .split(' ');
    return `${readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()}/${fields[19]}`;
  } catch {
    return '-';
  }
}

function lives(owner: string): boolean {
  const [pid = '', beginning] = owner.split(' ');
  if (!/^[1-9]\d{0,9}$/.test(pid)) return false;
  try {
    process.kill(Number(pid), 0);
  } catch (error) {
    // One of another user lives as well.
    if ((error as NodeJS.ErrnoException).code !== 'EPERM') return false;
  }
  const now = beginningOf(Number(pid));
  return beginning === '-' || now === '-' || beginning === now;
}

/** Removes the lock of a process that has died. Of several that try, one succeeds. */
function removeOf(lock: string, owner: string): void {
  const aside = `${lock}.${process.pid}.aside`;
  if (!isMade(() => renameSync(lock, aside))) return;
  // Another process has taken it in between: it stays that one's.
  if (readOf(aside) !== owner) isMade(() => linkSync(aside, lock));
  rmSync(aside, { force: true });
}

function release(lock: string, name: string): void {
  if (readOf(lock) === name) rmSync(lock, { force: true });
}

function readOf(lock: string): string | undefined {
  try {
    return readFileSync(lock, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

/** Whether the change was made; `false` if another process was faster. */
function isMade(change: () => void): boolean {
  try {
    change();
    return true;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'EEXIST' || code === 'ENOENT') return false;
    throw error;
  }
}
