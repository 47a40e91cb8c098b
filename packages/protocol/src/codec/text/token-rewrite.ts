import { ProtocolError } from '../../base/errors.js';
import { BODY, type Place, REQUEST_DEFAULTS, type ValueKind } from './token-tables.js';

/**
 * Rewrites the text of chat JSON for T1. It works on the text and not on parsed values, so that everything
 * that is not abbreviated keeps its spelling: a number beyond 2^53 keeps all its digits.
 */

/**
 * `abbreviate` and `expand` are the two directions. `keep` writes, for comparison, what `expand` must return
 * if every abbreviation was unambiguous: long names, with the defaults at the end.
 */
export type Direction = 'abbreviate' | 'expand' | 'keep';

const QUOTE = 0x22;
const COMMA = 0x2c;
const BACKSLASH = 0x5c;
const OPEN_ARRAY = 0x5b;
const CLOSE_ARRAY = 0x5d;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;
const MINUS = 0x2d;
const DIGIT_0 = 0x30;
const DIGIT_9 = 0x39;

/**
 * @param json a complete and valid JSON document; its grammar is not checked again.
 * @param repeated the error code to throw if two keys of an object stand for the same name.
 * @throws {ProtocolError} `repeated`.
 */
export function rewriteJson(
  json: string,
  direction: Direction,
  repeated: 'unrepresentable' | 'bad_json',
): string {
  const rewriter = new Rewriter(json, direction, repeated);
  return rewriter.value(rewriter.kind() === 'object' ? BODY : undefined);
}

interface Member {
  /** The long name of the key. */
  readonly name: string;
  /** The key as it will be written, with its quotes. */
  readonly written: string;
  readonly isArray: boolean;
  readonly value: string;
}

/** A cursor over valid JSON. The nesting of the places bounds its recursion, not that of the input. */
class Rewriter {
  readonly #json: string;
  readonly #direction: Direction;
  readonly #repeated: 'unrepresentable' | 'bad_json';
  #at = 0;

  constructor(json: string, direction: Direction, repeated: 'unrepresentable' | 'bad_json') {
    this.#json = json;
    this.#direction = direction;
    this.#repeated = repeated;
    this.#skipSpace();
  }

  kind(): ValueKind {
    const first = this.#json.charCodeAt(this.#at);
    if (first === OPEN_OBJECT) return 'object';
    if (first === OPEN_ARRAY) return 'array';
    if (first === QUOTE) return 'string';
    return first === MINUS || (first >= DIGIT_0 && first <= DIGIT_9) ? 'number' : 'literal';
  }

  /** Rewrites the value at the cursor, and moves past it and the whitespace that follows. */
  value(place: Place | undefined): string {
    const kind = this.kind();
    let written: string;
    if (place !== undefined && kind === 'object') written = this.#object(place);
    else if (place !== undefined && kind === 'array') written = this.#arrayOfObjects(place);
    else written = this.#copy();
    this.#skipSpace();
    return written;
  }

  #object(place: Place): string {
    const members: Member[] = [];
    const names = new Set<string>();
    this.#skip();
    while (this.#json.charCodeAt(this.#at) !== CLOSE_OBJECT) {
      const key = this.#string();
      this.#skipSpace();
      this.#skip();
      const { name, written } = this.#key(place, key, this.kind());
      // A repeated key is only ambiguous if it is one that T1 rewrites.
      if (place.byLong.has(name)) {
        if (names.has(name)) {
          throw new ProtocolError(this.#repeated, `an object of the JSON has the key "${name}" twice`);
        }
        names.add(name);
      }
      const isArray = this.kind() === 'array';
      members.push({ name, written, isArray, value: this.#memberValue(place, name) });
      if (this.#json.charCodeAt(this.#at) === COMMA) this.#skip();
    }
    this.#at++;
    const once = this.#direction === 'abbreviate' ? withoutRepeated(members, place) : members;
    const kept = place === BODY ? this.#withDefaults(once, names) : once;
    return `{${kept.map(({ written, value }) => `${written}:${value}`).join(',')}}`;
  }

  #arrayOfObjects(place: Place): string {
    const elements: string[] = [];
    this.#skip();
    while (this.#json.charCodeAt(this.#at) !== CLOSE_ARRAY) {
      elements.push(this.value(this.kind() === 'object' ? place : undefined));
      if (this.#json.charCodeAt(this.#at) === COMMA) this.#skip();
    }
    this.#at++;
    return `[${elements.join(',')}]`;
  }

  /** @param key as spelled in the document, with its quotes. */
  #key(place: Place, key: string, kind: ValueKind): { name: string; written: string } {
    const name = unquote(key);
    if (this.#direction === 'expand') {
      const long = place.byShort.get(name)?.find(({ kinds }) => kinds.has(kind))?.long;
      return long === undefined ? { name, written: key } : { name: long, written: quote(long) };
    }
    const entry = place.byLong.get(name);
    if (entry === undefined) return { name, written: key };
    const short = this.#direction === 'abbreviate' && entry.kinds.has(kind);
    return { name, written: quote(short ? entry.short : name) };
  }

  #memberValue(place: Place, name: string): string {
    const table = place.values.get(name);
    if (table === undefined || this.kind() !== 'string') return this.value(place.inside.get(name));
    const source = this.#string();
    this.#skipSpace();
    const value = unquote(source);
    if (this.#direction === 'expand') {
      const long = table.toLong.get(value);
      return long === undefined ? source : quote(long);
    }
    const short = table.toShort.get(value);
    if (short === undefined) return source;
    return quote(this.#direction === 'abbreviate' ? short : value);
  }

  /** Drops members with their default value, or adds missing ones at the end, depending on the direction. */
  #withDefaults(members: readonly Member[], names: ReadonlySet<string>): readonly Member[] {
    // Only requests have defaults: a response without a temperature does not imply one.
    if (!members.some(({ name, isArray }) => name === 'messages' && isArray)) return members;
    let kept = members;
    const missing = REQUEST_DEFAULTS.filter(({ key }) => !names.has(key));
    if (this.#direction !== 'expand') {
      kept = members.filter(({ name, value }) => {
        const omitted = REQUEST_DEFAULTS.find(({ key }) => key === name);
        if (omitted === undefined || !omitted.spelling.test(value)) return true;
        missing.push(omitted);
        return false;
      });
    }
    if (this.#direction === 'abbreviate') return kept;
    const restored = REQUEST_DEFAULTS.filter((entry) => missing.includes(entry));
    return [
      ...kept,
      ...restored.map(({ key, text }) => ({ name: key, written: quote(key), isArray: false, value: text })),
    ];
  }

  /** The string at the cursor as spelled in the document, with its quotes. */
  #string(): string {
    const start = this.#at;
    this.#skipString();
    return this.#json.slice(start, this.#at);
  }

  /** Copies the value at the cursor without its whitespace. */
  #copy(): string {
    let copied = '';
    let start = this.#at;
    let depth = 0;
    for (; this.#at < this.#json.length; this.#at++) {
      const unit = this.#json.charCodeAt(this.#at);
      if (unit === QUOTE) {
        this.#skipString();
        // The loop steps over the closing quote.
        this.#at--;
      } else if (unit === OPEN_ARRAY || unit === OPEN_OBJECT) {
        depth++;
      } else if (unit === CLOSE_ARRAY || unit === CLOSE_OBJECT) {
        if (depth === 0) break;
        depth--;
      } else if (unit === COMMA) {
        if (depth === 0) break;
      } else if (isSpace(unit)) {
        copied += this.#json.slice(start, this.#at);
        this.#skipSpace();
        start = this.#at;
        this.#at--;
      }
    }
    return copied + this.#json.slice(start, this.#at);
  }

  #skipString(): void {
    let at = this.#at + 1;
    for (let unit = this.#json.charCodeAt(at); unit !== QUOTE; unit = this.#json.charCodeAt(at)) {
      at += unit === BACKSLASH ? 2 : 1;
    }
    this.#at = at + 1;
  }

  /** Skips one character of punctuation and the whitespace after it. */
  #skip(): void {
    this.#at++;
    this.#skipSpace();
  }

  #skipSpace(): void {
    while (isSpace(this.#json.charCodeAt(this.#at))) this.#at++;
  }
}

/** Two names may have one abbreviation, and a reader that parses the object would keep one of the two. Both stay long then. */
function withoutRepeated(members: readonly Member[], place: Place): readonly Member[] {
  const counts = new Map<string, number>();
  for (const { written } of members) counts.set(written, (counts.get(written) ?? 0) + 1);
  if (counts.size === members.length) return members;
  return members.map((member) =>
    place.byLong.has(member.name) && (counts.get(member.written) ?? 0) > 1
      ? { ...member, written: quote(member.name) }
      : member,
  );
}

function isSpace(unit: number): boolean {
  return unit === 0x20 || unit === 0x0a || unit === 0x0d || unit === 0x09;
}

function unquote(text: string): string {
  return text.includes('\\') ? (JSON.parse(text) as string) : text.slice(1, -1);
}

function quote(text: string): string {
  return `"${text}"`;
}
