import type { EngineConnection } from '../engine/engine.js';
import type { DurableRequest } from '../engine/logs/reply.js';
import type { Seal } from '../engine/seal/keys.js';
import { RecordSeal } from '../engine/seal/record-seal.js';
import { goesOn } from './fields.js';

/**
 * Whether a kept reply waits for the client of its requester: the handler is called again when it comes back.
 *
 * @param seal with which the records of sessions are sealed.
 * @throws {ProtocolError} as `EngineConnection.readSession`; `authentication_failed`, `bad_message`.
 */
export async function isAwaited(
  link: Pick<EngineConnection, 'readSession'>,
  seal: Seal | undefined,
  { session, stream }: DurableRequest,
  id: string,
): Promise<boolean> {
  const names = [`s${stream}`, `x${stream}`];
  const reading = await link.readSession(session, seal === undefined ? names : RecordSeal.namesFor(names));
  if (reading === undefined) return false;
  const { fields } = reading;
  return goesOn(seal === undefined ? fields : RecordSeal.openSome(seal, session, fields), stream, id);
}
