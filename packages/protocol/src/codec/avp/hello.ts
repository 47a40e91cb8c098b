import { ProtocolError } from '../../base/errors.js';
import type { ModelIdentity } from './identity.js';
import { isUint32 } from './tensor.js';

/**
 * AVP's two JSON messages, with the field names of the reference: the introduction in `extensions.avp` of
 * HELLO and ACCEPT, and the text message between agents that cannot exchange tensors.
 */

/** The release of the reference that defines these messages. */
export const AVP_REFERENCE_VERSION = '0.6.2';

/** How an agent introduces itself. */
export interface AvpHello {
  /** @default '' */
  readonly agentId: string;
  /** @default AVP_REFERENCE_VERSION */
  readonly avpVersion: string;
  /** Absent if the agent runs no model. */
  readonly identity?: ModelIdentity | undefined;
  /** For example `{ latent: true }`. @default {} */
  readonly capabilities: JsonObject;
}

/** A text that replaces a tensor. */
export interface AvpTextMessage {
  /** @default AVP_REFERENCE_VERSION */
  readonly avpVersion: string;
  /** @default '' */
  readonly sessionId: string;
  /** @default '' */
  readonly sourceAgentId: string;
  /** @default '' */
  readonly targetAgentId: string;
  /** @default '' */
  readonly content: string;
  /** Any other JSON members. @default {} */
  readonly extra: JsonObject;
}

export type JsonObject = Readonly<Record<string, unknown>>;

/** The JSON text of an introduction; missing fields take their defaults. */
export function encodeAvpHello(hello: Partial<AvpHello>): string {
  const { identity } = hello;
  return JSON.stringify({
    agent_id: hello.agentId ?? '',
    avp_version: hello.avpVersion ?? AVP_REFERENCE_VERSION,
    capabilities: hello.capabilities ?? {},
    identity: identity && {
      model_family: identity.modelFamily,
      model_id: identity.modelId,
      model_hash: identity.modelHash,
      hidden_dim: identity.hiddenDim,
      num_layers: identity.numLayers,
      num_kv_heads: identity.numKvHeads,
      head_dim: identity.headDim,
      tokenizer_hash: identity.tokenizerHash === '' ? undefined : identity.tokenizerHash,
    },
  });
}

/**
 * Reads an introduction. It drops unknown fields, gives those that are missing, and texts and numbers that are null,
 * their defaults, and refuses fields of another type, which the reference accepts and fails on later.
 *
 * @throws {ProtocolError} `bad_json`, `bad_message`.
 */
export function decodeAvpHello(json: string): AvpHello {
  const hello = parseObject(json, 'AVP introduction');
  const identity = hello.object('identity');
  return {
    agentId: hello.text('agent_id'),
    avpVersion: hello.text('avp_version', AVP_REFERENCE_VERSION),
    capabilities: hello.object('capabilities')?.members ?? {},
    ...(identity && {
      identity: {
        modelFamily: identity.text('model_family'),
        modelId: identity.text('model_id'),
        modelHash: identity.text('model_hash'),
        hiddenDim: identity.count('hidden_dim'),
        numLayers: identity.count('num_layers'),
        numKvHeads: identity.count('num_kv_heads'),
        headDim: identity.count('head_dim'),
        tokenizerHash: identity.text('tokenizer_hash'),
      },
    }),
  };
}

/**
 * The model that a peer has introduced. One that cannot be read counts as none: it costs the peer tensors, and not its session.
 */
export function introducedModel(json: string): AvpHello['identity'] {
  try {
    return decodeAvpHello(json).identity;
  } catch (error) {
    if (error instanceof ProtocolError) return undefined;
    throw error;
  }
}

/** The JSON text of a text message; missing fields take their defaults. */
export function encodeAvpTextMessage(message: Partial<AvpTextMessage>): string {
  const extra = message.extra ?? {};
  return JSON.stringify({
    avp_version: message.avpVersion ?? AVP_REFERENCE_VERSION,
    session_id: message.sessionId ?? '',
    source_agent_id: message.sourceAgentId ?? '',
    target_agent_id: message.targetAgentId ?? '',
    content: message.content ?? '',
    extra: Object.keys(extra).length > 0 ? extra : undefined,
  });
}

/** @throws {ProtocolError} `bad_json`, `bad_message`. */
export function decodeAvpTextMessage(json: string): AvpTextMessage {
  const message = parseObject(json, 'AVP text message');
  return {
    avpVersion: message.text('avp_version', AVP_REFERENCE_VERSION),
    sessionId: message.text('session_id'),
    sourceAgentId: message.text('source_agent_id'),
    targetAgentId: message.text('target_agent_id'),
    content: message.text('content'),
    extra: message.object('extra')?.members ?? {},
  };
}

/** Reads fields of a JSON object by name and type; a field of another type is an error. */
interface Fields {
  readonly members: JsonObject;
  text(name: string, missing?: string): string;
  count(name: string): number;
  object(name: string): Fields | undefined;
}

function parseObject(json: string, what: string): Fields {
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch (cause) {
    throw new ProtocolError('bad_json', `the ${what} is not JSON`, { cause });
  }
  return fieldsOf(value, what);
}

function fieldsOf(value: unknown, what: string): Fields {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new ProtocolError('bad_message', `${what} must be an object`);
  }
  const members = value as JsonObject;
  const read = <T>(name: string, missing: T, isRight: (member: unknown) => member is T): T => {
    const member = Object.hasOwn(members, name) ? members[name] : null;
    if (member === null) return missing;
    if (isRight(member)) return member;
    throw new ProtocolError('bad_message', `${name} of the ${what} has the wrong type`);
  };
  return {
    members,
    text: (name, missing = '') => read(name, missing, (member) => typeof member === 'string'),
    count: (name) => read(name, 0, isUint32),
    object: (name) => (Object.hasOwn(members, name) ? fieldsOf(members[name], name) : undefined),
  };
}
