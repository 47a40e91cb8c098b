import { ProtocolError } from '../../base/errors.js';
import * as bare from '../bare-module.js';
import { ServerCore } from '../server-core.js';
import { optionsFor } from '../snapshot.js';
import type { ServerSessionCore, SessionOptions } from '../types.js';
import { readBegin } from './begin.js';
import type { DurableRecord } from './turn.js';

/**
 * Goes on with a durable session of another process, whose turns are refused from now on. The session is suspended, until
 * a client resumes it that says what it has.
 *
 * @param options of a server. The session keeps its agreement.
 * @param record what the process that had the session has put on record.
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
  const core = new ServerCore(optionsFor(begin.answer, options), bare);
  core.takeOver(begin, record, now);
  return core;
}
