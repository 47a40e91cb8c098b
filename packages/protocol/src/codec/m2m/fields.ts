/**
 * The contents of an M2M v1 header (wire document, section 3.3): schemas, security modes, flags and the
 * fields that a router can read without unpacking the payload.
 */

/** The kind of message in a frame. */
export const M2MSchema = {
  REQUEST: 'request',
  RESPONSE: 'response',
  STREAM: 'stream',
  ERROR: 'error',
  EMBEDDING_REQUEST: 'embedding-request',
  EMBEDDING_RESPONSE: 'embedding-response',
  /** Any UTF-8 text, not necessarily JSON. */
  CUSTOM: 'custom',
} as const;
export type M2MSchema = (typeof M2MSchema)[keyof typeof M2MSchema];

/** The protection of a frame. */
export const M2MSecurityMode = {
  NONE: 'NONE',
  /** HMAC-SHA256 over header and payload. */
  HMAC: 'HMAC',
  /** ChaCha20-Poly1305: the header stays readable and is authenticated with the payload. */
  AEAD: 'AEAD',
} as const;
export type M2MSecurityMode = (typeof M2MSecurityMode)[keyof typeof M2MSecurityMode];

/** Flags of requests and embedding requests. They say which fields the JSON has, with any value. */
export const RequestFlag = {
  HAS_SYSTEM_PROMPT: 1 << 0,
  HAS_TOOLS: 1 << 1,
  HAS_TOOL_CHOICE: 1 << 2,
  HAS_IMAGES: 1 << 3,
  /** `stream` is `true`. */
  STREAM_REQUESTED: 1 << 4,
  HAS_RESPONSE_FORMAT: 1 << 5,
  /** The header has `maxTokens`. */
  HAS_MAX_TOKENS: 1 << 6,
  HAS_REASONING_EFFORT: 1 << 7,
  HAS_SERVICE_TIER: 1 << 8,
  HAS_SEED: 1 << 9,
  HAS_LOGPROBS: 1 << 10,
  HAS_USER_ID: 1 << 11,
  HAS_TEMPERATURE: 1 << 12,
  HAS_TOP_P: 1 << 13,
  HAS_STOP: 1 << 14,
} as const;

/** Flags of responses, embedding responses and errors. */
export const ResponseFlag = {
  HAS_TOOL_CALLS: 1 << 0,
  HAS_REFUSAL: 1 << 1,
  CONTENT_FILTERED: 1 << 2,
  HAS_USAGE: 1 << 3,
  TRUNCATED: 1 << 4,
  /** The header has `cachedTokens`. */
  HAS_CACHED_TOKENS: 1 << 5,
  /** The header has `reasoningTokens`. */
  HAS_REASONING_TOKENS: 1 << 6,
  /** The header has `cost`. */
  HAS_COST_ESTIMATE: 1 << 7,
} as const;

/** Flags of every schema. */
export const CommonFlag = {
  /** The payload is Brotli; otherwise it is raw. */
  COMPRESSED: 1 << 24,
  /** Reserved: no extension is defined, so a receiver refuses frames that set it. */
  HAS_EXTENSIONS: 1 << 25,
} as const;

/** Roles by their two bits; `developer` travels as `system`. */
export const ROLES = ['system', 'user', 'assistant', 'tool'] as const;
export type Role = (typeof ROLES)[number];

/** Why the model stopped; `unknown` is any other reason, or none. */
export type FinishReason = 'stop' | 'length' | 'tool_calls' | 'content_filter' | 'unknown';

/** The header fields of a request. */
export interface RequestFields {
  readonly schema: 'request' | 'embedding-request';
  /** Bits of {@link RequestFlag} and {@link CommonFlag}. */
  readonly flags: number;
  /** Empty if the request names none. */
  readonly model: string;
  /** Number of messages. */
  readonly msgCount: number;
  /** The role of each message in order. */
  readonly roles: readonly Role[];
  /** UTF-8 bytes of all text in the messages. */
  readonly contentHint: number;
  readonly maxTokens?: number;
  /** Estimated cost in US dollars, a 32-bit float. */
  readonly cost?: number;
}

/** The header fields of a response. */
export interface ResponseFields {
  readonly schema: 'response' | 'embedding-response' | 'error';
  /** Bits of {@link ResponseFlag} and {@link CommonFlag}. */
  readonly flags: number;
  /** Empty if the response has none. */
  readonly id: string;
  /** Empty if the response names none. */
  readonly model: string;
  readonly finishReason: FinishReason;
  /** 0 if the response does not report it. */
  readonly promptTokens: number;
  /** 0 if the response does not report it. */
  readonly completionTokens: number;
  readonly cachedTokens?: number;
  readonly reasoningTokens?: number;
  /** Estimated cost in US dollars, a 32-bit float. */
  readonly cost?: number;
}

/** Stream chunks and custom frames have no fields of their own. */
export interface BareFields {
  readonly schema: 'stream' | 'custom';
  /** Bits of {@link CommonFlag}. */
  readonly flags: number;
}

export type M2MFields = RequestFields | ResponseFields | BareFields;

/** The first eight bytes of the header; the twelve after them are reserved. */
export interface FixedHeader {
  readonly schema: M2MSchema;
  readonly security: M2MSecurityMode;
  readonly flags: number;
  /** Bytes of the whole header, without the prefix. */
  readonly headerLength: number;
}

/** Everything that a frame's header says. */
export type M2MHeader = M2MFields & Omit<FixedHeader, 'schema'> & { readonly compressed: boolean };

/** The named flags that belong to a schema. */
function flagsOf(schema: M2MSchema): Readonly<Record<string, number>> {
  switch (schema) {
    case 'request':
    case 'embedding-request':
      return RequestFlag;
    case 'response':
    case 'embedding-response':
    case 'error':
      return ResponseFlag;
    default:
      return {};
  }
}

/** The names of the set flags, lowest bit first. */
export function m2mFlagNames(fields: { readonly schema: M2MSchema; readonly flags: number }): string[] {
  return Object.entries({ ...flagsOf(fields.schema), ...CommonFlag })
    .filter(([, flag]) => (fields.flags & flag) !== 0)
    .map(([name]) => name);
}
