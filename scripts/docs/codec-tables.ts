import { CommonFlag, RequestFlag, ResponseFlag } from '../../packages/protocol/src/codec/m2m/fields.js';
import { PATTERNS } from '../../packages/protocol/src/codec/text/dictionary.js';
import { BODY, type Place, REQUEST_DEFAULTS } from '../../packages/protocol/src/codec/text/token-tables.js';
import { VOCABULARY_HASHES } from '../../packages/protocol/src/tokenizer/hashes.js';
import { byte, code, table } from './markdown.js';

/** Tables of the codecs, from the objects that the codecs use. */
export function codecTables(): [string, string][] {
  return [
    [
      'table vocabularies',
      table(
        ['encoding', 'SHA-256 of its rank file'],
        Object.entries(VOCABULARY_HASHES).map(([name, hash]) => [code(name), code(hash)]),
      ),
    ],
    [
      'table dictionary',
      table(
        ['byte', 'pattern'],
        PATTERNS.map((pattern, at) => [code(byte(0x80 + at)), code(String.fromCharCode(...pattern))]),
      ),
    ],
    ['table m2m-flags', m2mFlags()],
    ['table t1-places', places()],
    ['table t1-values', values()],
    [
      'table t1-defaults',
      table(
        ['member', 'restored as', 'left out if spelled'],
        REQUEST_DEFAULTS.map(({ key, text }) => [
          code(key),
          code(text),
          /^\d$/.test(text)
            ? `${code(text)}, ${code(`${text}.0`)}, ${code(`${text}.00`)} and so on`
            : code(text),
        ]),
      ),
    ],
  ];
}

function m2mFlags(): string {
  const rows = (flags: Readonly<Record<string, number>>, schemas: string) =>
    Object.entries(flags).map(([name, flag]) => [
      String(Math.log2(flag)),
      schemas,
      name,
      MEANINGS[name] ?? '',
    ]);
  return table(
    ['bit', 'schemas', 'flag', 'set if'],
    [
      ...rows(RequestFlag, 'request, embedding-request'),
      ...rows(ResponseFlag, 'response, embedding-response, error'),
      ...rows(CommonFlag, 'all'),
    ],
  );
}

const MEANINGS: Readonly<Record<string, string>> = {
  HAS_SYSTEM_PROMPT: 'a message has the role `system` or `developer`',
  HAS_TOOLS: '`tools` or `functions` is there',
  HAS_TOOL_CHOICE: '`tool_choice` or `function_call` is there',
  HAS_IMAGES: 'a content part has the type `image_url`',
  STREAM_REQUESTED: '`stream` is `true`',
  HAS_RESPONSE_FORMAT: '`response_format` is there',
  HAS_MAX_TOKENS: 'the header has `max-tokens`',
  HAS_REASONING_EFFORT: '`reasoning_effort` is there',
  HAS_SERVICE_TIER: '`service_tier` is there',
  HAS_SEED: '`seed` is there',
  HAS_LOGPROBS: '`logprobs` is there',
  HAS_USER_ID: '`user` is there',
  HAS_TEMPERATURE: '`temperature` is there',
  HAS_TOP_P: '`top_p` is there',
  HAS_STOP: '`stop` is there',
  HAS_TOOL_CALLS: '`tool_calls` is in the message of the first choice',
  HAS_REFUSAL: '`refusal` there is a text',
  CONTENT_FILTERED: '`finish_reason` is `content_filter`',
  HAS_USAGE: '`usage` is there',
  TRUNCATED: '`finish_reason` is `length`',
  HAS_CACHED_TOKENS: 'the header has `cached`',
  HAS_REASONING_TOKENS: 'the header has `reasoning`',
  HAS_COST_ESTIMATE: 'the header has `cost`',
  COMPRESSED: 'the payload is Brotli',
  HAS_EXTENSIONS: 'reserved; never',
};

/** The names of the places, by a member of another place that leads to each. */
const PLACES: readonly (readonly [name: string, place: Place])[] = [
  ['BODY', BODY],
  ...(
    [
      ['MESSAGE', 'messages'],
      ['CHOICE', 'choices'],
      ['TOOL', 'tools'],
      ['FUNCTION', 'functions'],
      ['RESPONSE_FORMAT', 'response_format'],
      ['USAGE', 'usage'],
    ] as const
  ).map(([name, member]) => [name, BODY.inside.get(member) as Place] as const),
];

const nameOf = (place: Place): string => PLACES.find(([, one]) => one === place)?.[0] ?? '?';

function places(): string {
  return PLACES.map(([name, place]) => {
    const keys = table(
      ['member', 'abbreviation', 'kinds of value'],
      [...place.byLong.values()].map(({ long, short, kinds }) => [
        code(long),
        code(short),
        kinds.size === 5 ? 'any' : [...kinds].join(', '),
      ]),
    );
    const inside = [...place.inside].map(([member, next]) => `${code(member)} → ${nameOf(next)}`).join(', ');
    return `**${name}**${inside === '' ? '' : `: ${inside}`}\n\n${keys}`;
  }).join('\n\n');
}

function values(): string {
  const rows = PLACES.flatMap(([name, place]) =>
    [...place.values].map(([member, { toShort }]) => [
      name,
      code(member),
      [...toShort].map(([long, short]) => `${code(long)} ${code(short)}`).join(', '),
    ]),
  );
  return table(['place', 'member', 'value and abbreviation'], rows);
}
