import { accepted, type Outcome, outcomeOf, same } from '../expect.js';
import {
  type ControlMessage,
  decodeBodyHead,
  decodeControl,
  decodeControlJson,
  decodeFailure,
  decodeLinkFrame,
  decodeMetadata,
  encodeControl,
  encodeControlJson,
  isBodyKind,
  type UnknownMessage,
} from '../subject.js';
import { seedsFrom } from './seeds.js';
import { FUZZ_LIMITS, JSON_TOKENS, type Target, textOf, tokens } from './target.js';

/** Control envelopes and the heads of link frames. */

const limits = FUZZ_LIMITS;
const GOOD: ControlMessage = { type: 'PING', sessionId: 's', timestamp: 1, payload: {} };

const NAMES = [
  ...['type', 'session_id', 'timestamp', 'payload', 'HELLO', 'ACCEPT', 'REJECT', 'DATA', 'CLOSE'],
  ...[
    'version',
    'algorithms',
    'encodings',
    'encoding',
    'preferred_encoding',
    'max_payload_size',
    'extensions',
  ],
  ...['compression', 'security', 'limits', 'auth', 'token', 'resume', 'agent_id', 'algorithm', 'content'],
  ...[
    'original_size',
    'security_status',
    'reason',
    'code',
    'M2M',
    'TOKEN_NATIVE',
    'Cl100kBase',
    '3.0',
    '1.0',
  ],
];

function envelopes(): ControlMessage[] {
  return seedsFrom('m2m-messages.json', 'json', 'input', 'hello', 'response', 'data', 'close').flatMap(
    (seed) => {
      const outcome = outcomeOf(() => decodeControlJson(textOf(seed)));
      return outcome.accepted && outcome.value.type !== 'UNKNOWN' ? [outcome.value] : [];
    },
  );
}

/** A name in MessagePack. */
function packed(name: string): Uint8Array {
  return Uint8Array.of(0xa0 | name.length, ...Buffer.from(name));
}

const binary: Target = {
  name: 'control',
  tokens: [
    ...NAMES.map(packed),
    ...[
      [0xde, 0xff, 0xff],
      [0xdf, 0xff, 0xff, 0xff, 0xff],
      [0xdd, 0xff, 0xff, 0xff, 0xff],
      [0xdb, 0x7f, 0xff, 0xff, 0xff],
    ].map((bytes) => Uint8Array.from(bytes)),
    ...[
      [0xc0],
      [0xc1],
      [0xc7, 0, 1],
      [0xd4, 0xff, 0],
      [0xcb, 0x7f, 0xf8, 0, 0, 0, 0, 0, 0],
      [0xcf, ...new Array(8).fill(0xff)],
      [0x91],
      [0x81],
    ].map((bytes) => Uint8Array.from(bytes as number[])),
  ],
  seeds: [
    ...envelopes().map((message) => encodeControl(message)),
    // A failure, and metadata: maps with other purposes.
    ...['82a4636f6465a8696e7465726e616ca76d657373616765a178', '81a3747261636563'].map(
      (hex) => new Uint8Array(Buffer.from(hex, 'hex')),
    ),
  ],
  run(input) {
    outcomeOf(() => decodeFailure(input, limits.maxJsonDepth));
    outcomeOf(() => decodeMetadata(input, limits.maxJsonDepth));
    return checked(outcomeOf(() => decodeControl(input, limits)));
  },
  recheck: () => same(decodeControl(encodeControl(GOOD)).type, 'PING', 'a good message'),
};

const json: Target = {
  name: 'control-json',
  tokens: [...JSON_TOKENS, ...tokens(...NAMES.map((name) => `"${name}"`), '1700000000000', '-1', '1e3')],
  seeds: seedsFrom('m2m-messages.json', 'json', 'input', 'hello', 'response', 'data', 'close'),
  run: (input) => checked(outcomeOf(() => decodeControlJson(textOf(input), limits))),
  recheck: () => same(decodeControlJson(encodeControlJson(GOOD)).type, 'PING', 'a good message'),
};

/** A message that was read can be written, and reads the same from then on. */
function checked(outcome: Outcome<ControlMessage | UnknownMessage>): boolean {
  if (!outcome.accepted) return true;
  const message = outcome.value;
  if (message.type === 'UNKNOWN') return false;
  // A large message may exceed the bounds of MessagePack in the handshake.
  const first = outcomeOf(() => decodeControl(encodeControl(message), limits));
  if (!first.accepted || first.value.type === 'UNKNOWN') return false;
  same(first.value.type, message.type, 'type read back');
  const { value } = first;
  const second = accepted(() => decodeControl(encodeControl(value), limits), 'the message read back');
  same(JSON.stringify(second), JSON.stringify(value), 'message written and read twice');
  return false;
}

const link: Target = {
  name: 'link-frame',
  tokens: [],
  seeds: [
    '100000',
    '1101008161786162',
    '13018061',
    '1401deadbeef',
    '1801',
    '19000a0b0c',
    '110180058161780578',
  ].map((hex) => new Uint8Array(Buffer.from(hex, 'hex'))),
  run(input) {
    const frame = outcomeOf(() => decodeLinkFrame(input));
    if (!frame.accepted) return true;
    if (!isBodyKind(frame.value.kind)) return false;
    return !outcomeOf(() => decodeBodyHead(frame.value, limits.maxMetadataSize)).accepted;
  },
  recheck: () => same(decodeLinkFrame(Uint8Array.of(0x10, 0, 0)).streamId, 0, 'a good frame'),
};

export const CONTROL_TARGETS: readonly Target[] = [binary, json, link];
