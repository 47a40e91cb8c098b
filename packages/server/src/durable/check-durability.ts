import { ProtocolError } from '@parlance/protocol';
import type { EngineConnection } from '../engine/engine.js';

/**
 * Checks that the engine keeps recorded sessions through the failures that they are to survive.
 *
 * @throws {ProtocolError} `unsupported` if the engine forgets everything when its process ends, unless that is allowed, or if no replica
 * could confirm a commit and one has to; `connection_failed` or `timeout` if it does not answer.
 */
export async function checkDurability(
  link: Pick<EngineConnection, 'isVolatile' | 'checkReplica'>,
  { isVolatile, isReplicated = false }: { readonly isVolatile: boolean; readonly isReplicated?: boolean },
): Promise<void> {
  if (isReplicated) await link.checkReplica?.();
  if (isVolatile || !(await link.isVolatile())) return;
  const message =
    'durable: the engine may forget what it has when it ends (set appendonly of Redis to yes; fsync, full_page_writes and synchronous_commit of Postgres to on), or write durable(true, { allowVolatileEngine: true })';
  throw new ProtocolError('unsupported', message);
}
