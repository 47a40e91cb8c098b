import { type Fields, get } from '../../base/fields.js';
import { ValueList } from '../../base/value-list.js';
import { AgreementCache, type Answer } from '../../control/agreement.js';
import { agreementValues, readAgreement } from '../../control/agreement-snapshot.js';
import { CONTAINER_FORMAT, decodeSnapshot, encodeSnapshot } from '../snapshot.js';
import type { SessionOptions } from '../types.js';

/** What never changes in a session: its ID, its agents and its agreement, in the form of a snapshot. */
export interface Begin {
  readonly id: string;
  readonly answer: Answer;
  readonly statedAgentId: string | undefined;
  readonly agentId: string | undefined;
}

export function encodeBegin({ id, answer, statedAgentId, agentId }: Begin): Uint8Array {
  const fields: Fields = {
    id,
    agreement: agreementValues(answer),
    stated_agent: statedAgentId,
    agent: agentId,
  };
  return encodeSnapshot(fields, CONTAINER_FORMAT);
}

/**
 * @throws {ProtocolError} as `readSnapshot`; `unsupported` if a server with these options cannot keep the agreement.
 */
export function readBegin(bytes: Uint8Array, options: SessionOptions): Begin {
  const fields = decodeSnapshot(bytes, CONTAINER_FORMAT);
  const names = ['id', 'stated_agent', 'agent'];
  const list = new ValueList(
    names.map((name) => get(fields, name)),
    'the session',
  );
  const { agreements = new AgreementCache() } = options;
  const agreement = get(fields, 'agreement');
  return {
    id: list.text(MAX_ID),
    statedAgentId: list.optional((one) => one.text(MAX_ID)),
    agentId: list.optional((one) => one.text(MAX_ID)),
    answer: agreements.share(`moved ${JSON.stringify(agreement)}`, () => readAgreement(agreement, options)),
  };
}

const MAX_ID = 128;
