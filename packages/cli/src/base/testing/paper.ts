import { Buffer } from 'node:buffer';
import { createTerminal, type Terminal } from '../terminal.js';

/** A terminal or a pipe that records what is written to it. */
export interface Paper {
  readonly terminal: Terminal;
  text(): string;
  bytes(): Buffer;
  lines(): string[];
}

/** @param columns width of the terminal. @default a pipe */
export function createPaper(columns?: number, hasColors = false): Paper {
  const written: Buffer[] = [];
  const terminal = createTerminal({
    isTTY: columns !== undefined,
    columns,
    hasColors: () => hasColors,
    write: (data) => written.push(Buffer.from(data)) > 0,
  });
  const bytes = () => Buffer.concat(written);
  const text = () => bytes().toString('utf8');
  return { terminal, bytes, text, lines: () => text().replace(/\n$/, '').split('\n') };
}
