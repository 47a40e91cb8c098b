import { isProtocolError } from '@parlance/protocol';

/** Whether an engine has answered with something that no node has written, and would again. */
export function isChanged(error: unknown): boolean {
  return isProtocolError(error) && CHANGED.has(error.code);
}

const CHANGED: ReadonlySet<string> = new Set(['authentication_failed', 'bad_message']);
