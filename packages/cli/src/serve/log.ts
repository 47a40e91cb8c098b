import type { Logger } from '@parlance/protocol';
import { printable } from '@parlance/protocol/inspect';
import { loggable } from '@parlance/protocol/internal';
import { pino } from 'pino';
import type { Terminal } from '../base/terminal.js';
import { widthOf, wrap } from '../base/text-layout.js';

export type LogLevel = 'debug' | 'info' | 'warn' | 'error' | 'silent';

/** Redacted in case a caller logs one by mistake. */
const SECRETS = ['token', 'auth', 'authorization', '*.token', '*.auth', '*.authorization'];

/**
 * The log of `parlance serve`: one JSON object per line, or readable lines on a terminal. Payloads and
 * tokens are never logged.
 */
export function createLog(level: LogLevel, terminal: Terminal): Logger {
  const format = terminal.isInteractive
    ? (line: string) => lineForPeople(line, terminal)
    : (line: string) => line;
  return pino(
    {
      level,
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      redact: { paths: SECRETS, censor: '[redacted]' },
      // Messages of foreign errors may quote their input.
      serializers: { err: (error: unknown) => (error instanceof Error ? loggable(error) : error) },
    },
    { write: (line) => terminal.write(format(line)) },
  );
}

/** Width of the time and the level. */
const INDENT = 21;

function lineForPeople(json: string, terminal: Terminal): string {
  const { level, time, msg, err, ...fields } = JSON.parse(json) as Record<string, unknown>;
  const { style } = terminal;
  const mark = level === 'error' ? 'bad' : level === 'warn' ? 'notice' : 'faint';
  const details = Object.entries(fields).map(
    ([name, value]) => `${name}=${typeof value === 'string' ? value : JSON.stringify(value)}`,
  );
  if (err !== undefined) {
    const { type, message = type } = err as { type?: string; message?: string };
    details.push(`error=${JSON.stringify(message)}`);
  }
  const head = `${style('faint', String(time).slice(11, 23))}  ${style(mark, String(level).padEnd(5))}  `;
  const message = printable(String(msg));
  const rest = details.map(printable).join('  ');
  const room = terminal.columns - INDENT;
  if (widthOf(message) + 2 + widthOf(rest) <= room) return `${head}${message}  ${style('faint', rest)}\n`;
  const lines = [
    ...wrap(message, room),
    ...(rest === '' ? [] : wrap(rest, room).map((line) => style('faint', line))),
  ];
  return `${head}${lines.join(`\n${' '.repeat(INDENT)}`)}\n`;
}
