/**
 * The abbreviations of T1 (compression document, sections 5.3.2 to 5.3.5), arranged by the place in a chat
 * request or response to which each applies. Content, `arguments` and JSON schemas are not places: nothing
 * inside them is ever changed.
 */

/** The kind of a JSON value, by its first character. */
export type ValueKind = 'object' | 'array' | 'string' | 'number' | 'literal';

interface KeyEntry {
  readonly long: string;
  readonly short: string;
  /** The kinds of value to which the abbreviation applies; the document uses some abbreviations twice. */
  readonly kinds: ReadonlySet<ValueKind>;
}

/** One kind of object in a request or response. */
export interface Place {
  readonly byLong: ReadonlyMap<string, KeyEntry>;
  readonly byShort: ReadonlyMap<string, readonly KeyEntry[]>;
  /** The place of the object, or of the objects in the array, under a key. */
  readonly inside: ReadonlyMap<string, Place>;
  /** The values that are abbreviated under a key. */
  readonly values: ReadonlyMap<string, ValueTable>;
}

/** Abbreviations of string values in both directions. */
export interface ValueTable {
  readonly toShort: ReadonlyMap<string, string>;
  readonly toLong: ReadonlyMap<string, string>;
}

const ANY: ReadonlySet<ValueKind> = new Set(['object', 'array', 'string', 'number', 'literal']);
const ONLY = (kind: ValueKind): ReadonlySet<ValueKind> => new Set([kind]);
const NOT_NUMBER: ReadonlySet<ValueKind> = new Set(['object', 'array', 'string', 'literal']);

function valueTable(entries: Readonly<Record<string, string>>): ValueTable {
  const toShort = new Map(Object.entries(entries));
  return { toShort, toLong: new Map([...toShort].map(([long, short]) => [short, long])) };
}

function place(
  keys: readonly (readonly [long: string, short: string, kinds?: ReadonlySet<ValueKind>])[],
  inside: Readonly<Record<string, Place>> = {},
  values: Readonly<Record<string, ValueTable>> = {},
): Place {
  const entries = keys.map(([long, short, kinds = ANY]): KeyEntry => ({ long, short, kinds }));
  const byShort = new Map<string, KeyEntry[]>();
  for (const entry of entries) byShort.set(entry.short, [...(byShort.get(entry.short) ?? []), entry]);
  return {
    byLong: new Map(entries.map((entry) => [entry.long, entry])),
    byShort,
    inside: new Map(Object.entries(inside)),
    values: new Map(Object.entries(values)),
  };
}

const ROLES = valueTable({ system: 's', user: 'u', assistant: 'a', function: 'f', tool: 't' });

const FINISH_REASONS = valueTable({
  stop: 's',
  length: 'l',
  tool_calls: 'tc',
  content_filter: 'cf',
  function_call: 'fc',
});

const MODELS = valueTable({
  'gpt-4o': '4o',
  'gpt-4o-mini': '4om',
  'gpt-4-turbo': '4t',
  'gpt-4': '4',
  'gpt-3.5-turbo': '35t',
  o1: 'o1',
  'o1-mini': 'o1m',
  'o1-preview': 'o1p',
  o3: 'o3',
  'o3-mini': 'o3m',
  'meta-llama/llama-3.3-70b': 'ml3370',
  'meta-llama/llama-3.1-405b': 'ml31405',
  'meta-llama/llama-3.1-70b': 'ml3170',
  'meta-llama/llama-3.1-8b': 'ml318',
  'mistralai/mistral-large': 'mim-l',
  'mistralai/mistral-small': 'mim-s',
  'mistralai/mixtral-8x7b': 'mimx87',
});

const FUNCTION = place([
  ['n', 'n', ONLY('number')],
  ['name', 'n', NOT_NUMBER],
  ['arguments', 'a'],
]);

const TOOL = place(
  [
    ['index', 'i'],
    ['type', 't'],
    ['function', 'fn'],
  ],
  { function: FUNCTION },
);

const MESSAGE = place(
  [
    ['role', 'r'],
    ['content', 'c'],
    ['n', 'n', ONLY('number')],
    ['name', 'n', NOT_NUMBER],
    ['tool_calls', 'tc'],
    ['function_call', 'fc'],
  ],
  { tool_calls: TOOL, function_call: FUNCTION },
  { role: ROLES },
);

const CHOICE = place(
  [
    ['index', 'i'],
    ['message', 'm', ONLY('object')],
    ['delta', 'd'],
    ['finish_reason', 'fr'],
    ['logprobs', 'lp'],
  ],
  { message: MESSAGE, delta: MESSAGE },
  { finish_reason: FINISH_REASONS },
);

const USAGE = place([
  ['prompt_tokens', 'pt'],
  ['completion_tokens', 'ct'],
  ['total_tokens', 'tt'],
]);

const RESPONSE_FORMAT = place([['type', 't']]);

/** A whole request, response or stream chunk. */
export const BODY = place(
  [
    ['messages', 'm', ONLY('array')],
    ['message', 'm', ONLY('object')],
    ['model', 'M'],
    ['temperature', 'T'],
    ['max_tokens', 'x'],
    ['top_p', 'p'],
    ['stream', 's'],
    ['stop', 'S'],
    ['frequency_penalty', 'f'],
    ['presence_penalty', 'P'],
    ['logit_bias', 'lb'],
    ['user', 'u'],
    ['n', 'n', ONLY('number')],
    ['name', 'n', NOT_NUMBER],
    ['seed', 'se'],
    ['tools', 'ts'],
    ['tool_choice', 'tc'],
    ['function_call', 'fc'],
    ['functions', 'fs'],
    ['response_format', 'rf'],
    ['choices', 'C'],
    ['usage', 'U'],
    ['logprobs', 'lp'],
  ],
  {
    messages: MESSAGE,
    message: MESSAGE,
    tools: TOOL,
    tool_choice: TOOL,
    function_call: FUNCTION,
    functions: FUNCTION,
    response_format: RESPONSE_FORMAT,
    choices: CHOICE,
    usage: USAGE,
  },
  { model: MODELS },
);

interface DefaultValue {
  readonly key: string;
  /** How the value is written when it is restored. */
  readonly text: string;
  /** Spellings that mean exactly the default, without whitespace. */
  readonly spelling: RegExp;
}

/**
 * Parameters that a request leaves out if they have their default (section 5.3.5). Each pattern matches a
 * literal in linear time.
 */
export const REQUEST_DEFAULTS: readonly DefaultValue[] = [
  { key: 'temperature', text: '1', spelling: /^1(?:\.0+)?$/ },
  { key: 'top_p', text: '1', spelling: /^1(?:\.0+)?$/ },
  { key: 'n', text: '1', spelling: /^1(?:\.0+)?$/ },
  { key: 'stream', text: 'false', spelling: /^false$/ },
  { key: 'frequency_penalty', text: '0', spelling: /^0(?:\.0+)?$/ },
  { key: 'presence_penalty', text: '0', spelling: /^0(?:\.0+)?$/ },
  { key: 'logit_bias', text: '{}', spelling: /^\{\}$/ },
  { key: 'stop', text: 'null', spelling: /^null$/ },
];

/** Bytes by which restored defaults lengthen a request, at most. */
export const DEFAULTS_LENGTH = REQUEST_DEFAULTS.reduce(
  (length, { key, text }) => length + `,"${key}":${text}`.length,
  0,
);
