import { ProtocolError } from '../../base/errors.js';
import { isFields } from '../../base/fields.js';
import { utf8Length } from '../../base/text.js';
import type { AvpOptions } from '../../codec/avp/agreement.js';
import type { Metadata } from '../messages/metadata.js';

/** How an agent describes itself in HELLO; `description.ts` reads it. */

/** Who a client is to the other agents of its server. */
export interface AgentOptions {
  /**
   * The agent ID that the client asks for: 1 to 128 of letters, digits and `. _ : @ -`. The server may refuse it.
   *
   * @default none
   */
  readonly id?: string | undefined;
  /** The model behind the client; see `CapabilityOptions.avp`. @default none */
  readonly model?: AvpOptions | undefined;
  /** A description for other agents, at most 4,096 bytes of JSON. @default {} */
  readonly metadata?: Metadata | undefined;
}

/** Maximum bytes of an agent's metadata as JSON. */
export const MAX_AGENT_METADATA = 4096;
/**
 * The value of the extension `agents`.
 *
 * @throws {ProtocolError} `invalid_option` if the metadata is too large or not an object.
 */
export function agentExtension({ metadata = {} }: Pick<AgentOptions, 'metadata'>): string {
  const json = JSON.stringify(metadata);
  if (!isFields(metadata) || utf8Length(json) > MAX_AGENT_METADATA) {
    throw new ProtocolError(
      'invalid_option',
      `agent.metadata: expected an object of at most ${MAX_AGENT_METADATA} bytes as JSON`,
    );
  }
  return json === '{}' ? '{}' : `{"metadata":${json}}`;
}
