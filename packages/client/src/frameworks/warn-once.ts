import { guardLogger, loggable } from '@parlance/protocol/client';
import type { Logger } from '../index.js';

/** Messages that were printed. */
const told = new Set<string>();
const MAX_TOLD = 20;

/**
 * Says in the console of a page, once for each message, that its session could not be opened: a framework keeps the error, and does not show it
 * unless the application does.
 */
export function warnOnce(error: unknown, logger: Logger = console): void {
  const message = error instanceof Error ? error.message : String(error);
  if (told.has(message) || told.size >= MAX_TOLD) return;
  told.add(message);
  guardLogger(logger).warn({ event: 'session.unopened', err: loggable(error) }, `no session: ${message}`);
}
