import type { Session } from '@parlance/protocol';
import type { TokenUsage } from '../../session/observer.js';

/** Usage of one finished request. */
export interface GatewayRequest {
  /** Empty if the client was not authenticated. */
  readonly principal: string;
  readonly agentId: string | undefined;
  /** Such as `/chat/completions`; `undefined` if the request did not name a supported endpoint. */
  readonly endpoint: string | undefined;
  readonly model: string | undefined;
  /** HTTP status sent to the client; 0 if the request ended before one was sent. */
  readonly status: number;
  /** `failed`: a failure of the gateway or of a connection. An error response of the upstream is `completed`. */
  readonly outcome: 'completed' | 'failed' | 'cancelled';
  /** `undefined` if the upstream reported none; for a streamed chat it reports usage only on request. */
  readonly tokens: TokenUsage | undefined;
  /** Request body in bytes. */
  readonly requestBytes: number;
  /** Reply in UTF-16 units, or in bytes if it is not text. */
  readonly replyLength: number;
  /** Events of a stream, or pieces of any other body. */
  readonly parts: number;
  readonly durationMs: number;
}

/** The usage of a request while it is being answered. */
export type Progress = { -readonly [Name in keyof GatewayRequest]: GatewayRequest[Name] };

export function beginProgress({ principal = '', agentId }: Session): Progress {
  return {
    principal,
    agentId,
    endpoint: undefined,
    model: undefined,
    status: 0,
    // The default, because a cancelled request ends without any further step.
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
  /** Requests with the outcome `failed`. */
  readonly failed: number;
  /** Requests with the outcome `cancelled`. */
  readonly cancelled: number;
  /** Requests for which the upstream reported no usage. */
  readonly unmetered: number;
  readonly requestBytes: number;
}

export interface GatewayUsage {
  /** Totals since the gateway was created. */
  readonly total: UsageTotals;
  /** Totals by principal, for the 10,000 most recent ones. A forgotten principal starts again at zero. */
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

/** @param maxPrincipals if there are more, the least recently active one is forgotten. */
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

/**
 * How much of the end of a text is searched for usage, in UTF-16 units. The upstream may repeat 16 entries of
 * the client's metadata after the usage, which take some 50,000 in their longest form.
 */
export const USAGE_TAIL_LENGTH = 256 * 1024;
const KEY = '"usage"';
const KEY_OF_OBJECT = /"usage"\s*:\s*\{/;
/** The value of this key comes from the client. */
const METADATA_KEY = '"metadata"';

/**
 * Reads the usage from a response or an event, where it is a top-level key or a key of an object at the top level.
 * Only the usage is parsed, as the rest may be a megabyte of embeddings. The search runs from the end, where usage
 * is found, and follows the structure, because the client's own words and keys may be repeated anywhere in the text.
 */
export function readTokenUsage(json: string): TokenUsage | undefined {
  // Most events have no usage and need no search.
  if (!json.includes(KEY)) return undefined;
  const tail = json.slice(-USAGE_TAIL_LENGTH);
  return KEY_OF_OBJECT.test(tail) ? findUsage(tail) : undefined;
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;

function findUsage(tail: string): TokenUsage | undefined {
  /** Ends of the containers around the present position. */
  const ends: number[] = [];
  /** The last container that was passed. */
  let start = 0;
  let end = 0;
  /** Usage found in an object at the top level. */
  let inner: TokenUsage | undefined;
  /** The same, until the key of that object is known. */
  let pending: TokenUsage | undefined;
  for (let at = tail.length - 1; at >= 0; at--) {
    switch (tail.charCodeAt(at)) {
      case 0x7d /* } */:
      case 0x5d /* ] */:
        ends.push(at + 1);
        break;
      case 0x7b /* { */:
      case 0x5b /* [ */:
        {
          const closed = ends.pop();
          // The outermost container begins here, or the text is truncated.
          if (closed === undefined || ends.length === 0) return inner ?? pending;
          start = at;
          end = closed;
          break;
        }
      case QUOTE: {
        const first = startOfString(tail, at);
        if (first === -1) return inner ?? pending;
        if (ends.length <= 2 && isKeyOf(tail, at + 1, start)) {
          const key = tail.slice(first, at + 1);
          if (key === KEY) {
            const usage = parseUsage(tail.slice(start, end));
            if (usage !== undefined && ends.length === 1) return usage;
            pending ??= usage;
          } else if (ends.length === 1) {
            if (key !== METADATA_KEY) inner ??= pending;
            pending = undefined;
          }
        }
        at = first;
      }
    }
  }
  return inner ?? pending;
}

/** The index of the quote that opens the string which the quote at `close` closes, or -1. */
function startOfString(text: string, close: number): number {
  let at = close;
  while (at > 0) {
    at = text.lastIndexOf('"', at - 1);
    if (at === -1) return -1;
    let first = at;
    while (text.charCodeAt(first - 1) === BACKSLASH) first--;
    if ((at - first) % 2 === 0) return at;
    at = first;
  }
  return -1;
}

/** Whether only a colon lies between the string that ends before `from` and the container at `start`. */
function isKeyOf(text: string, from: number, start: number): boolean {
  return start > from && start - from < 16 && text.slice(from, start).trim() === ':';
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
