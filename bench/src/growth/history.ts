import { readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { collectReadmes } from '../codecs/prose.js';

/** UTF-16 units of a question with its answer. */
const TURN_LENGTH = 2_400;

/**
 * A chat of READMEs of installed packages, and, once these are used up, of TypeScript's declarations. It lasts for
 * 1,600 turns.
 *
 * @returns the request of a turn, counted from 1: JSON with the whole history.
 */
export function createGrowingHistory(): (turn: number) => string {
  const text = [...collectReadmes(), ...collectDeclarations()].join('\n');
  const messages: { role: string; content: string }[] = [];
  let at = 0;
  const next = (length: number) => {
    if (at + length > text.length)
      throw new Error('the installed packages have too little text for so many turns');
    at += length;
    return text.slice(at - length, at);
  };
  return (turn) => {
    while (messages.length < 2 * turn) {
      messages.push({ role: 'user', content: next(TURN_LENGTH / 4) });
      messages.push({ role: 'assistant', content: next((TURN_LENGTH * 3) / 4) });
    }
    return JSON.stringify({ model: 'gpt-4o', messages: messages.slice(0, 2 * turn), stream: true });
  };
}

function collectDeclarations(): string[] {
  const folder = dirname(createRequire(import.meta.url).resolve('typescript'));
  const files = readdirSync(folder).filter((file) => /^lib\..*\.d\.ts$/.test(file));
  return files.sort().map((file) => readFileSync(join(folder, file), 'utf8'));
}
