import { Extension } from '../../base/constants.js';
import { ProtocolError } from '../../base/errors.js';
import { get, isFields, type StringMap } from '../../base/fields.js';
import { parseJson } from '../../base/json.js';
import type { Limits } from '../../base/limits.js';
import { utf8Length } from '../../base/text.js';
import { decodeAvpHello } from '../../codec/avp/hello.js';
import type { ModelIdentity } from '../../codec/avp/identity.js';
import type { Metadata } from '../messages/metadata.js';

/** What an agent says about itself in HELLO: `extensions.agents` and `extensions.avp`. */

export interface AgentOptions {
  /** Anything that others may want to know, up to 4 KiB of JSON. @default {} */
  readonly metadata?: Metadata | undefined;
}

/** What an agent has said about itself. */
export interface AgentDescription {
  readonly metadata: Metadata;
  readonly identity: ModelIdentity | undefined;
}

/** Bytes of the JSON of an agent's metadata. */
export const MAX_AGENT_METADATA = 4096;
/** UTF-8 bytes of the texts of an agent's identity together: two hashes, and names. */
export const MAX_AGENT_IDENTITY = 1024;

/**
 * The extension `agents` of an agent.
 *
 * @throws {ProtocolError} `invalid_option` where the metadata are too large or no object.
 */
export function stateAgent({ metadata = {} }: AgentOptions): string {
  const json = JSON.stringify(metadata);
  if (!isFields(metadata) || utf8Length(json) > MAX_AGENT_METADATA) {
    throw new ProtocolError(
      'invalid_option',
      `agent.metadata is an object of at most ${MAX_AGENT_METADATA} bytes as JSON`,
    );
  }
  return json === '{}' ? '{}' : `{"metadata":${json}}`;
}

/**
 * What an agent's HELLO says about it.
 *
 * @throws {ProtocolError} `bad_message`, `bad_json`, `metadata_too_large`, `json_too_deep`.
 */
export function readAgent(extensions: StringMap, limits: Limits): AgentDescription {
  const stated = extensions[Extension.AGENTS] ?? '{}';
  // Some room for the object around it.
  if (utf8Length(stated) > MAX_AGENT_METADATA + MAX_WRAPPING) throw tooLarge();
  const value: unknown = parseJson(stated, limits);
  const metadata = isFields(value) ? (get(value, 'metadata') ?? {}) : undefined;
  if (!isFields(metadata)) {
    throw new ProtocolError('bad_message', 'extension agents states an object, and its metadata are one');
  }
  if (utf8Length(JSON.stringify(metadata)) > MAX_AGENT_METADATA) throw tooLarge();
  const avp = extensions[Extension.AVP];
  const identity = avp === undefined ? undefined : decodeAvpHello(avp).identity;
  // Every session that may see the agent is told of it whenever it changes.
  if (identity !== undefined && textSize(identity) > MAX_AGENT_IDENTITY) {
    throw new ProtocolError(
      'metadata_too_large',
      `the texts of an agent's identity are at most ${MAX_AGENT_IDENTITY} bytes`,
    );
  }
  return { metadata: metadata as Metadata, identity };
}

function textSize({ modelFamily, modelId, modelHash, tokenizerHash }: ModelIdentity): number {
  return utf8Length(modelFamily) + utf8Length(modelId) + utf8Length(modelHash) + utf8Length(tokenizerHash);
}

const MAX_WRAPPING = 64;

function tooLarge(): ProtocolError {
  return new ProtocolError(
    'metadata_too_large',
    `an agent's metadata are at most ${MAX_AGENT_METADATA} bytes`,
  );
}
