import { type Fields, get, isFields } from '../../base/fields.js';

/** A UI message chunk. The AI SDK checks it when it applies it. */
export type ChatChunk = Fields & { readonly type: string };

/**
 * The chunks of which a message is made, for a page that follows an answer which continues that message. It begins with
 * `start`, which resets what the page has of the message, so that no part appears twice.
 *
 * Inputs of tools whose outputs are known arrive as text: `tool-input-available` would have the page run the tool again.
 *
 * @param message of a type that the server has checked; parts of other kinds than the AI SDK's are left out.
 */
export function* replayMessage(message: unknown): Generator<ChatChunk> {
  if (!isFields(message)) return;
  const [messageId, parts] = [get(message, 'id'), get(message, 'parts')];
  const messageMetadata = get(message, 'metadata');
  yield { type: 'start', messageId, ...(messageMetadata !== undefined && { messageMetadata }) };
  if (!Array.isArray(parts)) return;
  for (const [index, part] of parts.entries()) {
    if (isFields(part)) yield* replayPart(part, `replayed-${index}`);
  }
}

function* replayPart(part: Fields, id: string): Generator<ChatChunk> {
  const { type } = part;
  if (type === 'step-start') yield { type: 'start-step' };
  else if (type === 'text' || type === 'reasoning') {
    const providerMetadata = get(part, 'providerMetadata');
    const common = { id, ...(providerMetadata !== undefined && { providerMetadata }) };
    yield { type: `${type}-start`, ...common };
    yield { type: `${type}-delta`, id, delta: String(get(part, 'text') ?? '') };
    yield { type: `${type}-end`, ...common };
  } else if (type === 'file' || type === 'source-url' || type === 'source-document') yield { ...part, type };
  else if (typeof type !== 'string') return;
  else if (type.startsWith('data-')) yield { ...part, type };
  else if (type === 'dynamic-tool') yield* replayTool(part, String(get(part, 'toolName')), true);
  else if (type.startsWith('tool-')) yield* replayTool(part, type.slice('tool-'.length), false);
}

function* replayTool(part: Fields, toolName: string, isDynamic: boolean): Generator<ChatChunk> {
  const { state } = part;
  const [toolCallId, input] = [get(part, 'toolCallId'), get(part, 'input')];
  const call = { toolCallId, ...pick(part, ['providerExecuted', 'title', 'toolMetadata']) };
  const providerMetadata = get(part, 'callProviderMetadata');
  const named = {
    ...call,
    toolName,
    dynamic: isDynamic,
    ...(providerMetadata !== undefined && { providerMetadata }),
  };
  yield { type: 'tool-input-start', ...named };
  if (state === 'input-streaming') return;
  const isOver = typeof state === 'string' && state.startsWith('output-');
  if (!isOver) {
    // Without its answer, so that the page does not ask its user a second time.
    yield { type: 'tool-input-available', ...named, input };
    return;
  }
  const text = JSON.stringify(input);
  if (text !== undefined) yield { type: 'tool-input-delta', toolCallId, inputTextDelta: text };
  const common = { toolCallId, dynamic: isDynamic, ...pick(part, ['providerExecuted', 'preliminary']) };
  if (state === 'output-available') {
    yield { type: 'tool-output-available', ...common, output: get(part, 'output') };
  } else if (state === 'output-error') {
    yield { type: 'tool-output-error', ...common, errorText: String(get(part, 'errorText') ?? '') };
  } else yield { type: 'tool-output-denied', toolCallId };
}

function pick(part: Fields, names: readonly string[]): Fields {
  return Object.fromEntries(
    names.filter((name) => get(part, name) !== undefined).map((name) => [name, part[name]]),
  );
}
