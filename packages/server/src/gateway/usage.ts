import type { Session } from '@parlance/protocol';

/** What requests through the gateway have used, as far as the upstream told. */

export interface TokenUsage {
  /** Tokens of the request. */
  readonly promptTokens: number;
  /** Tokens of the answer. */
  readonly completionTokens: number;
}

/** One request, once it is over. */
export interface GatewayRequest {
  /** Empty where nobody was authenticated. */
  readonly principal: string;
  readonly agentId: string | undefined;
  /** Such as `/chat/completions`; `undefined` where none was found in the request. */
  readonly endpoint: string | undefined;
  readonly model: string | undefined;
  /** What the client was told; 0 where the request ended before anything was. */
  readonly status: number;
  /** `failed`: by the gateway or on its way through it. An error that the upstream answered is `completed`. */
  readonly outcome: 'completed' | 'failed' | 'cancelled';
  /** `undefined` where the upstream told none: of a streamed chat it does only if it was asked to. */
  readonly tokens: TokenUsage | undefined;
  /** Bytes of JSON. */
  readonly requestBytes: number;
  /** UTF-16 units of what was passed on. */
  readonly replyLength: number;
  /** Events, or pieces of a body that is no stream. */
  readonly parts: number;
  readonly durationMs: number;
}

/** What becomes known of a request while it is answered. */
export type Progress = { -readonly [Name in keyof GatewayRequest]: GatewayRequest[Name] };

export function beginProgress({ principal = '', agentId }: Session): Progress {
  return {
    principal,
    agentId,
    endpoint: undefined,
    model: undefined,
    status: 0,
    // Until more is known: a requester that leaves is not heard of.
    outcome: 'cancelled',
    tokens: undefined,
    requestBytes: 0,
    replyLength: 0,
    parts: 0,
    durationMs: 0,
  };
}

export interface UsageTotals extends TokenUsage {
  readonly requests: number;
  /** Of these, what did not end with `completed`. */
  readonly failed: number;
  readonly cancelled: number;
  /** Of these, whose tokens nobody told. */
  readonly unmetered: number;
  readonly requestBytes: number;
}

export interface GatewayUsage {
  /** Everything since the gateway was created. */
  readonly total: UsageTotals;
  /** By principal, the latest 10,000 of them; who is forgotten begins at nothing. */
  readonly principals: ReadonlyMap<string, UsageTotals>;
}

export interface UsageCounter extends GatewayUsage {
  add(request: GatewayRequest): void;
}

const MAX_PRINCIPALS = 10_000;

const NOTHING: UsageTotals = {
  requests: 0,
  failed: 0,
  cancelled: 0,
  unmetered: 0,
  promptTokens: 0,
  completionTokens: 0,
  requestBytes: 0,
};

/** @param maxPrincipals the one that has been quiet for longest is forgotten first. */
export function createUsageCounter(maxPrincipals = MAX_PRINCIPALS): UsageCounter {
  const principals = new Map<string, UsageTotals>();
  let total = NOTHING;
  return {
    principals,
    get total() {
      return total;
    },
    add(request) {
      const { principal } = request;
      total = sum(total, request);
      const before = principals.get(principal) ?? NOTHING;
      principals.delete(principal);
      principals.set(principal, sum(before, request));
      const [oldest] = principals.keys();
      if (principals.size > maxPrincipals && oldest !== undefined) principals.delete(oldest);
    },
  };
}

function sum(totals: UsageTotals, { outcome, tokens, requestBytes }: GatewayRequest): UsageTotals {
  return {
    requests: totals.requests + 1,
    failed: totals.failed + (outcome === 'failed' ? 1 : 0),
    cancelled: totals.cancelled + (outcome === 'cancelled' ? 1 : 0),
    unmetered: totals.unmetered + (tokens === undefined ? 1 : 0),
    promptTokens: totals.promptTokens + (tokens?.promptTokens ?? 0),
    completionTokens: totals.completionTokens + (tokens?.completionTokens ?? 0),
    requestBytes: totals.requestBytes + requestBytes,
  };
}

/** Characters at the end of a text among which its usage is looked for. */
export const USAGE_TAIL_LENGTH = 16 * 1024;
const KEY = '"usage"';

/**
 * What a response, or an event of one, says about its usage. Only that object is parsed, as the rest may
 * be a megabyte of embeddings; a quote inside of a JSON string is escaped, so that the key is one.
 */
export function readTokenUsage(json: string): TokenUsage | undefined {
  const tail = json.slice(-USAGE_TAIL_LENGTH);
  const key = tail.lastIndexOf(KEY);
  if (key === -1) return undefined;
  const object = /^\s*:\s*(\{)/.exec(tail.slice(key + KEY.length, key + KEY.length + 16));
  if (object === null) return undefined;
  const start = tail.indexOf('{', key);
  return parseUsage(tail.slice(start, endOfObject(tail, start)));
}

/** Nothing in a usage object is a string with braces. */
function endOfObject(text: string, start: number): number {
  let depth = 0;
  for (let at = start; at < text.length; at++) {
    if (text[at] === '{') depth++;
    else if (text[at] === '}' && --depth === 0) return at + 1;
  }
  return text.length;
}

function parseUsage(json: string): TokenUsage | undefined {
  try {
    const usage = JSON.parse(json) as Record<string, unknown>;
    const promptTokens = usage['prompt_tokens'] ?? usage['input_tokens'];
    const completionTokens = usage['completion_tokens'] ?? usage['output_tokens'] ?? 0;
    return isCount(promptTokens) && isCount(completionTokens)
      ? { promptTokens, completionTokens }
      : undefined;
  } catch {
    return undefined;
  }
}

function isCount(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0;
}
