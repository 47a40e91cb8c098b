import { Extension } from '../../base/constants.js';
import { ProtocolError } from '../../base/errors.js';
import { get, isFields, type StringMap } from '../../base/fields.js';
import { parseJson } from '../../base/json.js';
import type { Limits } from '../../base/limits.js';
import { utf8Length } from '../../base/text.js';
import { introducedModel } from '../../codec/avp/hello.js';
import type { ModelIdentity } from '../../codec/avp/identity.js';
import type { Metadata } from '../messages/metadata.js';
import { MAX_AGENT_METADATA } from './introduction.js';

/** Reads how an agent describes itself in HELLO: `extensions.agents` and `extensions.avp`. */

/** The description of an agent. */
export interface AgentDescription {
  readonly metadata: Metadata;
  readonly identity: ModelIdentity | undefined;
}

/** Maximum UTF-8 bytes of all texts of an agent's identity together: its names and its two hashes. */
export const MAX_AGENT_IDENTITY = 1024;

/**
 * Reads the description of an agent from its HELLO.
 *
 * @throws {ProtocolError} `bad_message`, `bad_json`, `metadata_too_large`, `json_too_deep`.
 */
export function readAgent(extensions: StringMap, limits: Limits): AgentDescription {
  const stated = extensions[Extension.AGENTS] ?? '{}';
  if (utf8Length(stated) > MAX_AGENT_METADATA + MAX_WRAPPING) throw tooLarge();
  const value: unknown = parseJson(stated, limits);
  const metadata = isFields(value) ? (get(value, 'metadata') ?? {}) : undefined;
  if (!isFields(metadata)) {
    throw new ProtocolError(
      'bad_message',
      'extension agents: expected an object whose metadata is an object',
    );
  }
  if (utf8Length(JSON.stringify(metadata)) > MAX_AGENT_METADATA) throw tooLarge();
  const avp = extensions[Extension.AVP];
  const identity = avp === undefined ? undefined : introducedModel(avp);
  // Limited because each change of the agent is sent to every session that may see it.
  if (identity !== undefined && textSize(identity) > MAX_AGENT_IDENTITY) {
    throw new ProtocolError(
      'metadata_too_large',
      `the texts of an agent's identity may have at most ${MAX_AGENT_IDENTITY} bytes together`,
    );
  }
  return { metadata: metadata as Metadata, identity };
}

function textSize({ modelFamily, modelId, modelHash, tokenizerHash }: ModelIdentity): number {
  return utf8Length(modelFamily) + utf8Length(modelId) + utf8Length(modelHash) + utf8Length(tokenizerHash);
}

/** Bytes of the object around the metadata. */
const MAX_WRAPPING = 64;

function tooLarge(): ProtocolError {
  return new ProtocolError(
    'metadata_too_large',
    `an agent's metadata may have at most ${MAX_AGENT_METADATA} bytes`,
  );
}
