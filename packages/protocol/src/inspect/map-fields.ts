import type { FieldReader } from './field-reader.js';
import { type MutableField, truncate } from './report.js';

/** The common code of the MessagePack and the JSON walk: depth, notes, values, and the removal of credentials. */

/** The meaning of the entry at a path. */
export type NoteOf = (path: readonly string[], value: MutableField['value']) => string | undefined;

/** Walks are recursive, so that no configured limit may exhaust the stack. */
const MAX_DEPTH = 200;

/** A walk through one map; a subclass knows how values are written. */
export abstract class MapWalk {
  readonly #noteOf: NoteOf;
  readonly #maxDepth: number;
  protected readonly reader: FieldReader;

  constructor(reader: FieldReader, maxDepth: number, noteOf: NoteOf) {
    this.reader = reader;
    this.#maxDepth = Math.min(maxDepth, MAX_DEPTH);
    this.#noteOf = noteOf;
  }

  /** Reads the next value into `field`. */
  protected abstract value(field: MutableField, path: readonly string[], depth: number): void;

  /** Reads the value of a named entry; of a credential only its place is kept. */
  protected named(field: MutableField, path: readonly string[], depth: number): void {
    if (!isSecretName(path.at(-1) ?? '')) {
      this.value(field, path, depth);
      field.note ??= this.#noteOf(path, field.value);
      return;
    }
    field.isSecret = true;
    field.note = 'a credential, never shown';
    try {
      this.value(field, path, depth);
    } finally {
      field.children.length = 0;
      field.value = REDACTED;
    }
  }

  /** Reads the next item of a list. */
  protected item(values: (string | undefined)[], path: readonly string[], depth: number): void {
    this.reader.group(`${values.length + 1}`, (item) => {
      this.value(item, path, depth);
      values.push(item.children.length > 0 || item.value === undefined ? undefined : String(item.value));
    });
  }

  /** @throws {Fault} `json_too_deep`. */
  protected checkDepth(depth: number): void {
    if (depth <= this.#maxDepth) return;
    this.reader.fail('json_too_deep', `nested more than ${this.#maxDepth} levels deep`);
  }
}

/** Sets a text as the value of a field, without credentials that it may contain. */
export function writeText(field: MutableField, text: string): void {
  const shown = withoutSecrets(text);
  field.value = truncate(shown);
  if (shown === text) return;
  field.isSecret = true;
  field.note = 'user and query may be credentials, never shown';
}

/** Puts a list of plain values on one line, which is easier to read. */
export function gather(field: MutableField, values: readonly (string | undefined)[]): void {
  if (values.includes(undefined)) return;
  if (field.children.some(({ isSecret }) => isSecret)) field.isSecret = true;
  const line = values.length === 0 ? 'none' : values.join(', ');
  field.value = truncate(line);
  if (field.value === line) field.children.length = 0;
}

// --- credentials

/** Names under which credentials travel in control messages and metadata. */
const SECRET_NAMES: ReadonlySet<string> = new Set([
  'token',
  'nonce',
  'auth',
  'authorization',
  'proxyauthorization',
  'cookie',
  'setcookie',
  'password',
  'secret',
  'apikey',
  'xapikey',
  'credentials',
]);

function isSecretName(name: string): boolean {
  return SECRET_NAMES.has(name.toLowerCase().replaceAll(/[-_]/g, ''));
}

const REDACTED = '[redacted]';

const USER = /^([a-z][a-z0-9+.-]*:\/\/)[^\s/?#]*@/i;
const QUERY = /^((?:\/|[a-z][a-z0-9+.-]*:\/\/)[^\s?]*)\?(\S+)$/i;

/**
 * Redacts the user and the query values of a path or URL: they may be credentials under any name. Any
 * other text is unchanged.
 */
export function withoutSecrets(text: string): string {
  return text.replace(USER, `$1${REDACTED}@`).replace(QUERY, (_all, place: string, query: string) => {
    const names = query.split('&').map((pair) => {
      const end = pair.indexOf('=');
      return end < 0 ? REDACTED : `${pair.slice(0, end)}=${REDACTED}`;
    });
    return `${place}?${names.join('&')}`;
  });
}
