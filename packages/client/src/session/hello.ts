import type { AgentOptions } from '@parlance/protocol';
import {
  agentExtension,
  assertOptions,
  codecs,
  isStatedAgentId,
  type OptionKinds,
  ProtocolError,
  parts,
  Subprotocol,
} from '@parlance/protocol/client';
import type { ClientModule, Setup } from './module.js';

const KINDS: OptionKinds<AgentOptions> = { id: 'text', metadata: 'object', model: 'object' };

/**
 * The options without which HELLO is the same for all clients: `agent`, `agentId`, `avp`, `security` and `subprotocol`. Loads the
 * code that HELLO cannot be written without.
 *
 * @throws {ProtocolError} `invalid_option`, `invalid_key`.
 */
export async function createModule({ options }: Setup): Promise<ClientModule> {
  const { agent, subprotocol } = options;
  if (agent !== undefined) assertOptions(agent, KINDS, 'agent');
  const agentId = either('agent.id', agent?.id, 'agentId', options.agentId);
  const avp = either('agent.model', agent?.model, 'avp', options.avp);
  const names = Object.values(Subprotocol);
  if (subprotocol !== undefined && !names.includes(subprotocol))
    throw new ProtocolError('invalid_option', `subprotocol: expected one of ${names.join(', ')}`);
  if (agentId !== undefined && !isStatedAgentId(agentId))
    throw new ProtocolError('invalid_option', 'agent.id: expected 1 to 128 letters, digits and . _ : @ -');
  if (avp !== undefined) await codecs.avp.load();
  const security = options.security && (await codecs.m2m.load()).resolveSecurity(options.security);
  if (subprotocol === Subprotocol.JSON) await parts.plain.load();
  const statements = agent && { agents: agentExtension(agent) };
  return { plan: { agentId, avp, security, statements, subprotocol } };
}

/** The value of an option that has a short form. @throws {ProtocolError} `invalid_option` if both are given. */
function either<Value>(
  name: string,
  value: Value | undefined,
  shortName: string,
  short: Value | undefined,
): Value | undefined {
  if (value === undefined || short === undefined) return value ?? short;
  throw new ProtocolError('invalid_option', `${name}: ${shortName} is given as well; give only one of them`);
}
