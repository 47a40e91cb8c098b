import type { ModelIdentity } from './identity.js';
import type { AvpMode } from './metadata.js';

/**
 * The handshake resolver: whether two agents can exchange tensors, and by which projection. The
 * rules are tried in order; the first that holds decides. `local` is the sender: a calibrated map
 * has a direction, so the two ends of a session may come to different results.
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
  /** What the receiver projects with; empty where the models are equal or nothing can be sent. */
  readonly mapId: string;
  readonly path: ResolutionPath;
}

/** What this end has beside the two identities. */
export interface CompatibilityResources {
  /** Calibrated maps by their id, for example a `Set`. @default none */
  readonly maps?: { has(mapId: string): boolean } | undefined;
  /** Tokens of the sender's vocabulary. @default unknown */
  readonly localTokens?: Iterable<string> | undefined;
  /** Tokens of the receiver's vocabulary. @default unknown */
  readonly remoteTokens?: Iterable<string> | undefined;
}

/** Common tokens from which on two vocabularies can be projected onto each other. */
export const MIN_VOCABULARY_OVERLAP = 100;

/** Characters of a hash that name it in a map id. */
const HASH_PREFIX = 16;
/** Hashes come from the peer and an id may become a file name: letters and digits alone are looked up. */
const SAFE_MAP_ID = /^[0-9A-Za-z]{1,16}_[0-9A-Za-z]{1,16}$/;

/**
 * Decides how `local` sends to `remote`:
 *
 * 1. equal model hashes: the same model
 * 2. equal family, width and number of layers: taken for the same model
 * 3. equal tokenizer hashes: projection through the vocabulary
 * 4. a calibrated map from one model to the other
 * 5. at least {@link MIN_VOCABULARY_OVERLAP} common tokens: projection through those
 * 6. nothing of all that: text
 *
 * Identities are claims that nobody verifies, and the second rule ignores `numKvHeads` and
 * `headDim`: a KV-cache still has to fit by its own header.
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

/** The `avp_map_id` of a projection through what two vocabularies have in common. */
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
