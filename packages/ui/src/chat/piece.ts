import type { Piece, ToolCall } from './conversation.js';

/** Tools that one answer may call; further ones are not shown. */
const MAX_CALLS = 16;

/**
 * The content of a chunk of a streamed chat completion. An API may leave out any of its fields, or send something else
 * in their place, which then counts as left out.
 */
export function pieceOf(chunk: unknown): Piece {
  const choice = itemOf(fieldOf(chunk, 'choices'), 0);
  const delta = fieldOf(choice, 'delta');
  const end = textOf(fieldOf(choice, 'finish_reason'));
  return {
    answer: textOf(fieldOf(delta, 'content')),
    refusal: textOf(fieldOf(delta, 'refusal')),
    // Two names for the same: of DeepSeek and others, and of OpenRouter and others.
    thinking: textOf(fieldOf(delta, 'reasoning_content')) || textOf(fieldOf(delta, 'reasoning')),
    calls: callsOf(delta),
    end: end === '' ? undefined : end,
  };
}

function callsOf(delta: unknown): Piece['calls'] {
  const listed = fieldOf(delta, 'tool_calls');
  const calls = (Array.isArray(listed) ? listed : []).flatMap((each: unknown, i) => {
    const index = fieldOf(each, 'index') ?? i;
    const called = callOf(fieldOf(each, 'function'));
    return called !== undefined && isIndex(index) ? [{ ...called, index }] : [];
  });
  // The former name of `tool_calls`.
  const former = callOf(fieldOf(delta, 'function_call'));
  return former === undefined ? calls : [...calls, { ...former, index: 0 }];
}

function callOf(value: unknown): Omit<ToolCall, 'index'> | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  return { name: textOf(fieldOf(value, 'name')), arguments: textOf(fieldOf(value, 'arguments')) };
}

function isIndex(value: unknown): value is number {
  return Number.isInteger(value) && (value as number) >= 0 && (value as number) < MAX_CALLS;
}

function fieldOf(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>)[name] : undefined;
}

function itemOf(value: unknown, index: number): unknown {
  return Array.isArray(value) ? value[index] : undefined;
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : '';
}
