import { fromHex } from '../../../packages/protocol/src/base/testing/bytes.js';
import { same } from '../expect.js';
import { checkExplanation } from '../explained.js';
import { BodyCodec, type Encoding, explainFrame, getEncoding, LinkKind, Subprotocol } from '../subject.js';
import { seedsFrom } from './seeds.js';
import { bytesOfText, FUZZ_LIMITS, JSON_TOKENS, type Target, textOf, tokens } from './target.js';

/** The explainer, which must agree with the decoders of a session on every frame. */

const limits = FUZZ_LIMITS;
const ENCODING = 'CL100K_BASE';

function encoding(): Encoding {
  const loaded = getEncoding(ENCODING);
  if (loaded === undefined) throw new Error(`${ENCODING} is not loaded`);
  return loaded;
}

/** Explains a frame in full and compares the result to the decoders. */
function explain(frame: Uint8Array | string, subprotocol: Subprotocol = Subprotocol.BINARY): boolean {
  const explanation = explainFrame(frame, { preview: 80, limits, encoding: ENCODING, subprotocol });
  checkExplanation(frame, explanation, {
    limits,
    encoding: encoding(),
    isEnvelope: subprotocol === Subprotocol.JSON,
  });
  return explanation.error !== undefined;
}

const KINDS = [LinkKind.REQUEST, LinkKind.CHUNK];
const CODECS = Object.values(BodyCodec);

/** The input as the body of a link frame: its last byte determines the kind and the codec. */
function linkFrame(input: Uint8Array): Uint8Array {
  const choice = input.at(-1) ?? 0;
  const kind = KINDS[choice % KINDS.length] as number;
  const codec = CODECS[(choice >> 1) % CODECS.length] as number;
  return Uint8Array.of(0x10 | kind, 1, codec, ...input.subarray(0, -1));
}

const binary: Target = {
  name: 'explain',
  tokens: [...tokens('#M2M|1|', '#TK|C|', 'AV', 'token', 'auth'), Uint8Array.of(0xff, 0xff, 0xff, 0xff)],
  seeds: [
    ...['100001b24d0bfd0e00', '11010302c380', '1401', '1820', '1900808040', '11018181a178017801'].map(
      fromHex,
    ),
    ...[
      '150182a4636f6465a161a76d657373616765a162',
      '84a474797065a450494e47a974696d657374616d7001',
      '00b24d',
    ].map(fromHex),
    ...seedsFrom('m2m-frame.json', 'frame_hex').slice(0, 8),
    ...seedsFrom('m2m-secure.json', 'frame_hex').slice(0, 4),
    ...seedsFrom('avp-frame.json', 'hex').slice(0, 8),
    ...seedsFrom('avp-kv-cache.json', 'hex').slice(0, 4),
  ],
  run(input) {
    explain(linkFrame(input));
    return explain(input);
  },
  recheck: () => same(explainFrame(Uint8Array.of(0x14, 1)).label, 'end', 'a good frame'),
};

const text: Target = {
  name: 'explain-text',
  tokens: [
    ...JSON_TOKENS,
    ...tokens('#M2M|1|', '#TK|C|', '#T1|', '#BR|', '#DI|', '#M2M[v2.0]|DATA:', '"token":'),
  ],
  seeds: [
    ...seedsFrom('m2m-messages.json', 'json', 'input', 'hello', 'data'),
    ...seedsFrom('m2m-legacy.json', 'wire', 'wire_C').slice(0, 12),
    ...seedsFrom('m2m-frame.json', 'encode_string').slice(0, 4),
    bytesOfText('{"type":"HELLO","session_id":null,"timestamp":1,"payload":{"auth":{"token":"x"}}}'),
  ],
  run(input) {
    explain(textOf(input), Subprotocol.JSON);
    return explain(textOf(input));
  },
  recheck: () => same(explainFrame('plain').kind, 'content', 'plain text'),
};

export const EXPLAIN_TARGETS: readonly Target[] = [binary, text];
