import { withArticle } from './article.js';
import { ProtocolError } from './errors.js';

/**
 * First checks of options, for callers without a compiler: unknown names and values of the wrong kind. The
 * code that uses an option checks its value.
 */

const KINDS = {
  text: { phrase: 'a string', fits: (value: unknown) => typeof value === 'string' },
  number: { phrase: 'a number', fits: (value: unknown) => typeof value === 'number' },
  flag: { phrase: 'true or false', fits: (value: unknown) => typeof value === 'boolean' },
  false: { phrase: 'false', fits: (value: unknown) => value === false },
  function: { phrase: 'a function', fits: isFunction },
  class: { phrase: 'a class', fits: isFunction },
  list: { phrase: 'a list', fits: Array.isArray },
  object: {
    phrase: 'an object',
    fits: (value: unknown) => typeof value === 'object' && value !== null && !Array.isArray(value),
  },
  logger: {
    phrase: 'a logger with the methods debug, info, warn and error, such as console or pino()',
    fits: (value: unknown) => has(value, ['debug', 'info', 'warn', 'error']),
  },
  any: { phrase: 'any value', fits: () => true },
  signal: { phrase: 'an AbortSignal', fits: (value: unknown) => has(value, ['throwIfAborted']) },
} as const;

export type OptionKind = keyof typeof KINDS;

/** The kinds of value that each option takes, with an entry for every option of `Options`. */
export type OptionKinds<Options extends object> = {
  readonly [Name in keyof Required<Options>]: OptionKind | readonly OptionKind[];
};

/**
 * @param options `undefined` counts as no options, and an option that is `undefined` as not given.
 * @param where the name of the option that these are nested in. @default they are top-level options
 * @throws {ProtocolError} `invalid_option` for an unknown option, with the name that was probably meant, and
 * for a value of the wrong kind. The message never holds the value, which may be a secret.
 */
export function assertOptions<Options extends object>(
  options: Options | undefined,
  kinds: OptionKinds<Options>,
  where?: string,
): void {
  if (options === undefined) return;
  assertObject(options, where ?? 'options');
  for (const name in options) {
    const kind = kinds[name];
    // Every call may have options, so the common case must be fast.
    if (typeof kind === 'string' && KINDS[kind as OptionKind].fits(options[name])) continue;
    if (Object.hasOwn(options, name)) assertOption(name, options[name], kinds, where);
  }
}

function assertOption(
  name: string,
  value: unknown,
  kinds: Readonly<Record<string, OptionKind | readonly OptionKind[]>>,
  where: string | undefined,
): void {
  if (!Object.hasOwn(kinds, name)) throw unknownName('option', name, Object.keys(kinds), where);
  if (value === undefined) return;
  const allowed = [kinds[name] as OptionKind | readonly OptionKind[]].flat() as OptionKind[];
  if (allowed.some((kind) => KINDS[kind].fits(value))) return;
  const phrases = allowed.map((kind) => KINDS[kind].phrase).join(' or ');
  throw invalid(
    `${where === undefined ? '' : `${where}.`}${name}: ${phrases} is expected, not ${kindOf(value)}`,
  );
}

/** @throws {ProtocolError} `invalid_option` if `value` is not an object. */
export function assertObject(value: unknown, where: string): void {
  const { phrase, fits } = KINDS.object;
  if (!fits(value)) throw invalid(`${where}: ${phrase} is expected, not ${kindOf(value)}`);
}

/** The error for an unknown name, with the closest known one. */
export function unknownName(
  what: string,
  name: string,
  known: readonly string[],
  where?: string,
): ProtocolError {
  const meant = known.find((candidate) => areAlike(candidate, name));
  const guess = meant === undefined ? '' : `, did you mean "${meant}"?`;
  const place = where === undefined ? '' : `${where}: `;
  return invalid(
    `${place}unknown ${what} "${name.slice(0, 64)}"${guess} (known ${what}s: ${known.join(', ')})`,
  );
}

function invalid(message: string): ProtocolError {
  return new ProtocolError('invalid_option', message);
}

function has(value: unknown, methods: readonly string[]): boolean {
  return (
    typeof value === 'object' &&
    value !== null &&
    methods.every((name) => isFunction((value as Record<string, unknown>)[name]))
  );
}

function isFunction(value: unknown): boolean {
  return typeof value === 'function';
}

function kindOf(value: unknown): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'a list';
  if (typeof value === 'boolean') return String(value);
  return withArticle(typeof value);
}

/** Whether the names differ only in case, in an added ending or in at most two letters. */
function areAlike(known: string, given: string): boolean {
  const [a, b] = [known.toLowerCase(), given.toLowerCase()];
  if (b.length > 64) return false;
  if (b.length > 3 && (a.startsWith(b) || b.startsWith(a))) return true;
  return editsBetween(a, b) <= Math.min(2, Math.floor(a.length / 3));
}

/** The number of letters to insert, delete, replace or swap with the next one. */
function editsBetween(a: string, b: string): number {
  let before: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const isSame = a[i - 1] === b[j - 1];
      let edits = Math.min(
        (last[j - 1] as number) + (isSame ? 0 : 1),
        (last[j] as number) + 1,
        (row[j - 1] as number) + 1,
      );
      const isSwap = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      if (isSwap) edits = Math.min(edits, (before[j - 2] as number) + 1);
      row.push(edits);
    }
    before = last;
    last = row;
  }
  return last[b.length] as number;
}
