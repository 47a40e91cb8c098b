import type { Seen, SentFrame } from './frames.js';

/**
 * The cases of sections 1 to 7 of the Autobahn test suite, by their numbers there, as what the client sends and what the
 * server reads. If a case says that a server may find a fault earlier (6.4), the server here finds it when the message
 * ends.
 */

export interface AutobahnCase {
  readonly id: string;
  readonly sent: readonly SentFrame[];
  /** In which pieces the bytes arrive: all at once, each frame by itself, or so many bytes. */
  readonly pieces: 'all' | 'frames' | number;
  readonly seen: readonly Seen[];
}

const CONTINUATION = 0;
const TEXT = 1;
const BINARY = 2;
const CLOSE = 8;
const PING = 9;
const PONG = 10;

const HELLO = 'Hello, world!';
const ODD_BYTES = Buffer.from('00fffefdfcfb00ff', 'hex');
const ENDS: readonly Seen[] = [['close', 1000, '']];
const PROTOCOL_ERROR: Seen = ['violation', 1002];
const NOT_UTF8: Seen = ['violation', 1007];

const hex = (payload: string | Uint8Array) => Buffer.from(payload).toString('hex');
const close = (code: number, reason: string | Uint8Array = ''): SentFrame => {
  const head = Buffer.alloc(2);
  head.writeUInt16BE(code);
  return { opcode: CLOSE, payload: Buffer.concat([head, Buffer.from(reason)]) };
};
const END = close(1000);

type Pieces = AutobahnCase['pieces'];
const cases: AutobahnCase[] = [];
const add = (id: string, pieces: Pieces, sent: readonly SentFrame[], seen: readonly Seen[]) =>
  cases.push({ id, pieces, sent, seen });
/** A case that the client ends with a close. */
const passes = (id: string, pieces: Pieces, sent: readonly SentFrame[], seen: readonly Seen[]) =>
  add(id, pieces, [...sent, END], [...seen, ...ENDS]);
/** A message in as many frames as it has payloads. */
const fragments = (opcode: number, ...payloads: (string | Uint8Array)[]): SentFrame[] =>
  payloads.map((payload, at) => ({
    opcode: at === 0 ? opcode : CONTINUATION,
    payload,
    isFinal: at === payloads.length - 1,
  }));
const bytesOf = (bytes: Uint8Array) => [...bytes].map((byte) => Uint8Array.of(byte));

// --- 1. Framing

const SIZES: readonly (readonly [number, Pieces])[] = [
  [0, 'all'],
  [125, 'all'],
  [126, 'all'],
  [127, 'all'],
  [128, 'all'],
  [65_535, 'all'],
  [65_536, 'all'],
  [65_536, 997],
];
for (const [at, [size, pieces]] of SIZES.entries()) {
  const text = '*'.repeat(size);
  passes(`1.1.${at + 1}`, pieces, [{ opcode: TEXT, payload: text }], [['text', text]]);
  const bytes = Buffer.alloc(size, 0xfe);
  passes(`1.2.${at + 1}`, pieces, [{ opcode: BINARY, payload: bytes }], [['binary', hex(bytes)]]);
}

// --- 2. Pings and pongs

const ping = (payload: string | Uint8Array = ''): SentFrame => ({ opcode: PING, payload });
const pong = (payload: string | Uint8Array = ''): SentFrame => ({ opcode: PONG, payload });
const MOST = Buffer.alloc(125, 0xfe);
const TEN = Array.from({ length: 10 }, (_, at) => `payload-${at}`);
passes('2.1', 'all', [ping()], [['ping', '']]);
passes('2.2', 'all', [ping(HELLO)], [['ping', hex(HELLO)]]);
passes('2.3', 'all', [ping(ODD_BYTES)], [['ping', hex(ODD_BYTES)]]);
passes('2.4', 'all', [ping(MOST)], [['ping', hex(MOST)]]);
add('2.5', 'all', [ping(Buffer.alloc(126, 0xfe))], [PROTOCOL_ERROR]);
passes('2.6', 1, [ping(MOST)], [['ping', hex(MOST)]]);
passes('2.7', 'all', [pong()], [['pong']]);
passes('2.8', 'all', [pong('unsolicited pong payload')], [['pong']]);
passes(
  '2.9',
  'all',
  [pong('unsolicited pong payload'), ping('ping payload')],
  [['pong'], ['ping', hex('ping payload')]],
);
passes(
  '2.10',
  'all',
  TEN.map(ping),
  TEN.map((each) => ['ping', hex(each)] as const),
);
passes(
  '2.11',
  1,
  TEN.map(ping),
  TEN.map((each) => ['ping', hex(each)] as const),
);

// --- 3. Reserved bits

const hello: SentFrame = { opcode: TEXT, payload: HELLO };
const READ: Seen = ['text', HELLO];
add('3.1', 'all', [{ ...hello, reserved: 1 }], [PROTOCOL_ERROR]);
add('3.2', 'all', [hello, { ...hello, reserved: 2 }, ping()], [READ, PROTOCOL_ERROR]);
add('3.3', 'frames', [hello, { ...hello, reserved: 3 }, ping()], [READ, PROTOCOL_ERROR]);
add('3.4', 1, [hello, { ...hello, reserved: 4 }, ping()], [READ, PROTOCOL_ERROR]);
add('3.5', 'all', [{ opcode: BINARY, payload: ODD_BYTES, reserved: 5 }], [PROTOCOL_ERROR]);
add('3.6', 'all', [{ ...ping(HELLO), reserved: 6 }], [PROTOCOL_ERROR]);
add('3.7', 'all', [{ opcode: CLOSE, reserved: 7 }], [PROTOCOL_ERROR]);

// --- 4. Reserved opcodes

for (const [section, first] of [
  ['4.1', 3],
  ['4.2', 11],
] as const) {
  add(`${section}.1`, 'all', [{ opcode: first }], [PROTOCOL_ERROR]);
  add(`${section}.2`, 'all', [{ opcode: first + 1, payload: HELLO }], [PROTOCOL_ERROR]);
  add(`${section}.3`, 'all', [hello, { opcode: first + 2 }, ping()], [READ, PROTOCOL_ERROR]);
  add(`${section}.4`, 'all', [hello, { opcode: first + 3, payload: HELLO }, ping()], [READ, PROTOCOL_ERROR]);
  add(`${section}.5`, 1, [hello, { opcode: first + 4, payload: HELLO }, ping()], [READ, PROTOCOL_ERROR]);
}

// --- 5. Fragments

const [ONE, TWO, THREE] = ['fragment1', 'fragment2', 'fragment3'] as const;
const TWO_READ: Seen = ['text', `${ONE}${TWO}`];
add('5.1', 'all', fragments(PING, ONE, TWO), [PROTOCOL_ERROR]);
add('5.2', 'all', fragments(PONG, ONE, TWO), [PROTOCOL_ERROR]);
for (const [at, pieces] of (['all', 'frames', 1] as const).entries()) {
  const [first, second] = fragments(TEXT, ONE, TWO) as [SentFrame, SentFrame];
  passes(`5.${3 + at}`, pieces, [first, second], [TWO_READ]);
  passes(
    `5.${6 + at}`,
    pieces,
    [first, ping('ping payload'), second],
    [['ping', hex('ping payload')], TWO_READ],
  );
  const lone = { opcode: CONTINUATION, payload: 'non-continuation payload' };
  add(`5.${9 + at}`, pieces, [lone, hello], [PROTOCOL_ERROR]);
  add(`5.${12 + at}`, pieces, [{ ...lone, isFinal: false }, hello], [PROTOCOL_ERROR]);
}
const lone = (isFinal: boolean): SentFrame => ({ opcode: CONTINUATION, payload: THREE, isFinal });
add('5.15', 'all', [...fragments(TEXT, ONE, TWO), lone(false), hello], [TWO_READ, PROTOCOL_ERROR]);
for (const [id, isFinal] of [
  ['5.16', false],
  ['5.17', true],
] as const) {
  const once = [lone(isFinal), ...fragments(TEXT, ONE, TWO)];
  add(id, 'all', [...once, ...once], [PROTOCOL_ERROR]);
}
add(
  '5.18',
  'all',
  [
    { opcode: TEXT, payload: ONE, isFinal: false },
    { opcode: TEXT, payload: TWO },
  ],
  [PROTOCOL_ERROR],
);
for (const [id, pieces] of [
  ['5.19', 'all'],
  ['5.20', 'frames'],
] as const) {
  const parts = ['fragment1', 'fragment2', 'fragment3', 'fragment4', 'fragment5'];
  const [a, b, c, d, e] = fragments(TEXT, ...parts) as [
    SentFrame,
    SentFrame,
    SentFrame,
    SentFrame,
    SentFrame,
  ];
  const seen: Seen[] = [
    ['ping', hex('pongme 1!')],
    ['ping', hex('pongme 2!')],
    ['text', parts.join('')],
  ];
  passes(id, pieces, [a, b, ping('pongme 1!'), c, d, ping('pongme 2!'), e], seen);
}

// --- 6. UTF-8

const KOSME = Buffer.from('cebae1bdb9cf83cebcceb5', 'hex');
const UMLAUTS = 'Hello-µ@ßöäüàá-UTF-8!!';
passes('6.1.1', 'all', fragments(TEXT, ''), [['text', '']]);
passes('6.1.2', 'all', fragments(TEXT, '', '', ''), [['text', '']]);
passes('6.1.3', 'all', fragments(TEXT, '', 'middle frame payload', ''), [['text', 'middle frame payload']]);
passes('6.2.1', 'all', fragments(TEXT, UMLAUTS), [['text', UMLAUTS]]);
passes('6.2.2', 'all', fragments(TEXT, 'Hello-µ@ßöä', 'üàá-UTF-8!!'), [['text', UMLAUTS]]);
passes('6.2.3', 'all', fragments(TEXT, ...bytesOf(Buffer.from(UMLAUTS))), [['text', UMLAUTS]]);
passes('6.2.4', 'all', fragments(TEXT, ...bytesOf(KOSME)), [['text', KOSME.toString('utf8')]]);
const SURROGATE = Buffer.concat([KOSME, Buffer.from('eda080', 'hex'), Buffer.from('edited')]);
add('6.3.1', 'all', fragments(TEXT, SURROGATE), [NOT_UTF8]);
add('6.3.2', 'all', fragments(TEXT, ...bytesOf(SURROGATE)), [NOT_UTF8]);
const BEYOND = Buffer.concat([KOSME, Buffer.from('f4908080', 'hex'), Buffer.from('edited')]);
const cutAt = (bytes: Buffer, first: number, second: number) =>
  [bytes.subarray(0, first), bytes.subarray(first, second), bytes.subarray(second)] as const;
add('6.4.1', 'frames', fragments(TEXT, ...cutAt(BEYOND, 11, 15)), [NOT_UTF8]);
add('6.4.2', 'frames', fragments(TEXT, ...cutAt(BEYOND, 12, 13)), [NOT_UTF8]);
add('6.4.3', 17, fragments(TEXT, BEYOND), [NOT_UTF8]);
add('6.4.4', 18, fragments(TEXT, BEYOND), [NOT_UTF8]);

const SEQUENCES: readonly (readonly string[])[] = [
  // 6.5 some that are valid
  ['hello$world', 'hello¢world', 'hello€world', 'hello\u{24b62}world', KOSME].map(hex),
  // 6.6 each prefix of a text
  Array.from(KOSME, (_, at) => hex(KOSME.subarray(0, at + 1))),
  // 6.7 the first, and 6.9 the last of each length; 6.8 and 6.10 the same of lengths and numbers that are invalid
  ['00', 'c280', 'e0a080', 'f0908080'],
  ['f888808080', 'fc8480808080'],
  ['7f', 'dfbf', 'efbfbf', 'f48fbfbf'],
  ['f7bfbfbf', 'fbbfbfbfbf', 'fdbfbfbfbfbf'],
  // 6.11 at other bounds
  ['ed9fbf', 'ee8080', 'efbfbd', 'f48fbfbf', 'f4908080'],
  // 6.12 continuations of nothing
  [
    ...['80', 'bf', '80bf', '80bf80', '80bf80bf', '80bf80bf80', '80bf80bf80bf'],
    hex(Uint8Array.from({ length: 63 }, (_, at) => 0x80 + at)),
  ],
  // 6.13 first bytes alone
  (
    [
      [0xc0, 0xdf],
      [0xe0, 0xef],
      [0xf0, 0xf7],
      [0xf8, 0xfb],
      [0xfc, 0xfd],
    ] as const
  ).map(([from, to]) =>
    hex(Uint8Array.from({ length: 2 * (to - from) }, (_, at) => (at % 2 === 0 ? from + at / 2 : 0x20))),
  ),
  // 6.14 without the last byte, and 6.15 all of those
  ['c0', 'e080', 'f08080', 'f8808080', 'fc80808080', 'df', 'efbf', 'f7bfbf', 'fbbfbfbf', 'fdbfbfbfbf'],
  ['c0e080f08080f8808080fc80808080dfefbff7bfbffbbfbfbffdbfbfbfbf'],
  // 6.16 bytes that never occur
  ['fe', 'ff', 'fefeffff'],
  // 6.17 a slash, 6.18 the largest number and 6.19 a zero in more bytes than needed
  ['c0af', 'e080af', 'f08080af', 'f8808080af', 'fc80808080af'],
  ['c1bf', 'e09fbf', 'f08fbfbf', 'f887bfbfbf', 'fc83bfbfbfbf'],
  ['c080', 'e08080', 'f0808080', 'f880808080', 'fc8080808080'],
  // 6.20 surrogates, and 6.21 pairs of them
  ['eda080', 'edadbf', 'edae80', 'edafbf', 'edb080', 'edbe80', 'edbfbf'],
  ['eda080', 'edadbf', 'edae80', 'edafbf'].flatMap((high) => [`${high}edb080`, `${high}edbfbf`]),
  // 6.22 the last two numbers of each plane, which are valid
  Array.from({ length: 17 }, (_, plane) => [0xfffe, 0xffff].map((last) => plane * 0x10000 + last))
    .flat()
    .map((number) => hex(String.fromCodePoint(number))),
  // 6.23 special characters
  ['efbfb9', 'efbfba', 'efbfbb', 'efbfbc', 'efbfbd', 'efbfbe', 'efbfbf'],
];
/** Sequences that are not UTF-8, by section and number; in the sections that are not here all are valid. */
const INVALID: Readonly<Record<string, readonly number[] | 'all'>> = {
  '6.6': [1, 3, 4, 6, 8, 10],
  '6.8': 'all',
  '6.10': 'all',
  '6.11': [5],
  '6.12': 'all',
  '6.13': 'all',
  '6.14': 'all',
  '6.15': 'all',
  '6.16': 'all',
  '6.17': 'all',
  '6.18': 'all',
  '6.19': 'all',
  '6.20': 'all',
  '6.21': 'all',
};
for (const [at, sequences] of SEQUENCES.entries()) {
  const section = `6.${at + 5}`;
  const invalid = INVALID[section];
  for (const [index, digits] of sequences.entries()) {
    const bytes = Buffer.from(digits, 'hex');
    const id = `${section}.${index + 1}`;
    if (invalid === 'all' || invalid?.includes(index + 1)) add(id, 'all', fragments(TEXT, bytes), [NOT_UTF8]);
    else passes(id, 'all', fragments(TEXT, bytes), [['text', bytes.toString('utf8')]]);
  }
}

// --- 7. Closing

passes('7.1.1', 'all', [hello], [READ]);
add('7.1.2', 'all', [END, { opcode: CLOSE }], ENDS);
add('7.1.3', 'all', [END, ping()], ENDS);
add('7.1.4', 'all', [END, hello], ENDS);
const [begun, ended] = fragments(TEXT, ONE, TWO) as [SentFrame, SentFrame];
add('7.1.5', 'all', [begun, END, ended], ENDS);
const LONG = 'BAsd7&jh23'.repeat(26_215).slice(0, 256 * 1024);
add('7.1.6', 'all', [{ opcode: TEXT, payload: LONG }, hello, END, ping()], [['text', LONG], READ, ...ENDS]);
add('7.3.1', 'all', [{ opcode: CLOSE }], [['close', 1005, '']]);
add('7.3.2', 'all', [{ opcode: CLOSE, payload: 'a' }], [PROTOCOL_ERROR]);
add('7.3.3', 'all', [END], ENDS);
add('7.3.4', 'all', [close(1000, 'Hello World!')], [['close', 1000, 'Hello World!']]);
add('7.3.5', 'all', [close(1000, '*'.repeat(123))], [['close', 1000, '*'.repeat(123)]]);
add('7.3.6', 'all', [close(1000, '*'.repeat(124))], [PROTOCOL_ERROR]);
add('7.5.1', 'all', [close(1000, SURROGATE)], [NOT_UTF8]);
const VALID_CODES = [1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 3000, 3999, 4000, 4999];
for (const [at, code] of VALID_CODES.entries())
  add(`7.7.${at + 1}`, 'all', [close(code)], [['close', code, '']]);
const WRONG_CODES = [0, 999, 1004, 1005, 1006, 1016, 1100, 2000, 2999];
for (const [at, code] of WRONG_CODES.entries()) add(`7.9.${at + 1}`, 'all', [close(code)], [PROTOCOL_ERROR]);
add('7.13.1', 'all', [close(5000)], [PROTOCOL_ERROR]);
add('7.13.2', 'all', [close(65_535)], [PROTOCOL_ERROR]);

export const AUTOBAHN_CASES: readonly AutobahnCase[] = cases;
