import { accepted, fail, holds, refused, same } from './expect.js';
import type { Family } from './family.js';
import type { Fields } from './fields.js';
import { decodeTokenIds, EncodingName, getEncoding, loadEncoding } from './subject.js';

/** Text to token IDs in the three vocabularies, and back. */
export const tokenizer: Family = {
  file: 'tokenizer.json',
  head: ['format', 'generator', 'notes'],
  sections: [{ name: 'cases', check: checkText }],
  prepare: async () => {
    for (const name of Object.values(EncodingName)) {
      // A vocabulary that cannot be had fails the cases that need it, not the run.
      await loadEncoding(name).catch(() => undefined);
    }
  },
};

const PROSE = ['text', 'name', 'note', 'covers', 'source'];

const LONE_SURROGATE = /\p{Surrogate}/u;

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
    same([...accepted(() => encoding.encode(text), `${name} of the text`)], ids, name);
    same(
      accepted(() => encoding.count(text), 'counting'),
      ids.length,
      `number of tokens in ${name}`,
    );
    const varints = accepted(() => encoding.encodeVarints(text), 'the varints');
    same([...decodeTokenIds(varints)], ids, `varints of ${name}`);
    same(
      accepted(() => encoding.decode(Uint32Array.from(ids)), 'decoding'),
      text,
      `text of ${name}`,
    );
  }
}
