import { accepted, fail, holds, refused, same } from './expect.js';
import type { Family } from './family.js';
import type { Fields } from './fields.js';
import {
  decodeBase64,
  decodeTokenNative,
  decodeTokenNativeText,
  EncodingName,
  encodeTokenNative,
  encodeTokenNativeText,
  getEncoding,
  loadEncoding,
} from './subject.js';

/** Text to token IDs in the three vocabularies, and back. */
export const tokenizer: Family = {
  file: 'tokenizer.json',
  head: ['format', 'generator', 'notes'],
  sections: [{ name: 'cases', check: checkText }],
  prepare: async () => {
    for (const name of Object.values(EncodingName)) {
      // A missing vocabulary fails the cases that need it, not the run.
      await loadEncoding(name).catch(() => undefined);
    }
  },
};

const PROSE = ['text', 'name', 'note', 'covers', 'source'];

const LONE_SURROGATE = /\p{Surrogate}/u;
/**
 * White space of JavaScript and not of tiktoken, or the other way round. The vectors of LLAMA_BPE were made by a tokenizer in JavaScript,
 * which cuts other pieces there than Meta's code does; both lists of IDs decode to the text, so either may be received.
 */
const READ_DIFFERENTLY = /[\u0085\ufeff]/u;

function checkText(given: Fields): void {
  const text = given.text('text');
  const names = given.names.filter((name) => !PROSE.includes(name));
  holds(names.length > 0, 'the case names no vocabulary');
  for (const name of names) {
    const known = Object.values(EncodingName).find((encoding) => encoding === name);
    if (known === undefined) fail(`the runner does not know the vocabulary ${name}`);
    const encoding = getEncoding(known);
    if (encoding === undefined) fail(`the vocabulary ${name} is not installed`);
    if (LONE_SURROGATE.test(text)) {
      refused(() => encoding.encode(text), 'a lone surrogate');
      continue;
    }
    const ids = given.numbers(name);
    const found = accepted(() => encoding.encode(text), `${name} of the text`);
    const isOther = known === EncodingName.LLAMA_BPE && READ_DIFFERENTLY.test(text);
    if (!isOther) same([...found], ids, name);
    same(
      accepted(() => encoding.count(text), 'counting'),
      isOther ? found.length : ids.length,
      `number of tokens in ${name}`,
    );
    same(
      accepted(() => encoding.decode(found), 'decoding'),
      text,
      `text of ${name}`,
    );
    same(
      accepted(() => encoding.decode(Uint32Array.from(ids)), 'decoding'),
      text,
      `text of ${name}`,
    );
    checkFrames(text, known, isOther ? [...found] : ids);
  }
}

/** Tokenizer byte and letter of each vocabulary (protocol page, section 1). */
const MARKS = {
  CL100K_BASE: { byte: 0, letter: 'C' },
  O200K_BASE: { byte: 1, letter: 'O' },
  LLAMA_BPE: { byte: 2, letter: 'L' },
} as const satisfies Record<EncodingName, object>;

/** Both TokenNative forms carry exactly these IDs, as varints in their shortest form. */
function checkFrames(text: string, name: EncodingName, ids: readonly number[]): void {
  const { byte, letter } = MARKS[name];
  const expected = Uint8Array.of(byte, ...ids.flatMap(varint));
  const binary = accepted(() => encodeTokenNative(text, name), 'the binary form');
  same(Buffer.compare(binary, expected), 0, `binary form in ${name}`);
  const wire = accepted(() => encodeTokenNativeText(text, name), 'the text form');
  holds(wire.startsWith(`#TK|${letter}|`), `the text form of ${name} begins with #TK|${letter}|`);
  same(Buffer.compare(decodeBase64(wire.slice(6)), expected.subarray(1)), 0, `text form in ${name}`);
  for (const form of [binary, wire]) {
    const frame = accepted(() => decodeTokenNative(form), 'the form');
    same(frame.encoding, name, 'vocabulary of the form');
    same([...frame.ids], ids, 'IDs of the form');
    same(
      accepted(() => decodeTokenNativeText(form), 'the form'),
      text,
      'text of the form',
    );
  }
}

function varint(id: number): number[] {
  const bytes: number[] = [];
  for (; id >= 0x80; id = Math.floor(id / 128)) bytes.push((id % 128) | 0x80);
  return [...bytes, id];
}
