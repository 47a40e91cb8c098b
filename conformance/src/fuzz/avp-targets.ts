import { accepted, outcomeOf, same } from '../expect.js';
import {
  canonicalJson,
  decodeAvp,
  decodeAvpHello,
  decodeAvpTextMessage,
  decodeKvCache,
  encodeAvp,
  encodeAvpHello,
  encodeAvpTextMessage,
  encodeKvCache,
  modelIdentity,
  parseLosslessJson,
  readAvpHeader,
} from '../subject.js';
import { seedsFrom } from './seeds.js';
import { FUZZ_LIMITS, JSON_TOKENS, type Target, textOf, tokens } from './target.js';

/** AVP frames, KV-cache bodies, and the JSON of the handshake. */

const MAX = FUZZ_LIMITS.maxMessageSize;
const GOOD = {
  data: new Float32Array(4),
  shape: [4],
  dtype: 'float32',
  payloadType: 'hidden_state',
} as const;

const frame: Target = {
  name: 'avp',
  tokens: [
    ...tokens('AV', 'zstd'),
    Uint8Array.of(0x28, 0xb5, 0x2f, 0xfd),
    Uint8Array.of(0x78, 0xff, 0xff, 0xff, 0xff, 0x0f),
  ],
  seeds: [...seedsFrom('avp-frame.json', 'hex'), ...seedsFrom('avp-invalid.json', 'hex')],
  run(input) {
    const options = { maxSize: MAX, maxDecompressedSize: MAX };
    outcomeOf(() => readAvpHeader(input));
    const lenient = outcomeOf(() => decodeAvp(input, { ...options, lenient: true }));
    if (lenient.accepted) outcomeOf(() => lenient.value.toTyped());
    const strict = outcomeOf(() => decodeAvp(input, options));
    if (!strict.accepted) return true;

    const message = strict.value;
    same(lenient.accepted, true, 'lenient acceptance of a strictly valid frame');
    outcomeOf(() => [...decodeKvCache(message)]);
    const relayed = accepted(
      () => encodeAvp(message, { checksum: message.checksum !== undefined }),
      'relaying',
    );
    const again = accepted(() => decodeAvp(relayed, options), 'the relayed frame');
    same(Buffer.compare(again.data, message.data), 0, 'payload of the relayed frame');
    same(
      [...again.metadata.extra].toSorted(),
      [...message.metadata.extra].toSorted(),
      'extra of the relayed frame',
    );
    same(again.metadata.unknownFields, message.metadata.unknownFields, 'unknown fields of the relayed frame');
    return false;
  },
  recheck: () =>
    same(accepted(() => decodeAvp(encodeAvp(GOOD)), 'a good frame').data.length, 16, 'a good frame'),
};

const GOOD_CACHE = encodeKvCache([{ key: new Uint8Array(8), value: new Uint8Array(8) }], {
  numKvHeads: 1,
  headDim: 2,
  seqLen: 2,
  dtype: 'float16',
});

const kvCache: Target = {
  name: 'kv-cache',
  tokens: [],
  seeds: seedsFrom('avp-kv-cache.json', 'hex', 'header_hex'),
  run(input) {
    const outcome = outcomeOf(() => decodeKvCache(input));
    if (!outcome.accepted) return true;
    const cache = outcome.value;
    const layers = [...cache].map(({ key, value }) => ({ key: key.data, value: value.data }));
    const again = accepted(() => encodeKvCache(layers, cache), 'the layers');
    same(Buffer.compare(again, input), 0, 'the body written again');
    return false;
  },
  recheck: () => same([...decodeKvCache(GOOD_CACHE)].length, 1, 'a good KV-cache'),
};

const identity: Target = {
  name: 'avp-identity',
  tokens: [
    ...JSON_TOKENS,
    ...tokens(
      '"identity":',
      '"hidden_dim":',
      '"capabilities":{}',
      '"extra":{}',
      '"hidden_size":',
      '"n_head":0',
    ),
    ...tokens('Infinity', '-Infinity', 'NaN', '1e16', '1E-7', '123456789012345678901234567890', '-0.0'),
  ],
  seeds: seedsFrom('avp-handshake.json', 'input_json', 'config_json', 'json_as_sent', 'to_json', 'canonical'),
  run(input) {
    const text = textOf(input);
    const hello = outcomeOf(() => decodeAvpHello(text));
    if (hello.accepted) {
      const again = accepted(() => decodeAvpHello(encodeAvpHello(hello.value)), 'the introduction');
      same(plain(again), plain(hello.value), 'introduction read back');
    }
    const message = outcomeOf(() => decodeAvpTextMessage(text));
    if (message.accepted) {
      const again = accepted(() => decodeAvpTextMessage(encodeAvpTextMessage(message.value)), 'the message');
      same(plain(again), plain(message.value), 'message read back');
    }
    const model = outcomeOf(() => modelIdentity(text));
    const canonical = outcomeOf(() => canonicalJson(parseLosslessJson(text)));
    if (canonical.accepted) {
      const again = accepted(() => canonicalJson(parseLosslessJson(canonical.value)), 'canonical JSON');
      same(again, canonical.value, 'canonical form of the canonical form');
    }
    return !hello.accepted && !message.accepted && !model.accepted;
  },
  recheck: () => same(modelIdentity('{"hidden_size":8}').hiddenDim, 8, 'a good config'),
};

/** A copy without undefined fields. */
function plain(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value));
}

export const AVP_TARGETS: readonly Target[] = [frame, kvCache, identity];
