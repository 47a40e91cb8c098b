/**
 * Takes the sentences of errors out of code that every page loads. In place of the text that an error is made with, the
 * code gets a call of `say` with the number of the sentence and its values; the texts become a table, which pages load
 * later. `packages/protocol/src/base/sentences-web.ts` puts both together again.
 */

/** What makes an error, and which of its arguments is the sentence. */
const SENTENCES = new Map([
  ['ProtocolError', 1],
  ['RequestError', 1],
  ['toProtocolError', 2],
  ['bad', 1],
  ['invalid', 0],
  ['wrongRole', 0],
  ['assert', 1],
]);

/** Shorter texts take as much room as their number. */
const MIN_LENGTH = 16;

export class SentenceTable {
  #numbers = new Map();

  /** @returns the number of the sentence with these texts between its values; equal ones have the same. */
  numberOf(texts) {
    const key = JSON.stringify(texts);
    const known = this.#numbers.get(key);
    if (known !== undefined) return known;
    const number = this.#numbers.size;
    this.#numbers.set(key, number);
    return number;
  }

  /** The module that pages load. */
  get code() {
    return `export const sentences = [\n${[...this.#numbers.keys()].join(',\n')}\n];\n`;
  }
}

/**
 * @param code of a module, as `tsc` writes it.
 * @param parse gives its ESTree.
 * @param sayFrom the module with `say`, as this one names it.
 * @returns the code without its sentences.
 */
export function takeSentences(code, parse, table, sayFrom) {
  const edits = [];
  visit(parse(code), (node) => {
    if (node.type !== 'NewExpression' && node.type !== 'CallExpression') return;
    const at = node.callee.type === 'Identifier' ? SENTENCES.get(node.callee.name) : undefined;
    const argument = at === undefined ? undefined : node.arguments[at];
    if (argument !== undefined) takeFrom(argument);
  });

  function takeFrom(node) {
    if (node.type === 'ConditionalExpression') {
      takeFrom(node.consequent);
      takeFrom(node.alternate);
      return;
    }
    const sentence = sentenceOf(node);
    if (sentence === undefined || sentence.texts.join('').length < MIN_LENGTH) return;
    const values = sentence.values.map(({ start, end }) => `, ${code.slice(start, end)}`);
    const text = `say(${table.numberOf(sentence.texts)}${values.join('')})`;
    edits.push({ start: node.start, end: node.end, text });
  }

  if (edits.length === 0) return code;
  let rest = code;
  for (const { start, end, text } of edits.sort((a, b) => b.start - a.start))
    rest = rest.slice(0, start) + text + rest.slice(end);
  return `import { say } from '${sayFrom}';\n${rest}`;
}

/** The texts and values of a string or a template; `undefined` for anything else. */
function sentenceOf(node) {
  if (node.type === 'Literal' && typeof node.value === 'string') return { texts: [node.value], values: [] };
  if (node.type !== 'TemplateLiteral') return undefined;
  return { texts: node.quasis.map(({ value }) => value.cooked), values: node.expressions };
}

function visit(node, enter) {
  if (Array.isArray(node)) {
    for (const each of node) visit(each, enter);
    return;
  }
  if (typeof node !== 'object' || node === null) return;
  if (typeof node.type === 'string') enter(node);
  for (const value of Object.values(node)) visit(value, enter);
}
