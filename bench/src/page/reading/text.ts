/** Text as a model writes it: headings, paragraphs, lists, tables and code, the same in each run. */

const WORDS = (
  'session answer network page server client frame reply word model question table stream window budget memory order ' +
  'reader writer token message stored resumed counted sent known late early whole short second every other same next'
).split(' ');

/** @param count words, some more to finish the last section. */
export function longText(count: number): string {
  let seed = 1;
  const pick = () => {
    seed = (seed * 48_271) % 2_147_483_647;
    return WORDS[seed % WORDS.length] as string;
  };
  const some = (n: number) => Array.from({ length: n }, pick).join(' ');
  const sentence = () => `The **${pick()}** ${some(9)} and \`${pick()}\` ${some(5)}.`;
  const paragraph = () => Array.from({ length: 4 }, sentence).join(' ');
  const list = () => Array.from({ length: 5 }, () => `- ${some(8)}`).join('\n');
  const table = () =>
    `| ${pick()} | ${pick()} |\n| --- | ---: |\n${Array.from({ length: 6 }, () => `| ${some(3)} | ${pick()} |`).join('\n')}`;
  const code = () =>
    `\`\`\`ts\n${Array.from({ length: 12 }, () => `const ${pick()} = ${pick()}(${pick()}, '${some(3)}');`).join('\n')}\n\`\`\``;
  const parts: string[] = [];
  let words = 0;
  for (let i = 0; words < count; i++) {
    const kinds = [paragraph, list, paragraph, code, paragraph, table];
    const part = i % 7 === 0 ? `## ${some(4)}` : (kinds[i % kinds.length] as () => string)();
    parts.push(part);
    words += wordsOf(part).length;
  }
  return parts.join('\n\n');
}

/** Words with the space before them, as models write them. */
export function wordsOf(text: string): string[] {
  return text.match(/\s*\S+/gu) ?? [];
}
