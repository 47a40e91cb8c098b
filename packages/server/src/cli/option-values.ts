import { InvalidArgumentError } from 'commander';

/** What the values of options may be; anything else is told in one sentence. */

export function wholeNumber(least: number, most: number) {
  return (text: string): number => {
    const value = Number(text);
    if (/^\d+$/.test(text) && value >= least && value <= most) return value;
    throw new InvalidArgumentError(`It is a whole number from ${least} to ${most}.`);
  };
}

/** Names are taken in any case, and with - for _. */
export function nameOf<Name extends string>(
  names: readonly Name[],
  fold = (name: string) => name.toUpperCase(),
) {
  return (text: string): Name => {
    const found = names.find((name) => name === fold(text.replaceAll('-', '_')));
    if (found !== undefined) return found;
    throw new InvalidArgumentError(`It is one of ${names.join(', ')}.`);
  };
}

/** Dimensions, such as `32,4096`. */
export function shapeOf(text: string): number[] {
  return text.split(/[,x]/).map(wholeNumber(0, 2 ** 32 - 1));
}

export function httpUrl(text: string): string {
  if (/^https?:\/\//i.test(text) && URL.canParse(text)) return text;
  throw new InvalidArgumentError('It is a URL such as http://127.0.0.1:11434/v1.');
}

/** Several values, or one with commas. */
export function splitList(values: readonly string[]): string[] {
  return values.flatMap((value) => value.split(',')).filter((value) => value !== '');
}
