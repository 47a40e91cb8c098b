import { accessSync, constants, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { isProtocolError } from '@parlance/protocol';
import type { Engine } from '../engine/engine.js';
import { CommandFailure, ExitCode } from './failure.js';

const FILE = 'parlance.db';

/**
 * Where `serve` keeps what outlives it. The folder is created if there is none.
 *
 * @throws {CommandFailure} one sentence that says what to do.
 */
export async function dataEngine(folder: string): Promise<Engine> {
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    accessSync(folder, constants.R_OK | constants.W_OK | constants.X_OK);
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    throw wrong(
      `--data: ${folder} cannot be written (${code}); name a folder that this user may write`,
      cause,
    );
  }
  const { sqlite } = await import('../engine/sqlite.js');
  try {
    return sqlite(join(folder, FILE));
  } catch (error) {
    throw isProtocolError(error) ? wrong(`--data: ${error.message}`, error) : error;
  }
}

function wrong(message: string, cause?: unknown): CommandFailure {
  return new CommandFailure(message, ExitCode.USAGE, { cause });
}
