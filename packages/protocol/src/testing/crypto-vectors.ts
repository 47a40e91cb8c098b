import assert from 'node:assert/strict';
import type { CryptoSuite } from '../crypto/suite.js';
import { fromHex, toHex } from './m2m-vectors.js';

/**
 * One function for each kind of case in `m2m-crypto.json`, which states expectations instead of
 * verdicts. Each throws where the functions under test compute something else.
 */

export interface KeyFunctions {
  readonly platform: { readonly crypto: CryptoSuite };
  readonly keyPath: typeof import('../crypto/keys.js').keyPath;
  deriveKey(secret: Uint8Array, path: string, length?: number): Uint8Array;
  isKeyId(id: string): boolean;
  keyFromHex(hex: string): Uint8Array;
  createKeyPair(secretKey?: Uint8Array): { readonly secretKey: Uint8Array; readonly publicKey: Uint8Array };
  sharedSecret(secretKey: Uint8Array, peerPublicKey: Uint8Array): Uint8Array;
  agreeKey(secretKey: Uint8Array, peerPublicKey: Uint8Array, context: string): Uint8Array;
  isProtocolError(value: unknown): boolean;
}

export interface HkdfCase {
  readonly length: number;
  readonly ikm_hex?: string;
  readonly info_hex?: string;
  readonly okm_hex?: string;
  readonly expected?: 'error';
}

export function checkHkdf({ platform, isProtocolError }: KeyFunctions, vector: HkdfCase): void {
  const ikm = fromHex(vector.ikm_hex ?? '00'.repeat(32));
  const derive = () => platform.crypto.hkdfSha256(ikm, fromHex(vector.info_hex ?? ''), vector.length);
  if (vector.okm_hex === undefined) assert.throws(derive, isProtocolError);
  else assert.equal(toHex(derive()), vector.okm_hex);
}

export interface HmacCase {
  readonly key_hex: string;
  readonly data_hex: string;
  readonly tag_hex: string;
}

export function checkHmac({ platform }: KeyFunctions, vector: HmacCase): void {
  const tag = platform.crypto.hmacSha256(fromHex(vector.key_hex), fromHex(vector.data_hex));
  assert.equal(toHex(tag), vector.tag_hex);
}

export interface AeadCase {
  readonly key_hex: string;
  readonly nonce_hex: string;
  readonly plaintext_hex: string;
  readonly aad_hex: string;
  /** nonce, ciphertext, tag. */
  readonly output_hex: string;
}

export function checkAead({ platform, isProtocolError }: KeyFunctions, vector: AeadCase): void {
  const { seal, open } = platform.crypto.chacha20poly1305;
  const [key, nonce, aad] = [vector.key_hex, vector.nonce_hex, vector.aad_hex].map(fromHex) as [
    Uint8Array,
    Uint8Array,
    Uint8Array,
  ];
  const sealed = seal(key, nonce, fromHex(vector.plaintext_hex), aad);
  assert.equal(vector.nonce_hex + toHex(sealed), vector.output_hex);
  assert.equal(toHex(open(key, nonce, sealed, aad)), vector.plaintext_hex);
  const otherAad = new Uint8Array([...aad, 0]);
  assert.throws(() => open(key, nonce, sealed, otherAad), isProtocolError);
}

export interface HierarchyCase {
  readonly master_hex: string;
  readonly org_id: string;
  readonly org: { readonly info: string; readonly key_hex: string };
  readonly shared: { readonly info: string; readonly key_hex: string };
  readonly agents: readonly {
    readonly agent_id: string;
    readonly info: string;
    readonly key_hex: string;
    readonly purposes: readonly {
      readonly purpose: Parameters<KeyFunctions['keyPath']['agent']>[2];
      readonly info: string;
      /** From the master secret. */
      readonly hierarchy_key_hex: string;
      /** From the agent's own key. */
      readonly agent_context_key_hex: string;
    }[];
  }[];
  readonly sessions: readonly {
    readonly agent_a: string;
    readonly agent_b: string;
    readonly session_id: string;
    readonly info: string;
    /** From the master secret. */
    readonly hierarchy_key_hex: string;
    /** From the organisation's key. */
    readonly agent_context_key_hex: string;
  }[];
}

export function checkHierarchy({ keyPath, deriveKey }: KeyFunctions, vector: HierarchyCase): void {
  const master = fromHex(vector.master_hex);
  const org = vector.org_id;
  const check = (secret: Uint8Array, path: string, info: string, keyHex: string): Uint8Array => {
    assert.equal(path, info);
    const key = deriveKey(secret, path);
    assert.equal(toHex(key), keyHex, path);
    return key;
  };
  const orgKey = check(master, keyPath.organisation(org), vector.org.info, vector.org.key_hex);
  check(master, keyPath.shared(org), vector.shared.info, vector.shared.key_hex);
  for (const { agent_id, info, key_hex, purposes } of vector.agents) {
    const agentKey = check(master, keyPath.agent(org, agent_id), info, key_hex);
    for (const { purpose, info, hierarchy_key_hex, agent_context_key_hex } of purposes) {
      const path = keyPath.agent(org, agent_id, purpose);
      check(master, path, info, hierarchy_key_hex);
      check(agentKey, path, info, agent_context_key_hex);
    }
  }
  for (const session of vector.sessions) {
    const path = keyPath.session(org, session.agent_a, session.agent_b, session.session_id);
    check(master, path, session.info, session.hierarchy_key_hex);
    check(orgKey, path, session.info, session.agent_context_key_hex);
  }
}

export interface IdCase {
  readonly id: string;
  /** `ok` or the reference's reason. */
  readonly agent: string;
  readonly org: string;
}

export function checkId({ isKeyId, keyPath, isProtocolError }: KeyFunctions, vector: IdCase): void {
  for (const [verdict, path] of [
    [vector.agent, () => keyPath.agent('org', vector.id)],
    [vector.org, () => keyPath.organisation(vector.id)],
  ] as const) {
    assert.equal(isKeyId(vector.id), verdict === 'ok');
    if (verdict === 'ok') path();
    else assert.throws(path, isProtocolError);
  }
}

export interface KeyHexCase {
  readonly hex: string;
  readonly ok: boolean;
}

export function checkKeyHex({ keyFromHex, isProtocolError }: KeyFunctions, vector: KeyHexCase): void {
  if (vector.ok) assert.equal(toHex(keyFromHex(vector.hex)), vector.hex.toLowerCase());
  else assert.throws(() => keyFromHex(vector.hex), isProtocolError);
}

export interface KeyringCase {
  readonly default_key_hex: string;
  readonly info: string;
  readonly key_hex: string;
}

export function checkKeyring({ deriveKey }: KeyFunctions, vector: KeyringCase): void {
  assert.equal(toHex(deriveKey(fromHex(vector.default_key_hex), vector.info)), vector.key_hex);
}

export interface ExchangeCase {
  readonly secret_a_hex: string;
  readonly secret_b_hex: string;
  readonly public_a_hex: string;
  readonly public_b_hex: string;
  readonly shared_hex: string;
  readonly session_keys: readonly { readonly context: string; readonly key_hex: string }[];
}

export function checkExchange(keys: KeyFunctions, vector: ExchangeCase): void {
  const a = keys.createKeyPair(fromHex(vector.secret_a_hex));
  const b = keys.createKeyPair(fromHex(vector.secret_b_hex));
  assert.equal(toHex(a.publicKey), vector.public_a_hex);
  assert.equal(toHex(b.publicKey), vector.public_b_hex);
  for (const [mine, theirs] of [
    [a, b],
    [b, a],
  ] as const) {
    assert.equal(toHex(keys.sharedSecret(mine.secretKey, theirs.publicKey)), vector.shared_hex);
    for (const { context, key_hex } of vector.session_keys) {
      assert.equal(toHex(keys.agreeKey(mine.secretKey, theirs.publicKey, context)), key_hex);
    }
  }
}

export interface LowOrderCase {
  readonly secret_hex: string;
  readonly peer_public_hex: string;
}

export function checkLowOrder(
  { sharedSecret, agreeKey, isProtocolError }: KeyFunctions,
  vector: LowOrderCase,
): void {
  const [secret, peer] = [fromHex(vector.secret_hex), fromHex(vector.peer_public_hex)];
  assert.throws(() => sharedSecret(secret, peer), isProtocolError);
  assert.throws(() => agreeKey(secret, peer, 'any'), isProtocolError);
}
