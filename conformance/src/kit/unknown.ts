import type { Call } from './calls.js';

/** How a peer answers a test that it does not know: such a scenario does not apply to it. */
export interface UnknownTest {
  readonly code: string;
  /** With {@link NAME} in the place of the name, if `code` stands for other failures as well. */
  readonly message: string | undefined;
}

/** Peers answer so that follow README.md. */
export const NONE_PROBED: UnknownTest = { code: 'unknown_test', message: undefined };

/** A test that no peer knows. */
export const NO_TEST = 'conformance-no-such-test';
const NAME = '?';

/** What a peer says of {@link NO_TEST}. */
export function unknownFrom({ error }: Call): UnknownTest {
  const code = String(error?.['code'] ?? NONE_PROBED.code);
  return { code, message: code === 'internal' ? messageOf(error?.['message'], NO_TEST) : undefined };
}

/** Whether the peer has answered a wish as one that it does not know. */
export function isUnknown({ wish, error }: Call, { code, message }: UnknownTest): boolean {
  if (wish === undefined || error === undefined) return false;
  if (error['code'] === NONE_PROBED.code) return true;
  return error['code'] === code && (message === undefined || messageOf(error['message'], wish) === message);
}

const messageOf = (message: unknown, test: string): string => String(message).replaceAll(test, NAME);
