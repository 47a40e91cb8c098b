import type { Call } from './calls.js';

/** How a peer answers a test that it does not know: such a scenario does not apply to it. */
export interface UnknownTest {
  readonly code: string;
  /** Its message for {@link NO_TEST}, if `code` stands for other failures as well. */
  readonly message: string | undefined;
}

/** Peers answer so that follow README.md. */
export const NONE_PROBED: UnknownTest = { code: 'unknown_test', message: undefined };

/** A test that no peer knows. */
export const NO_TEST = 'conformance-no-such-test';

/** The answer of a peer to {@link NO_TEST}. */
export function unknownFrom({ error }: Call): UnknownTest {
  const code = String(error?.['code'] ?? NONE_PROBED.code);
  return { code, message: code === 'internal' ? String(error?.['message']) : undefined };
}

/** Whether the peer has answered a wish as one that it does not know. */
export function isUnknown({ wish, error }: Call, { code, message }: UnknownTest): boolean {
  if (wish === undefined || error === undefined) return false;
  if (error['code'] === NONE_PROBED.code) return true;
  if (error['code'] !== code) return false;
  const said = String(error['message']);
  return message === undefined || said === message || said === message.replaceAll(NO_TEST, wish);
}
