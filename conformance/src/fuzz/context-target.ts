import { accepted, outcomeOf, same } from '../expect.js';
import { ContextDecoder, ContextEncoder, describeContextBody } from '../subject.js';
import { bytesOfText, FUZZ_LIMITS, type Target, tokens } from './target.js';

/** Bodies in context coding, against known bases, as a whole message and as a part of a reply. */

const PARAMETERS = { maxBytes: 4096, maxMessages: 3 };
const STREAM = 1;
const BASES = [
  '{"model":"gpt-4o","messages":[{"role":"user","content":"Hello"}]}',
  `${'the quick brown fox jumps over the lazy dog. '.repeat(20)}`,
  '',
];

/** Encoder and decoder of one direction, after the same messages. */
function createPair() {
  const encoder = new ContextEncoder(PARAMETERS);
  const decoder = new ContextDecoder(PARAMETERS, FUZZ_LIMITS.maxMessageSize);
  const pass = (text: string, isPart: boolean): void => {
    const content = bytesOfText(text);
    const offer = encoder.code(content, encoder.match(content, STREAM, isPart), isPart);
    encoder.begin(STREAM, offer);
    encoder.complete(STREAM);
    decoder.begin(STREAM, offer.bytes);
    same(Buffer.compare(decoder.complete(STREAM, offer.bytes, isPart), content), 0, 'a good body');
  };
  for (const text of BASES) pass(text, false);
  pass('{"id":1,"choices":[{"delta":{"content":"one"}}]}', true);
  return decoder;
}

function run(input: Uint8Array): boolean {
  let refused = true;
  for (const isPart of [false, true]) {
    const decoder = createPair();
    const before = decoder.state.bytes;
    const first = input.subarray(0, 2);
    const outcome = outcomeOf(() => {
      decoder.begin(STREAM, first);
      return decoder.complete(STREAM, input, isPart);
    });
    const { bases, bytes } = decoder.state;
    same(
      bytes,
      bases.reduce((sum, { content }) => sum + content.length, 0),
      'bytes that are kept',
    );
    same(bytes <= PARAMETERS.maxBytes && bases.length <= PARAMETERS.maxMessages, true, 'what is kept');
    if (!outcome.accepted) {
      same(bytes, before, 'bytes kept after a refusal');
      continue;
    }
    refused = false;
    const { length } = accepted(() => describeContextBody(input, isPart), 'the description of a good body');
    if (length !== undefined) same(length, outcome.value.length, 'the described length');
  }
  return refused;
}

const SEEDS = [
  '007e3b4bd47b226e223a317d',
  '123d04207b15f42c20776f726c64',
  '0e840700110762c220616e6420736f206f6e',
  '0f84070072e43cb628b52ffd20bf7d0200f244111880356e73d49074103b67bb7cf3860002e103ca812046d808656095bab02a7d52e019efab9ac4f1cdb2d91e376fc980e353b7dd15784e749873dd7c85a01374bc26b2eb2e01004f8b744601',
  '0128b52ffd20633d0000087a0100cfe484',
  '04200374776f',
  '0c20020000',
  '08ffffffff0f00',
  '05010128b52ffda000000040',
].map((text) => new Uint8Array(Buffer.from(text, 'hex')));

const context: Target = {
  name: 'context',
  tokens: [
    ...tokens('{"model":', 'the quick'),
    Uint8Array.of(0x28, 0xb5, 0x2f, 0xfd),
    Uint8Array.of(0x80, 0x80, 0x80, 0x01),
  ],
  seeds: SEEDS,
  run,
  recheck: () => void createPair(),
};

export const CONTEXT_TARGETS: readonly Target[] = [context];
