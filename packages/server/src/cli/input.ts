import { readFile } from 'node:fs/promises';
import { CommandFailure } from './failure.js';

/** What a command is given to work on: a file, or standard input. */

/** @param file a path, or `-` for standard input. */
export async function readInput(file: string): Promise<Uint8Array> {
  if (file === '-') return await readStdin();
  try {
    return await readFile(file);
  } catch (cause) {
    throw new CommandFailure(`cannot read ${file}: ${reasonOf(cause)}`, undefined, { cause });
  }
}

async function readStdin(): Promise<Uint8Array> {
  const chunks: Buffer[] = [];
  for await (const chunk of process.stdin) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}

function reasonOf(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException;
  const known: Readonly<Record<string, string>> = {
    ENOENT: 'there is no such file',
    EISDIR: 'it is a directory',
    EACCES: 'permission denied',
  };
  return known[code ?? ''] ?? message;
}

/**
 * A frame as it would come over a WebSocket: as a text message where the bytes are text and nothing
 * else, without the line break that files of text end with.
 */
export function asFrame(bytes: Uint8Array): Uint8Array | string {
  const text = textOf(bytes);
  return text === undefined || CONTROLS.test(text) ? bytes : text.replace(/\r?\n$/, '');
}

/** No text that people write holds these. */
const CONTROLS = /(?![\t\n\r])\p{Cc}/u;

/** The bytes as text where they are UTF-8. */
export function textOf(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

/** The bytes that hex digits stand for, with or without spaces, colons and `0x`. */
export function bytesOfHex(text: string): Uint8Array | undefined {
  const digits = text.replace(/^0x/i, '').replaceAll(/[\s:]/g, '');
  if (digits === '' || !/^(?:[0-9a-f]{2})+$/i.test(digits)) return undefined;
  return new Uint8Array(Buffer.from(digits, 'hex'));
}
