import { ProtocolError } from '@parlance/protocol';
import type { EngineConnection } from '../engine/engine.js';

/**
 * Whether sessions that are put on record there survive what they are put on record for.
 *
 * @throws {ProtocolError} `unsupported` if the engine forgets everything when its process ends, unless that is allowed;
 * `connection_failed` or `timeout` if it does not answer.
 */
export async function checkDurability(
  link: Pick<EngineConnection, 'isVolatile'>,
  { isVolatile }: { readonly isVolatile: boolean },
): Promise<void> {
  if (isVolatile || !(await link.isVolatile())) return;
  const message =
    'durable: the engine may forget what it has when it ends (set appendonly of Redis to yes; fsync, full_page_writes and synchronous_commit of Postgres to on), or write durable(true, { volatile: true })';
  throw new ProtocolError('unsupported', message);
}
