import type { ModelIdentity } from './identity.js';
import type { AvpMode } from './metadata.js';

/**
 * The handshake resolver decides whether two agents can exchange tensors, and with which projection. It tries
 * the rules in order; the first that applies decides. `local` is the sender: a calibrated map has a
 * direction, so the two ends of a session may come to different results.
 */

/** Which rule decided. */
export type ResolutionPath =
  | 'hash_match'
  | 'structural_match'
  | 'shared_tokenizer'
  | 'avp_map_file'
  | 'vocab_overlap'
  | 'json_fallback';

export interface Compatibility {
  /** `latent`: tensors; `json`: text only. */
  readonly mode: AvpMode;
  /** The map that the receiver projects with; empty if the models are equal or cannot exchange tensors. */
  readonly mapId: string;
  readonly path: ResolutionPath;
}

/** Further resources of this end. */
export interface CompatibilityResources {
  /** Calibrated maps by id, for example a `Set`. @default none */
  readonly maps?: { has(mapId: string): boolean } | undefined;
  /** Tokens of the sender's vocabulary. @default unknown */
  readonly localTokens?: Iterable<string> | undefined;
  /** Tokens of the receiver's vocabulary. @default unknown */
  readonly remoteTokens?: Iterable<string> | undefined;
}

/** The number of common tokens that a projection between two vocabularies needs. */
export const MIN_VOCABULARY_OVERLAP = 100;

/** The number of characters of a hash in a map id. */
const HASH_PREFIX = 16;
/** Hashes come from the peer, and an id may become a file name, so only letters and digits are looked up. */
const SAFE_MAP_ID = /^[0-9A-Za-z]{1,16}_[0-9A-Za-z]{1,16}$/;

/**
 * Decides how `local` sends to `remote`:
 *
 * 1. equal model hashes: the same model
 * 2. equal family, width and number of layers: treated as the same model
 * 3. equal tokenizer hashes: projection through the vocabulary
 * 4. a calibrated map from one model to the other
 * 5. at least {@link MIN_VOCABULARY_OVERLAP} common tokens: projection through those
 * 6. otherwise: text
 *
 * Identities are unverified claims, and the second rule ignores `numKvHeads` and `headDim`, so the receiver
 * must still check the header of a KV-cache.
 */
export function resolveCompatibility(
  local: ModelIdentity,
  remote: ModelIdentity,
  resources: CompatibilityResources = {},
): Compatibility {
  if (local.modelHash !== '' && local.modelHash === remote.modelHash) {
    return { mode: 'latent', mapId: '', path: 'hash_match' };
  }
  if (isSameStructure(local, remote)) return { mode: 'latent', mapId: '', path: 'structural_match' };
  if (local.tokenizerHash !== '' && local.tokenizerHash === remote.tokenizerHash) {
    return { mode: 'latent', mapId: vocabularyMapId(local.tokenizerHash), path: 'shared_tokenizer' };
  }
  const calibrated = calibratedMapId(local.modelHash, remote.modelHash);
  if (SAFE_MAP_ID.test(calibrated) && resources.maps?.has(calibrated) === true) {
    return { mode: 'latent', mapId: calibrated, path: 'avp_map_file' };
  }
  if (resources.localTokens !== undefined && resources.remoteTokens !== undefined) {
    const common = countCommonTokens(resources.localTokens, resources.remoteTokens);
    if (common >= MIN_VOCABULARY_OVERLAP) {
      return { mode: 'latent', mapId: overlapMapId(common), path: 'vocab_overlap' };
    }
  }
  return { mode: 'json', mapId: '', path: 'json_fallback' };
}

/** The `avp_map_id` of a projection through a shared vocabulary. */
export function vocabularyMapId(tokenizerHash: string): string {
  return `vocab:${tokenizerHash.slice(0, HASH_PREFIX)}`;
}

/** The `avp_map_id` of a projection through the common tokens of two vocabularies. */
export function overlapMapId(commonTokens: number): string {
  return `vocab_overlap:${commonTokens}`;
}

/** The `avp_map_id` of a map calibrated from one model to another. */
export function calibratedMapId(sourceModelHash: string, targetModelHash: string): string {
  return `${sourceModelHash.slice(0, HASH_PREFIX)}_${targetModelHash.slice(0, HASH_PREFIX)}`;
}

function isSameStructure(local: ModelIdentity, remote: ModelIdentity): boolean {
  return (
    local.modelFamily !== '' &&
    local.modelFamily === remote.modelFamily &&
    local.hiddenDim > 0 &&
    local.hiddenDim === remote.hiddenDim &&
    local.numLayers > 0 &&
    local.numLayers === remote.numLayers
  );
}

function countCommonTokens(a: Iterable<string>, b: Iterable<string>): number {
  const known = new Set(a);
  let common = 0;
  for (const token of new Set(b)) if (known.has(token)) common++;
  return common;
}
