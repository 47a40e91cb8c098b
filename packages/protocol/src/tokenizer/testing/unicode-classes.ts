import { Tiktoken } from 'tiktoken';

/**
 * The classes of all code points according to the regular expressions of three implementations. The generated
 * table is made from them and compared with them.
 *
 * tiktoken itself supplies its classes: with a vocabulary of single bytes and a property as its pattern, it
 * returns exactly the characters with that property.
 */

const CODE_POINTS = 0x110000;

/** Class letters of `unicode.ts` with their properties; characters with none of them are O. */
export const CLASS_PROPERTIES = [
  ['S', '\\p{White_Space}', '\\s'],
  ['N', '\\p{N}', '\\p{N}'],
  ['U', '[\\p{Lu}\\p{Lt}]', '[\\p{Lu}\\p{Lt}]'],
  ['L', '\\p{Ll}', '\\p{Ll}'],
  ['X', '[\\p{Lm}\\p{Lo}]', '[\\p{Lm}\\p{Lo}]'],
  ['M', '\\p{M}', '\\p{M}'],
] as const;

export const isSurrogate = (codePoint: number) => codePoint >= 0xd800 && codePoint <= 0xdfff;

/** The class letters of all code points according to this Node's regular expressions. */
export function classesOfNode(): string[] {
  const letters = new Array<string>(CODE_POINTS).fill('O');
  for (const [letter, property] of CLASS_PROPERTIES) {
    const pattern = new RegExp(property, 'u');
    for (let codePoint = 0; codePoint < CODE_POINTS; codePoint++) {
      if (pattern.test(String.fromCodePoint(codePoint))) letters[codePoint] = letter;
    }
  }
  return withNewlines(letters);
}

/** The same, with white space according to JavaScript's `\s`. */
export function classesOfJavaScript(node: readonly string[]): string[] {
  const letters = [...node];
  for (let codePoint = 0; codePoint < CODE_POINTS; codePoint++) {
    const isSpace = /\s/u.test(String.fromCodePoint(codePoint));
    if (isSpace) letters[codePoint] = 'S';
    else if (letters[codePoint] === 'S') letters[codePoint] = 'O';
  }
  return withNewlines(letters);
}

/** The same according to tiktoken. Surrogates, which cannot be passed to it, are O. */
export function classesOfTiktoken(): string[] {
  const letters = new Array<string>(CODE_POINTS).fill('O');
  const bytes = Array.from({ length: 256 }, (_, byte) => Buffer.of(byte).toString('base64'));
  let all = '';
  for (let codePoint = 0; codePoint < CODE_POINTS; codePoint++) {
    if (!isSurrogate(codePoint)) all += String.fromCodePoint(codePoint);
  }
  for (const [letter, , property] of CLASS_PROPERTIES) {
    const tokenizer = new Tiktoken(`! 0 ${bytes.join(' ')}`, {}, property);
    const matched = Buffer.from(tokenizer.encode_ordinary(all)).toString('utf8');
    tokenizer.free();
    for (const character of matched) letters[character.codePointAt(0) as number] = letter;
  }
  return withNewlines(letters);
}

function withNewlines(letters: string[]): string[] {
  letters[0x0a] = 'R';
  letters[0x0d] = 'R';
  return letters;
}
