import { readdirSync, readFileSync } from 'node:fs';

const FOLDER = 'docs/adr';

/** The decisions, newest first, by their headings. @throws {Error} for a file without a number and a title. */
export function decisionList(): readonly (readonly [string, string])[] {
  const files = readdirSync(FOLDER).filter((name) => name !== 'README.md');
  const lines = files.sort().map((name) => {
    const [heading = ''] = readFileSync(`${FOLDER}/${name}`, 'utf8').split('\n', 1);
    const [, number, title] = /^# 0*(\d+)(?:\.| ·) (.+)$/.exec(heading) ?? [];
    if (number === undefined || title === undefined)
      throw new Error(`${FOLDER}/${name} has no number and title`);
    return `- [${number}](${name}) ${title}`;
  });
  return [['decisions', lines.reverse().join('\n')]];
}
