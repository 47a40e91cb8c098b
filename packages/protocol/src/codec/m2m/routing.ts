import { ProtocolError } from '../../base/errors.js';
import { utf8Length } from '../../base/text.js';
import { type CostTable, estimateCost, estimateTokens } from './cost.js';
import {
  type M2MFields,
  type M2MSchema,
  type RequestFields,
  RequestFlag,
  type ResponseFields,
  ResponseFlag,
  type Role,
} from './fields.js';
import { FINISH_REASONS } from './header.js';

/**
 * Derives the fields of an M2M v1 header from a JSON message. Flags are presence-based: a field that is there
 * counts, even if it is `null`. A value that the header cannot express is left out or refused, never changed.
 */

type JsonObject = { readonly [key: string]: unknown };

const ROLE_OF = new Map<unknown, Role>([
  ['system', 'system'],
  ['developer', 'system'],
  ['user', 'user'],
  ['assistant', 'assistant'],
  ['tool', 'tool'],
]);

const MAX_U32 = 0xffffffff;

/** Request fields whose presence sets a flag. */
const PRESENCE_FLAGS = Object.entries({
  tools: RequestFlag.HAS_TOOLS,
  functions: RequestFlag.HAS_TOOLS,
  tool_choice: RequestFlag.HAS_TOOL_CHOICE,
  function_call: RequestFlag.HAS_TOOL_CHOICE,
  response_format: RequestFlag.HAS_RESPONSE_FORMAT,
  reasoning_effort: RequestFlag.HAS_REASONING_EFFORT,
  service_tier: RequestFlag.HAS_SERVICE_TIER,
  seed: RequestFlag.HAS_SEED,
  logprobs: RequestFlag.HAS_LOGPROBS,
  user: RequestFlag.HAS_USER_ID,
  temperature: RequestFlag.HAS_TEMPERATURE,
  top_p: RequestFlag.HAS_TOP_P,
  stop: RequestFlag.HAS_STOP,
});

/**
 * The schema of a message whose sender did not name it, by its shape, as in the reference implementation:
 * anything that is not a chat response is a request.
 */
export function detectSchema(message: unknown): 'request' | 'response' {
  const object = asObject(message);
  if ('messages' in object && 'model' in object) return 'request';
  const isResponse = 'choices' in object || textOf(object.id).startsWith('chatcmpl-');
  return isResponse ? 'response' : 'request';
}

/**
 * The header fields for `message`, with the common flags clear.
 *
 * @param message parsed JSON of any shape; a field of an unexpected type counts as absent.
 * @throws {ProtocolError} `unrepresentable` if the role of a chat message is not one of the five known.
 */
export function routingFields(message: unknown, schema: M2MSchema, costs: CostTable): M2MFields {
  switch (schema) {
    case 'request':
    case 'embedding-request':
      return requestFields(asObject(message), schema, costs);
    case 'response':
    case 'embedding-response':
    case 'error':
      return responseFields(asObject(message), schema, costs);
    default:
      return { schema, flags: 0 };
  }
}

function requestFields(
  request: JsonObject,
  schema: RequestFields['schema'],
  costs: CostTable,
): RequestFields {
  let flags = 0;
  for (const [key, flag] of PRESENCE_FLAGS) if (key in request) flags |= flag;
  if (request.stream === true) flags |= RequestFlag.STREAM_REQUESTED;

  const roles: Role[] = [];
  let contentHint = 0;
  for (const item of asArray(request.messages)) {
    const message = asObject(item);
    const role = ROLE_OF.get(message.role);
    if (role === undefined) {
      throw new ProtocolError(
        'unrepresentable',
        `message ${roles.length} has no role that an M2M header can carry (known roles: system, developer, user, assistant, tool); use another algorithm`,
      );
    }
    roles.push(role);
    if (role === 'system') flags |= RequestFlag.HAS_SYSTEM_PROMPT;
    contentHint += utf8Length(textOf(message.content));
    for (const item of asArray(message.content)) {
      const part = asObject(item);
      if (part.type === 'image_url') flags |= RequestFlag.HAS_IMAGES;
      contentHint += utf8Length(textOf(part.text));
    }
  }

  const maxTokens = countOf(request.max_tokens) ?? countOf(request.max_completion_tokens);
  if (maxTokens !== undefined) flags |= RequestFlag.HAS_MAX_TOKENS;
  const model = textOf(request.model);
  return {
    schema,
    flags,
    model,
    msgCount: roles.length,
    roles,
    contentHint,
    ...(maxTokens !== undefined && { maxTokens }),
    cost: estimateCost(model, estimateTokens(contentHint), maxTokens ?? costs.completionTokens, costs),
  };
}

function responseFields(
  response: JsonObject,
  schema: ResponseFields['schema'],
  costs: CostTable,
): ResponseFields {
  const choice = asObject(asArray(response.choices)[0]);
  const message = asObject(choice.message);
  const usage = asObject(response.usage);
  const id = textOf(response.id);
  const model = textOf(response.model);
  const finishReason = FINISH_REASONS.find((reason) => reason === choice.finish_reason) ?? 'unknown';
  const promptTokens = usageOf(usage, 'prompt_tokens');
  const completionTokens = usageOf(usage, 'completion_tokens');
  // Leave out a zero: a missing field means the same.
  const cachedTokens = usageOf(asObject(usage.prompt_tokens_details), 'cached_tokens') || undefined;
  const reasoningTokens = usageOf(asObject(usage.completion_tokens_details), 'reasoning_tokens') || undefined;
  const hasUsage = 'usage' in response;

  let flags = 0;
  if ('tool_calls' in message) flags |= ResponseFlag.HAS_TOOL_CALLS;
  if (typeof message.refusal === 'string') flags |= ResponseFlag.HAS_REFUSAL;
  if (finishReason === 'content_filter') flags |= ResponseFlag.CONTENT_FILTERED;
  if (finishReason === 'length') flags |= ResponseFlag.TRUNCATED;
  if (hasUsage) flags |= ResponseFlag.HAS_USAGE | ResponseFlag.HAS_COST_ESTIMATE;
  if (cachedTokens !== undefined) flags |= ResponseFlag.HAS_CACHED_TOKENS;
  if (reasoningTokens !== undefined) flags |= ResponseFlag.HAS_REASONING_TOKENS;
  return {
    schema,
    flags,
    id,
    model,
    finishReason,
    promptTokens,
    completionTokens,
    ...(cachedTokens !== undefined && { cachedTokens }),
    ...(reasoningTokens !== undefined && { reasoningTokens }),
    // A header that cannot carry a count is refused when it is written, so its cost does not matter.
    ...(hasUsage && {
      cost: estimateCost(model, Math.min(promptTokens, MAX_U32), Math.min(completionTokens, MAX_U32), costs),
    }),
  };
}

const NOTHING: JsonObject = Object.freeze({});

function asObject(value: unknown): JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
    ? (value as JsonObject)
    : NOTHING;
}

function asArray(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

function isCount(value: unknown): value is number {
  return typeof value === 'number' && Number.isInteger(value) && value >= 0;
}

/** `value` if it is a count that the header can carry. */
function countOf(value: unknown): number | undefined {
  return isCount(value) && value <= MAX_U32 ? value : undefined;
}

/** A token count of a response; 0 if it has none. */
function usageOf(usage: JsonObject, key: string): number {
  const value = usage[key];
  return isCount(value) ? value : 0;
}
