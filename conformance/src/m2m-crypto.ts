import { toHex } from '../../packages/protocol/src/base/testing/bytes.js';
import { accepted, holds, outcomeOf, refused, same } from './expect.js';
import type { Family } from './family.js';
import type { Fields } from './fields.js';
import {
  agreeKey,
  createKeyPair,
  cryptoSuite,
  deriveKey,
  keyFromHex,
  keyPath,
  sharedSecret,
} from './subject.js';

/** Primitives, the key hierarchy and key exchange (protocol page, section 7). */
export const m2mCrypto: Family = {
  file: 'm2m-crypto.json',
  head: ['_meta'],
  sections: [
    { name: 'hkdf', check: checkHkdf },
    { name: 'hmac', check: checkHmac },
    { name: 'aead', check: checkAead },
    { name: 'hierarchy', check: checkHierarchy },
    { name: 'id_validation', check: checkId },
    { name: 'path_collisions', check: checkPathCollisions },
    { name: 'key_from_hex', check: checkKeyFromHex },
    { name: 'keyring', check: checkKeyring },
    { name: 'x25519', check: checkExchange },
    { name: 'x25519_low_order', check: checkLowOrder },
  ],
};

function checkHkdf(given: Fields): void {
  // A case about the length alone gives no key.
  const ikm = given.maybe('hex', 'ikm_hex') ?? new Uint8Array(32);
  const info = given.maybe('hex', 'info_hex') ?? new Uint8Array(0);
  const derive = () => cryptoSuite.hkdfSha256(ikm, info, given.number('length'));
  if (given.has('expected')) {
    given.word('expected', ['error']);
    refused(derive, 'HKDF');
  } else same(toHex(accepted(derive, 'HKDF')), given.text('okm_hex'), 'okm_hex');
}

function checkHmac(given: Fields): void {
  const tag = toHex(cryptoSuite.hmacSha256(given.hex('key_hex'), given.hex('data_hex')));
  same(tag, given.text('tag_hex'), 'tag_hex');
  if (given.has('sign_hex')) same(given.text('data_hex') + tag, given.text('sign_hex'), 'sign_hex');
}

function checkAead(given: Fields): void {
  const { seal, open } = cryptoSuite.chacha20poly1305;
  const [key, nonce, aad] = [given.hex('key_hex'), given.hex('nonce_hex'), given.hex('aad_hex')];
  const sealed = accepted(() => seal(key, nonce, given.hex('plaintext_hex'), aad), 'sealing');
  same(given.text('nonce_hex') + toHex(sealed), given.text('output_hex'), 'output_hex');
  same(toHex(sealed.slice(-16)), given.text('tag_hex'), 'tag_hex');
  same(
    toHex(accepted(() => open(key, nonce, sealed, aad), 'opening')),
    given.text('plaintext_hex'),
    'plaintext_hex',
  );
  same(given.flag('wrong_aad_fails'), true, 'wrong_aad_fails');
  refused(() => open(key, nonce, sealed, Uint8Array.of(...aad, 0)), 'opening with other associated data');
}

/** An ID that certainly conforms to our own rules. */
const ID = /^[A-Za-z0-9_-]{1,128}$/;

function checkHierarchy(given: Fields): void {
  const master = given.hex('master_hex');
  const org = given.text('org_id');
  const derived = (secret: Uint8Array, info: string, expected: string): Uint8Array => {
    const key = accepted(() => deriveKey(secret, info), `the key ${info}`);
    same(toHex(key), expected, `the key ${info}`);
    return key;
  };
  const checkPath = (path: () => string, info: string) =>
    same(accepted(path, `the path ${info}`), info, 'path');

  const orgKey = derived(master, given.object('org').text('info'), given.object('org').text('key_hex'));
  checkPath(() => keyPath.organisation(org), given.object('org').text('info'));
  derived(master, given.object('shared').text('info'), given.object('shared').text('key_hex'));
  checkPath(() => keyPath.shared(org), given.object('shared').text('info'));

  for (const agent of given.objects('agents')) {
    const id = agent.text('agent_id');
    const agentKey = derived(master, agent.text('info'), agent.text('key_hex'));
    checkPath(() => keyPath.agent(org, id), agent.text('info'));
    for (const use of agent.objects('purposes')) {
      const purpose = use.word('purpose', ['identity', 'encryption', 'authentication', 'session']);
      checkPath(() => keyPath.agent(org, id, purpose), use.text('info'));
      derived(master, use.text('info'), use.text('hierarchy_key_hex'));
      derived(agentKey, use.text('info'), use.text('agent_context_key_hex'));
    }
  }
  for (const session of given.objects('sessions')) {
    derived(master, session.text('info'), session.text('hierarchy_key_hex'));
    derived(orgKey, session.text('info'), session.text('agent_context_key_hex'));
    const [a, b, id] = [session.text('agent_a'), session.text('agent_b'), session.text('session_id')];
    const path = outcomeOf(() => keyPath.session(org, a, b, id));
    // The reference never checks a session ID, so some of its paths stand for two keys at once.
    if (path.accepted) same(path.value, session.text('info'), 'path');
    else holds(![a, b, id].every((name) => ID.test(name)), `the path of session ${id} was refused`);
  }
}

const RESERVED = ['shared', 'session'];

function checkId(given: Fields): void {
  const id = given.text('id');
  for (const [name, path] of [
    ['agent', () => keyPath.agent('org', id)],
    ['org', () => keyPath.organisation(id)],
  ] as const) {
    // The reference accepts reserved words, and derives another key from them.
    if (given.text(name) !== 'ok' || RESERVED.includes(id)) refused(path, `the id as ${name}`);
    else accepted(path, `the id as ${name}`);
  }
}

/** Two names that the reference accepts for the same key: our rules accept none of them. */
function checkPathCollisions(given: Fields): void {
  const claims = given.names.filter((name) => typeof given.raw(name) === 'boolean');
  holds(claims.length > 0, 'the case contains no claims');
  const names = claims.flatMap((claim) =>
    [...claim.matchAll(/'([^']+)'/g)].map((match) => match[1] as string),
  );
  for (const id of [...RESERVED, ...names]) refused(() => keyPath.agent('org', id), `an agent named ${id}`);
}

function checkKeyFromHex(given: Fields): void {
  const text = given.text('hex');
  if (given.flag('ok')) same(toHex(accepted(() => keyFromHex(text), 'the key')), text.toLowerCase(), 'key');
  else refused(() => keyFromHex(text), 'the key');
}

function checkKeyring(given: Fields): void {
  const info = given.text('info');
  same(`m2m-v1|${given.text('context')}|${given.text('session_id')}`, info, 'info');
  const key = accepted(() => deriveKey(given.hex('default_key_hex'), info), 'the session key');
  same(toHex(key), given.text('key_hex'), 'key_hex');
}

function checkExchange(given: Fields): void {
  const pairs = ['a', 'b'].map((name) => {
    const pair = accepted(() => createKeyPair(given.hex(`secret_${name}_hex`)), `the key pair ${name}`);
    same(toHex(pair.publicKey), given.text(`public_${name}_hex`), `public_${name}_hex`);
    return pair;
  });
  for (const [i, { secretKey }] of pairs.entries()) {
    const peer = given.hex(`public_${i === 0 ? 'b' : 'a'}_hex`);
    same(
      toHex(accepted(() => sharedSecret(secretKey, peer), 'the exchange')),
      given.text('shared_hex'),
      'shared_hex',
    );
    for (const session of given.objects('session_keys')) {
      const key = accepted(() => agreeKey(secretKey, peer, session.text('context')), 'the session key');
      same(toHex(key), session.text('key_hex'), `session key ${session.text('context')}`);
    }
  }
}

function checkLowOrder(given: Fields): void {
  holds(given.text('expected').startsWith('error'), 'a public key of low order must be expected to fail');
  const [secret, peer] = [given.hex('secret_hex'), given.hex('peer_public_hex')];
  refused(() => sharedSecret(secret, peer), 'a public key of low order');
  refused(() => agreeKey(secret, peer, 'any'), 'a public key of low order');
}
