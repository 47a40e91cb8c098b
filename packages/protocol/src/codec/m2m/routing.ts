import { ProtocolError } from '../../base/errors.js';
import { utf8Length } from '../../base/text.js';
import { type CostTable, estimateCost, estimateTokens } from './cost.js';
import {
  type FinishReason,
  type M2MFields,
  type M2MSchema,
  type RequestFields,
  RequestFlag,
  type ResponseFields,
  ResponseFlag,
  type Role,
} from './fields.js';

/**
 * What an M2M v1 header says about a JSON message. Flags are presence-based: a field that is there
 * counts, `null` included. What the header cannot say truly is left out or refused, never bent.
 */

type JsonObject = { readonly [key: string]: unknown };

const ROLE_OF = new Map<unknown, Role>([
  ['system', 'system'],
  ['developer', 'system'],
  ['user', 'user'],
  ['assistant', 'assistant'],
  ['tool', 'tool'],
]);

const FINISH_REASONS: ReadonlySet<unknown> = new Set(['stop', 'length', 'tool_calls', 'content_filter']);
const MAX_U32 = 0xffffffff;

/** Request fields whose presence is a flag by itself. */
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
 * The schema of a message whose sender did not name it, told from its shape as the reference
 * implementation does: what is no chat response is a request.
 */
export function detectSchema(message: unknown): 'request' | 'response' {
  const object = asObject(message);
  if ('messages' in object && 'model' in object) return 'request';
  const isResponse = 'choices' in object || textOf(object.id).startsWith('chatcmpl-');
  return isResponse ? 'response' : 'request';
}

/**
 * The header's fields for `message`, common flags left clear.
 *
 * @param message parsed JSON of any shape; whatever has another type than expected counts as absent.
 * @throws {ProtocolError} `unrepresentable` where a chat message's role is none of the five known,
 * or a count does not fit the header.
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
        `message ${roles.length} has no role that an M2M header can state (system, developer, user, assistant, tool); use another algorithm`,
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
  const finishReason = (
    FINISH_REASONS.has(choice.finish_reason) ? choice.finish_reason : 'unknown'
  ) as FinishReason;
  const promptTokens = usageOf(usage, 'prompt_tokens');
  const completionTokens = usageOf(usage, 'completion_tokens');
  // A zero is not worth a field; its absence says the same.
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
    ...(hasUsage && { cost: estimateCost(model, promptTokens, completionTokens, costs) }),
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

/** A count that the header can state, else undefined. */
function countOf(value: unknown): number | undefined {
  return isCount(value) && value <= MAX_U32 ? value : undefined;
}

/** A token count of a response: 0 where it states none, unlike a request's limit never left out. */
function usageOf(usage: JsonObject, key: string): number {
  const value = usage[key];
  return isCount(value) ? value : 0;
}
