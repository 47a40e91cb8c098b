import { ProtocolError } from '../../base/errors.js';

/**
 * JSON as Python's `json.loads` reads it, without loss: integers of any length stay integers and floats stay
 * floats, which `JSON.parse` cannot distinguish. `NaN` and the infinities are numbers; if a key occurs twice,
 * the last value counts.
 */
export type LosslessJson =
  | null
  | boolean
  | string
  /** A number with neither point nor exponent. */
  | bigint
  /** Any other number. */
  | number
  | readonly LosslessJson[]
  | ReadonlyMap<string, LosslessJson>;

/** Levels of nesting; the config of a model needs only a few. */
const MAX_DEPTH = 256;
/** Python refuses longer integers, because reading one takes quadratic time. */
const MAX_INTEGER_DIGITS = 4300;

// Sticky and without nested repetition, so each takes linear time on any input.
const WHITESPACE = /[ \t\n\r]*/y;
const NUMBER = /-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?/y;
// biome-ignore lint/suspicious/noControlCharactersInRegex: JSON strings hold no raw control characters
const PLAIN_TEXT = /[^"\\\u0000-\u001f]*/y;
const HEX_UNIT = /[0-9a-fA-F]{4}/y;
const WORD = /true|false|null|NaN|-?Infinity/y;

const WORDS: ReadonlyMap<string, LosslessJson> = new Map<string, LosslessJson>([
  ['true', true],
  ['false', false],
  ['null', null],
  ['NaN', Number.NaN],
  ['Infinity', Number.POSITIVE_INFINITY],
  ['-Infinity', Number.NEGATIVE_INFINITY],
]);

const ESCAPES: ReadonlyMap<string, string> = new Map([
  ['"', '"'],
  ['\\', '\\'],
  ['/', '/'],
  ['b', '\b'],
  ['f', '\f'],
  ['n', '\n'],
  ['r', '\r'],
  ['t', '\t'],
]);

/** @throws {ProtocolError} `bad_json`, `json_too_deep`. */
export function parseLosslessJson(text: string): LosslessJson {
  let at = 0;

  const fail = (what: string): never => {
    throw new ProtocolError('bad_json', `JSON has ${what} at position ${at}`);
  };
  /** Consumes and returns the match of `pattern` at the current position, if any. */
  const take = (pattern: RegExp): RegExpExecArray | undefined => {
    pattern.lastIndex = at;
    const match = pattern.exec(text);
    if (match === null) return undefined;
    at += match[0].length;
    return match;
  };
  const skipSpace = () => void take(WHITESPACE);
  const takeChar = (char: string): boolean => {
    if (text[at] !== char) return false;
    at++;
    return true;
  };

  const parseString = (): string => {
    if (!takeChar('"')) return fail('no string where a key is expected');
    let value = '';
    for (;;) {
      value += take(PLAIN_TEXT)?.[0] ?? '';
      if (takeChar('"')) return value;
      if (!takeChar('\\')) return fail('an unfinished string or a raw control character');
      const name = text[at++] ?? '';
      if (name === 'u') {
        const unit = take(HEX_UNIT)?.[0] ?? fail('a bad \\u escape');
        value += String.fromCharCode(Number.parseInt(unit, 16));
      } else {
        value += ESCAPES.get(name) ?? fail('an unknown escape');
      }
    }
  };

  const parseNumber = (): bigint | number => {
    const match = take(NUMBER);
    if (match === undefined) return fail('no value');
    const [digits, fraction, exponent] = match;
    if (fraction !== undefined || exponent !== undefined) return Number(digits);
    if (digits.length > MAX_INTEGER_DIGITS) return fail('an integer of more than 4300 digits');
    return BigInt(digits);
  };

  const parseArray = (depth: number): LosslessJson[] => {
    const items: LosslessJson[] = [];
    skipSpace();
    if (takeChar(']')) return items;
    do items.push(parseValue(depth));
    while (takeChar(','));
    if (!takeChar(']')) fail('an unfinished array');
    return items;
  };

  const parseObject = (depth: number): Map<string, LosslessJson> => {
    const members = new Map<string, LosslessJson>();
    skipSpace();
    if (takeChar('}')) return members;
    do {
      skipSpace();
      const key = parseString();
      skipSpace();
      if (!takeChar(':')) fail('no colon after a key');
      members.set(key, parseValue(depth));
    } while (takeChar(','));
    if (!takeChar('}')) fail('an unfinished object');
    return members;
  };

  /** One value and the whitespace around it. */
  const parseValue = (depth: number): LosslessJson => {
    if (depth > MAX_DEPTH) {
      throw new ProtocolError('json_too_deep', `JSON is nested more than ${MAX_DEPTH} levels deep`);
    }
    skipSpace();
    let value: LosslessJson;
    if (text[at] === '"') value = parseString();
    else if (takeChar('{')) value = parseObject(depth + 1);
    else if (takeChar('[')) value = parseArray(depth + 1);
    else {
      const word = take(WORD)?.[0];
      value = word === undefined ? parseNumber() : (WORDS.get(word) as LosslessJson);
    }
    skipSpace();
    return value;
  };

  const value = parseValue(0);
  if (at < text.length) fail('more text');
  return value;
}
