import { ProtocolError } from '../../base/errors.js';

/**
 * The estimated cost of a request or response, as in M2M v1 headers. It is meant for routing, not for
 * billing: the default prices are those of the reference implementation, so that both write the same headers.
 * An application with better figures can pass its own table.
 */

/** Price of 1,000 tokens in US cents. */
export interface TokenPrice {
  readonly input: number;
  readonly output: number;
}

export interface CostTable {
  /** Prices by the beginning of a model's name, in lower case; the longest match wins. */
  readonly models: Readonly<Record<string, TokenPrice>>;
  /** The price of every other model. */
  readonly fallback: TokenPrice;
  /** The assumed number of completion tokens of a request that does not limit them. */
  readonly completionTokens: number;
}

const SONNET = { input: 0.3, output: 1.5 };
const HAIKU = { input: 0.08, output: 0.4 };

export const DEFAULT_COST_TABLE: CostTable = Object.freeze({
  models: Object.freeze({
    'gpt-4o-mini': { input: 0.015, output: 0.06 },
    'gpt-4o': { input: 0.25, output: 1 },
    'gpt-4-turbo': { input: 1, output: 3 },
    'gpt-4': { input: 3, output: 6 },
    'gpt-3.5-turbo': { input: 0.05, output: 0.15 },
    'o1-preview': { input: 1.5, output: 6 },
    'o1-mini': { input: 0.3, output: 1.2 },
    'o3-mini': { input: 0.11, output: 0.44 },
    o3: { input: 2, output: 8 },
    'claude-3-opus': { input: 1.5, output: 7.5 },
    'claude-3.5-sonnet': SONNET,
    'claude-3-5-sonnet': SONNET,
    'claude-3-sonnet': SONNET,
    'claude-3.5-haiku': HAIKU,
    'claude-3-5-haiku': HAIKU,
    'claude-3-haiku': { input: 0.025, output: 0.125 },
    'gemini-1.5-pro': { input: 0.125, output: 0.5 },
    'gemini-1.5-flash': { input: 0.0075, output: 0.03 },
    'gemini-2.0-flash': { input: 0.01, output: 0.04 },
  }),
  fallback: { input: 0.1, output: 0.3 },
  completionTokens: 500,
});

/** The price of `model`'s tokens. */
export function priceOf(model: string, table: CostTable): TokenPrice {
  const name = model.toLowerCase();
  let longest = '';
  for (const prefix in table.models) {
    if (prefix.length > longest.length && name.startsWith(prefix)) longest = prefix;
  }
  return table.models[longest] ?? table.fallback;
}

/**
 * The cost in US dollars, rounded to a 32-bit float at every step, so that all implementations write the same
 * bytes.
 *
 * @throws {ProtocolError} `invalid_option` if the table's prices give a negative or infinite cost, or NaN.
 */
export function estimateCost(
  model: string,
  promptTokens: number,
  completionTokens: number,
  table: CostTable,
): number {
  const f32 = Math.fround;
  const price = priceOf(model, table);
  const input = f32(f32(f32(promptTokens) / 1000) * f32(price.input));
  const output = f32(f32(f32(completionTokens) / 1000) * f32(price.output));
  const cost = f32(f32(input + output) / 100);
  if (!(cost >= 0 && cost < Infinity)) {
    throw new ProtocolError(
      'invalid_option',
      `the cost table's prices for "${model}" give a cost of ${cost}`,
    );
  }
  return cost;
}

/** The estimated number of tokens in text of `contentBytes` UTF-8 bytes. */
export function estimateTokens(contentBytes: number): number {
  return Math.floor(contentBytes / 4);
}
