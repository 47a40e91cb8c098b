import { ProtocolError } from '../../base/errors.js';
import { type ResumeOffer, ResumeRefusal } from '../../control/messages.js';
import { type AcceptedResume, ResumeGuard } from '../resume-token.js';
import { ServerCore } from '../server-core.js';
import { optionsFor } from '../snapshot.js';
import type { ServerSessionCore, SessionOptions } from '../types.js';
import { readBegin } from './begin.js';
import { DurableChannel } from './channel.js';
import type { DurableRecord } from './record.js';

/** Why the client with this offer may not resume a recorded session; `undefined` if it may, as far as that tells. */
export function checkAccepted(
  accepted: AcceptedResume,
  { token, attempt }: ResumeOffer,
): ResumeRefusal | 'stale_attempt' | undefined {
  const guard = new ResumeGuard();
  guard.restoreAccepted(accepted);
  if (!guard.matches(token)) return ResumeRefusal.UNKNOWN_SESSION;
  return guard.isNewer(attempt) ? undefined : 'stale_attempt';
}

/**
 * Continues a durable session of another process, whose commits are refused from now on. The session is suspended until a
 * client resumes it and states what it has.
 *
 * @param options of a server. The session keeps its agreement.
 * @param record the record that the former process of the session left.
 * @throws {ProtocolError} as `restoreSession`.
 */
export function restoreDurableSession(
  options: SessionOptions,
  record: DurableRecord,
  now: number,
): ServerSessionCore {
  if (options.role !== 'server')
    throw new ProtocolError('invalid_argument', 'only a server restores sessions');
  const begin = readBegin(record.begin, options);
  const core = new ServerCore(optionsFor(begin.answer, options));
  core.takeOver(begin, record.accept, now);
  if (!(core.channel instanceof DurableChannel))
    throw new ProtocolError('bad_message', 'only a durable session has a record');
  core.channel.restore(record);
  return core;
}
