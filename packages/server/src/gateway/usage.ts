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

/**
 * Characters at the end of a text among which its usage is looked for. A client may have 16 entries of metadata
 * repeated behind it, which take some 50,000 in their longest form.
 */
export const USAGE_TAIL_LENGTH = 256 * 1024;
const KEY = '"usage"';
const KEY_OF_OBJECT = /"usage"\s*:\s*\{/;
/** What this key holds is the client's. */
const CLIENTS_OWN = '"metadata"';

/**
 * The usage that a response, or an event of one, states: as a key of its own, or of an object in it. Only that
 * is parsed, as the rest may be a megabyte of embeddings. The text is walked through from its end, because there
 * usage stands, and by its structure, because a client's words and keys may be repeated anywhere in it.
 */
export function readTokenUsage(json: string): TokenUsage | undefined {
  // Most events have none, and are not worth a walk.
  if (!json.includes(KEY)) return undefined;
  const tail = json.slice(-USAGE_TAIL_LENGTH);
  return KEY_OF_OBJECT.test(tail) ? findUsage(tail) : undefined;
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;

function findUsage(tail: string): TokenUsage | undefined {
  /** Where the containers around the present place end. */
  const ends: number[] = [];
  /** The container that was passed last. */
  let start = 0;
  let end = 0;
  /** Usage of an object in the outermost one. */
  let inner: TokenUsage | undefined;
  /** The same, until it is known what that object is. */
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
          // The outermost one is over, or was never complete.
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
            if (key !== CLIENTS_OWN) inner ??= pending;
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

/** Whether nothing but a colon stands between what ends before `from` and the container at `start`. */
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
