import { createRequire } from 'node:module';
import { ProtocolError } from '@parlance/protocol';

/** The API that is used of `node:sqlite`, and of the package that is like it. */
export interface Database {
  exec(text: string): void;
  prepare(text: string): PreparedStatement;
  close(): void;
}

export interface PreparedStatement {
  all(...values: readonly unknown[]): readonly unknown[];
}

interface Library {
  readonly DatabaseSync: new (path: string) => Database;
}

/**
 * `node:sqlite`, which Node has without a flag from 22.13 on, or the package `@photostructure/sqlite`.
 *
 * @throws {ProtocolError} `unsupported` if there is neither.
 */
export function loadLibrary(): Library {
  const builtIn: unknown = process.getBuiltinModule?.('node:sqlite');
  if (builtIn !== undefined) return builtIn as Library;
  try {
    // At once, so that a program without it fails where it calls sqlite().
    return createRequire(import.meta.url)('@photostructure/sqlite') as Library;
  } catch (cause) {
    const message =
      `Node ${process.versions.node} has no SQLite; run: npm install @photostructure/sqlite@1 ` +
      '(or use Node 22.13 or newer)';
    throw new ProtocolError('unsupported', message, { cause });
  }
}
