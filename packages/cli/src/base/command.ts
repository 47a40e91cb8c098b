import { InvalidArgumentError } from 'commander';
import type { ExitCode } from './failure.js';
import type { Terminal } from './terminal.js';

/** The environment of a command, and parsers for the values of its options. */

export interface CommandEnvironment {
  readonly output: Terminal;
  readonly errors: Terminal;
  /** Whether standard input is a terminal. */
  readonly isTyped: boolean;
  /** A variable of the environment; `undefined` if it is empty, too. */
  variable(name: string): string | undefined;
  /** `undefined` without a terminal. */
  readonly keys?: Keys | undefined;
}

/** Reports each key as it is typed, until the returned function is called. */
export type Keys = (onKey: (key: string) => void) => () => void;

/** Receives the exit code of a command. */
export type Finish = (code: ExitCode) => void;

export function wholeNumber(least: number, most: number) {
  return (text: string): number => {
    const value = Number(text);
    if (/^\d+$/.test(text) && value >= least && value <= most) return value;
    throw new InvalidArgumentError(`Expected a whole number from ${least} to ${most}.`);
  };
}

/** Accepts names in any case, and with - instead of _. */
export function nameOf<Name extends string>(
  names: readonly Name[],
  fold = (name: string) => name.toUpperCase(),
) {
  return (text: string): Name => {
    const found = names.find((name) => name === fold(text.replaceAll('-', '_')));
    if (found !== undefined) return found;
    throw new InvalidArgumentError(`Expected one of ${names.join(', ')}.`);
  };
}

/** Dimensions, such as `32,4096`. */
export function shapeOf(text: string): number[] {
  return text.split(/[,x]/).map(wholeNumber(0, 2 ** 32 - 1));
}

export function httpUrl(text: string): string {
  if (/^https?:\/\//i.test(text) && URL.canParse(text)) return text;
  throw new InvalidArgumentError('Expected a URL such as http://127.0.0.1:11434/v1.');
}

/** Several values, or one value with commas. */
export function splitList(values: readonly string[]): string[] {
  return values.flatMap((value) => value.split(',')).filter((value) => value !== '');
}

/** The help of `--token`, for commands that connect. */
export const TOKEN_HELP =
  'token to present; the environment variable PARLANCE_TOKEN keeps it out of the process list';
