import { createHash } from 'node:crypto';
import type { Limits, StringMap } from '@parlance/protocol';
import { get, incarnationOf, isCount, isFields, readAgent } from '@parlance/protocol/internal';
import { keyOf } from '../../base/keys.js';
import type { TableEntry } from '../../engine/engine.js';
import type { Agent } from '../agent.js';
import { readAgreement } from './incoming.js';

/** The engine's record of an agent: whose it is, and how its node describes it. */

/** Characters of a record, and those that tell states of an agent apart. */
const MAX_RECORD = 32 * 1024;
const DIGEST_LENGTH = 12;

/** Names a record, so that a watch can continue at another node. */
export function digestOf(record: string): string {
  return createHash('sha256').update(record).digest('base64url').slice(0, DIGEST_LENGTH);
}

/**
 * The holder of an entry. A session keeps its ID when it moves, so the name has its node as well if the ID names
 * another one.
 */
export function holderName(node: string, sessionId: string): string {
  return incarnationOf(sessionId) === node ? sessionId : `${node}/${sessionId}`;
}

export interface Holder {
  readonly node: string;
  readonly sessionId: string;
}

export function readHolder(holder: string): Holder | undefined {
  const [node, sessionId = ''] = holder.includes('/')
    ? holder.split('/', 2)
    : [incarnationOf(holder), holder];
  const isWellFormed = node !== undefined && /^[0-9A-Za-z]{6}$/.test(node);
  return isWellFormed && incarnationOf(sessionId) !== undefined ? { node, sessionId } : undefined;
}

export function recordOf({ party, session, stated, isSuspended }: Agent): string {
  const { algorithms, encoding } = session.negotiated;
  const { agents, avp } = stated ?? {};
  const { principal, id } = party;
  const retentionMs = session.retentionMs || undefined;
  return JSON.stringify({
    principal,
    id,
    suspended: isSuspended,
    algorithms,
    encoding,
    agents,
    avp,
    recordMs: retentionMs,
  });
}

/** The same agent, which has no connection. */
export function suspended(record: string): string {
  return JSON.stringify({ ...(JSON.parse(record) as object), suspended: true });
}

export function readRecord(key: string, sessionId: string, { record }: TableEntry, limits: Limits) {
  if (record.length > MAX_RECORD) return undefined;
  try {
    const fields: unknown = JSON.parse(record);
    if (!isFields(fields)) return undefined;
    const [principal, id] = [get(fields, 'principal'), get(fields, 'id')];
    const [agents, avp] = [get(fields, 'agents'), get(fields, 'avp')];
    if (typeof principal !== 'string' || typeof id !== 'string' || keyOf(principal, id) !== key)
      return undefined;
    const stated: StringMap = {
      ...(typeof agents === 'string' ? { agents } : {}),
      ...(typeof avp === 'string' ? { avp } : {}),
    };
    const lasts = get(fields, 'recordMs');
    const negotiated = readAgreement(get(fields, 'algorithms'), get(fields, 'encoding'));
    return {
      agent: { sessionId, principal, agentId: id, negotiated, retentionMs: isCount(lasts) ? lasts : 0 },
      description: readAgent(stated, limits),
      isSuspended: get(fields, 'suspended') === true,
    };
  } catch {
    // Another node wrote something that this one does not understand; it has no such agent.
    return undefined;
  }
}
