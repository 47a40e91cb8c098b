import { atOnce, readable } from '../../base/callbacks.js';
import { ProtocolError, toProtocolError } from '../../base/errors.js';
import { decodeAvpHello, encodeAvpHello, introducedModel, type JsonObject } from './hello.js';
import type { ModelIdentity } from './identity.js';
import type { AvpMode } from './metadata.js';
import { type Compatibility, resolveCompatibility } from './resolve.js';

/** How each end introduces its model when a session begins, and how the two agree. */

export interface AvpOptions {
  /**
   * The model whose tensors this end sends and receives; see `modelIdentity`.
   *
   * @default none: this end runs no model and exchanges text
   */
  readonly identity?: ModelIdentity | undefined;
  /** Sent with the identity, for example `{ latent: true }`. @default {} */
  readonly capabilities?: JsonObject | undefined;
  /** Calibrated projection maps from this model to others, by id; for example a `Set`. @default none */
  readonly maps?: { has(mapId: string): boolean } | undefined;
  /**
   * Returns the tokens of a model's vocabulary, if this end knows them. Called for both models if nothing
   * else makes them compatible. @default unknown
   */
  readonly tokens?: ((model: ModelIdentity) => Iterable<string> | undefined) | undefined;
}

/** How one end sends tensors to the other. */
export interface AvpAgreement {
  /** `latent`: as tensors; `json`: as a text message instead. */
  readonly mode: AvpMode;
  /** The map that the receiver projects with; empty if the models are equal or cannot exchange tensors. */
  readonly mapId: string;
}

/**
 * The introduction for `extensions.avp`.
 *
 * @throws {ProtocolError} `invalid_option` if the peer could not parse it.
 */
export function introduction(options: AvpOptions, agentId: string | undefined): string {
  const { identity, capabilities } = options;
  try {
    const json = encodeAvpHello({ agentId: agentId ?? '', identity, capabilities: capabilities ?? {} });
    decodeAvpHello(json);
    return json;
  } catch (cause) {
    throw new ProtocolError('invalid_option', 'avp: identity or capabilities are malformed', { cause });
  }
}

/**
 * How this end sends to the peer with the introduction `peer`. A calibrated map has a direction, so the two
 * ends may come to different results.
 *
 * @throws {ProtocolError} `internal` if `maps` or `tokens` throws.
 */
export function agreeOnAvp(own: AvpOptions, peer: string): Compatibility {
  const remote = introducedModel(peer);
  const local = own.identity;
  if (local === undefined || remote === undefined) return { mode: 'json', mapId: '', path: 'json_fallback' };
  try {
    const { maps } = own;
    return resolveCompatibility(local, remote, {
      maps: maps && { has: (id) => atOnce(maps.has(id), 'avp.maps.has') },
      localTokens: atOnce(own.tokens?.(local), 'avp.tokens'),
      remoteTokens: atOnce(own.tokens?.(remote), 'avp.tokens'),
    });
  } catch (error) {
    throw toProtocolError(readable(error), 'internal', 'the avp option threw when asked for maps or tokens');
  }
}
