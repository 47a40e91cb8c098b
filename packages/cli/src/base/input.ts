import { readFile } from 'node:fs/promises';
import { CommandFailure } from './failure.js';

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
    ENOENT: 'no such file',
    EISDIR: 'is a directory',
    EACCES: 'permission denied',
  };
  return known[code ?? ''] ?? message;
}

/**
 * A frame as a WebSocket would deliver it: a text message if the bytes are text without control
 * characters, and then without the line break at the end of the file.
 */
export function asFrame(bytes: Uint8Array): Uint8Array | string {
  const text = textOf(bytes);
  return text === undefined || CONTROLS.test(text) ? bytes : text.replace(/\r?\n$/, '');
}

/** Control characters, which text files do not contain. */
const CONTROLS = /(?![\t\n\r])\p{Cc}/u;

/** The bytes as text, or `undefined` if they are not UTF-8. */
export function textOf(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

/** Decodes hex digits, with or without spaces, colons and `0x`; `undefined` if the text is not hex. */
export function bytesOfHex(text: string): Uint8Array | undefined {
  const digits = text.replace(/^0x/i, '').replaceAll(/[\s:]/g, '');
  if (digits === '' || !/^(?:[0-9a-f]{2})+$/i.test(digits)) return undefined;
  return new Uint8Array(Buffer.from(digits, 'hex'));
}
