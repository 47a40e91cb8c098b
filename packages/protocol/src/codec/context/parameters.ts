import { ProtocolError } from '../../base/errors.js';

/**
 * The parameters of the extension `context`: how much each end keeps per direction. The smaller value of the
 * two ends wins, so that both keep the same.
 */
export interface ContextParameters {
  /** Bytes of all messages in the base list. */
  readonly maxBytes: number;
  /** Messages in the base list. */
  readonly maxMessages: number;
}

/**
 * The upper bounds: zstd refers back at most 2 MiB at its level, and every message is compared with every
 * base.
 */
export const MAX_CONTEXT_PARAMETERS: ContextParameters = { maxBytes: 64 * 1024 * 1024, maxMessages: 64 };

const NAMES = { maxBytes: 'max_bytes', maxMessages: 'max_messages' } as const;

/** The extension as HELLO and ACCEPT carry it. */
export function encodeContextParameters({ maxBytes, maxMessages }: ContextParameters): string {
  return JSON.stringify({
    [NAMES.maxBytes]: Math.min(maxBytes, MAX_CONTEXT_PARAMETERS.maxBytes),
    [NAMES.maxMessages]: Math.min(maxMessages, MAX_CONTEXT_PARAMETERS.maxMessages),
  });
}

/**
 * The parameters for both ends.
 *
 * @throws {ProtocolError} `bad_message` if either text is not a JSON object with both numbers.
 */
export function agreeOnContext(own: string, peer: string): ContextParameters {
  const [a, b] = [parse(own), parse(peer)];
  return {
    maxBytes: Math.min(a.maxBytes, b.maxBytes, MAX_CONTEXT_PARAMETERS.maxBytes),
    maxMessages: Math.min(a.maxMessages, b.maxMessages, MAX_CONTEXT_PARAMETERS.maxMessages),
  };
}

/** @throws {ProtocolError} `bad_message`. */
export function assertContextParameters(text: string): void {
  parse(text);
}

function parse(text: string): ContextParameters {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw new ProtocolError('bad_message', 'the extension context must be a JSON object', { cause });
  }
  const count = (name: string): number => {
    const field =
      typeof value === 'object' && value !== null && Object.hasOwn(value, name)
        ? (value as Record<string, unknown>)[name]
        : undefined;
    if (Number.isSafeInteger(field) && (field as number) >= 0) return field as number;
    throw new ProtocolError(
      'bad_message',
      `the extension context must have ${name}, a non-negative whole number`,
    );
  };
  return { maxBytes: count(NAMES.maxBytes), maxMessages: count(NAMES.maxMessages) };
}
