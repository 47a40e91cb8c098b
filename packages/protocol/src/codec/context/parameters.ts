import { ProtocolError } from '../../base/errors.js';

/**
 * What the extension `context` states: how much either end keeps of each direction. Of two statements
 * the smaller wins, so that both ends keep the same.
 */
export interface ContextParameters {
  /** Bytes of all messages in the base list. */
  readonly maxBytes: number;
  /** Messages in the base list. */
  readonly maxMessages: number;
}

/** More is never agreed on: zstd refers back at most 2 MiB at its level, and every message looks at each. */
export const MAX_CONTEXT_PARAMETERS: ContextParameters = { maxBytes: 64 * 1024 * 1024, maxMessages: 64 };

const NAMES = { maxBytes: 'max_bytes', maxMessages: 'max_messages' } as const;

/** The extension as HELLO and ACCEPT carry it. */
export function stateContext({ maxBytes, maxMessages }: ContextParameters): string {
  return JSON.stringify({
    [NAMES.maxBytes]: Math.min(maxBytes, MAX_CONTEXT_PARAMETERS.maxBytes),
    [NAMES.maxMessages]: Math.min(maxMessages, MAX_CONTEXT_PARAMETERS.maxMessages),
  });
}

/**
 * What both ends keep.
 *
 * @throws {ProtocolError} `bad_message` where a statement is not a JSON object with both numbers.
 */
export function agreeOnContext(own: string, peer: string): ContextParameters {
  const [a, b] = [parse(own), parse(peer)];
  return {
    maxBytes: Math.min(a.maxBytes, b.maxBytes, MAX_CONTEXT_PARAMETERS.maxBytes),
    maxMessages: Math.min(a.maxMessages, b.maxMessages, MAX_CONTEXT_PARAMETERS.maxMessages),
  };
}

/** @throws {ProtocolError} `bad_message`. */
export function assertContextStatement(stated: string): void {
  parse(stated);
}

function parse(stated: string): ContextParameters {
  let value: unknown;
  try {
    value = JSON.parse(stated);
  } catch (cause) {
    throw new ProtocolError('bad_message', 'extension context is stated as a JSON object', { cause });
  }
  const count = (name: string): number => {
    const field =
      typeof value === 'object' && value !== null && Object.hasOwn(value, name)
        ? (value as Record<string, unknown>)[name]
        : undefined;
    if (Number.isSafeInteger(field) && (field as number) >= 0) return field as number;
    throw new ProtocolError('bad_message', `extension context states no ${name}`);
  };
  return { maxBytes: count(NAMES.maxBytes), maxMessages: count(NAMES.maxMessages) };
}
