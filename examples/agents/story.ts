/** Prints the example line by line, each with the name of the actor. */

const isTerminal = process.stdout.isTTY === true && process.env['NO_COLOR'] === undefined;
const paint = (code: string, text: string) => (isTerminal ? `\u001b[${code}m${text}\u001b[0m` : text);

const COLOURS: Readonly<Record<string, string>> = { planner: '36', lena: '33', otto: '35', server: '90' };
const WIDTH = 8;
/** Columns of the narrowest terminal. */
const COLUMNS = 80;
const INDENT = ' '.repeat(WIDTH + 4);

let failures = 0;
let expectations = 0;

export const story = {
  title: (text: string) => console.log(text),
  chapter: (title: string) => console.log(`\n${paint('1', title)}`),
  /** @param who the actor. */
  line: (who: string, text: string) =>
    console.log(`  ${paint(COLOURS[who] ?? '0', who.padStart(WIDTH))}  ${wrapped(text)}`),
  /** Prints one line piece by piece. */
  begin: (who: string, text: string) =>
    process.stdout.write(`  ${paint(COLOURS[who] ?? '0', who.padStart(WIDTH))}  ${text}`),
  more: (text: string) => process.stdout.write(text),
  end: (text = '') => console.log(text),
  /** Checks an expectation. */
  expect(what: string, holds: boolean) {
    expectations++;
    if (!holds) failures++;
    console.log(`  ${' '.repeat(WIDTH)}  ${holds ? paint('32', '✓') : paint('31', '✗')} ${paint('2', what)}`);
  },
  close: () => console.log(`\n${expectations - failures} of ${expectations} expectations held.`),
  get failures() {
    return failures;
  },
};

/** Breaks a text between words, so that it fits behind a name. */
function wrapped(text: string): string {
  const width = COLUMNS - INDENT.length;
  const lines: string[] = [];
  for (const word of text.split(' ')) {
    const line = `${lines.at(-1) ?? ''} ${word}`.trimStart();
    if (lines.length > 0 && line.length <= width) lines[lines.length - 1] = line;
    else lines.push(word);
  }
  return lines.join(`\n${INDENT}`);
}
