/** Texts that keep other tokenizers busy for minutes. */

const LETTERS = [...'abcdefghijklmnopqrstuvwxyz'];
const MIXED_LETTERS = [...'abcéßжяφλωשבמن中文日本語한국あア𐐀ªʰĲ'];
const DIGITS = [...'0123456789'];

/** Functions, by name, that make a text of about `bytes` UTF-8 bytes. */
export const WORST_CASES: Readonly<Record<string, (bytes: number) => string>> = {
  'one letter': repeat('a'),
  'random letters': choose(LETTERS),
  'frequent letters': choose([...'etaoinshr']),
  'mixed unicode letters': choose(MIXED_LETTERS),
  spaces: repeat(' '),
  newlines: repeat('\n'),
  dashes: repeat('-'),
  digits: choose(DIGITS),
  'one emoji sequence': repeat('👩‍👩‍👧‍👦'),
  'near-matches': repeat('abcabd'),
};

function repeat(part: string): (bytes: number) => string {
  const size = Buffer.byteLength(part);
  return (bytes) => part.repeat(Math.floor(bytes / size));
}

function choose(characters: readonly string[]): (bytes: number) => string {
  return (bytes) => {
    let state = 1;
    const chosen: string[] = [];
    for (let size = 0; size < bytes; ) {
      state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
      const character = characters[(state >>> 8) % characters.length] as string;
      chosen.push(character);
      size += Buffer.byteLength(character);
    }
    return chosen.join('');
  };
}
