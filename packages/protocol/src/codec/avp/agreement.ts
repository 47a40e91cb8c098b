import { ProtocolError, toProtocolError } from '../../base/errors.js';
import { decodeAvpHello, encodeAvpHello, type JsonObject } from './hello.js';
import type { ModelIdentity } from './identity.js';
import type { AvpMode } from './metadata.js';
import { type Compatibility, resolveCompatibility } from './resolve.js';

/** What an end says about its model when a session begins, and what the two make of it. */

export interface AvpOptions {
  /**
   * The model whose tensors this end sends and takes; see `modelIdentity`.
   *
   * @default none: the end runs no model of its own and exchanges text
   */
  readonly identity?: ModelIdentity | undefined;
  /** Stated beside the identity, for example `{ latent: true }`. @default {} */
  readonly capabilities?: JsonObject | undefined;
  /** Calibrated projection maps from this model to others by their id, for example a `Set`. @default none */
  readonly maps?: { has(mapId: string): boolean } | undefined;
  /**
   * Tokens of a model's vocabulary, where this end knows them; asked for either model if nothing else
   * makes the two compatible. @default unknown
   */
  readonly tokens?: ((model: ModelIdentity) => Iterable<string> | undefined) | undefined;
}

/** How an end sends tensors to the other. */
export interface AvpAgreement {
  /** `latent`: as they are; `json`: a text message takes their place. */
  readonly mode: AvpMode;
  /** What the receiver projects with; empty where the models are equal or nothing can be sent. */
  readonly mapId: string;
}

/**
 * The introduction that travels in `extensions.avp`.
 *
 * @throws {ProtocolError} `invalid_option` where the peer would not understand it.
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
 * How this end sends to the one that introduced itself by `stated`. A calibrated map has a direction,
 * so the two ends may come to different results.
 *
 * @throws {ProtocolError} `bad_json`, `bad_message`; `internal` where `maps` or `tokens` fails.
 */
export function agreeOnAvp(own: AvpOptions, stated: string): Compatibility {
  const remote = decodeAvpHello(stated).identity;
  const local = own.identity;
  if (local === undefined || remote === undefined) return { mode: 'json', mapId: '', path: 'json_fallback' };
  try {
    return resolveCompatibility(local, remote, {
      maps: own.maps,
      localTokens: own.tokens?.(local),
      remoteTokens: own.tokens?.(remote),
    });
  } catch (error) {
    throw toProtocolError(error, 'internal', 'the avp option could not be asked for maps or tokens');
  }
}
