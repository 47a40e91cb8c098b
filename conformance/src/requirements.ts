import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { table } from '../../scripts/docs/markdown.js';
import { SCENARIOS } from './kit/scenarios/index.js';

/**
 * The numbered requirements of the specification, and what covers each. Every MUST belongs to one number, and every number
 * to one MUST.
 */

const FOLDER = 'docs/protocol';
/**
 * By number: tests as `file: part of the test's name`, vectors and scenarios as `vector: file`, `scenario: name`. Each has a
 * scenario, or says why none can see it as `no scenario: reason`.
 */
const REGISTRY = 'conformance/requirements.json';
/** Where `npm run docs` writes {@link coveragePage}. */
export const COVERAGE = 'conformance/coverage.md';

interface Requirement {
  readonly id: string;
  readonly file: string;
  /** The heading that it stands under. */
  readonly part: string;
  readonly text: string;
}

/** The tests that cover a requirement, or why there are none. */
type Coverage = readonly string[] | { readonly none: string };

/** The requirements in the order of the specification. Adds what is wrong with them to `faults`. */
export function readRequirements(faults: string[]): readonly Requirement[] {
  const order = /\]\(([a-z0-9-]+\.md)\)/g;
  const contents = readFileSync(join(FOLDER, 'README.md'), 'utf8');
  const files = ['README.md', ...[...contents.matchAll(order)].map(([, name = '']) => name)];
  const listed = [...new Set(files)];
  for (const name of readdirSync(FOLDER))
    if (!listed.includes(name)) faults.push(`${FOLDER}/README.md does not list ${name}`);
  const requirements = listed.flatMap((name) => requirementsOf(name, faults));
  const seen = new Set<string>();
  for (const { id, file } of requirements) {
    if (seen.has(id)) faults.push(`${file}: ${id} is there twice`);
    seen.add(id);
  }
  return requirements;
}

function requirementsOf(name: string, faults: string[]): Requirement[] {
  const file = `${FOLDER}/${name}`;
  const found: Requirement[] = [];
  let part = '';
  for (const block of blocksOf(readFileSync(file, 'utf8'))) {
    const heading = /^#+ (.+)$/.exec(block);
    if (heading) part = heading[1] as string;
    const pieces = block.split(/`\[([A-Z0-9]+-\d+)\]`/);
    if (
      count(pieces[0] as string) > 0 &&
      !/^The key words/.test(block) &&
      !/Every MUST and MUST NOT/.test(block)
    )
      faults.push(`${file}: a MUST without a number: ${(pieces[0] as string).trim().slice(0, 80)}`);
    for (let at = 1; at < pieces.length; at += 2) {
      const [id, text] = [pieces[at] as string, (pieces[at + 1] as string).trim()];
      if (count(text) !== 1) faults.push(`${file}: ${id} has ${count(text)} MUST, not one`);
      found.push({ id, file: name, part, text });
    }
  }
  return found;
}

const count = (text: string): number => text.match(/\bMUST\b/g)?.length ?? 0;

/** Headings, paragraphs, items of lists and rows of tables; no code. */
function blocksOf(text: string): string[] {
  return text
    .replaceAll(/^```[\s\S]*?^```$/gm, '')
    .split(/\n(?=\s*(?:[-*]|\d+\.) |\|)|\n\s*\n/)
    .map((block) => block.trim())
    .filter((block) => block !== '');
}

/** The page that says what covers each requirement. Adds what is wrong with the registry to `faults`. */
export function coveragePage(requirements: readonly Requirement[], faults: string[]): string {
  const registry = JSON.parse(readFileSync(REGISTRY, 'utf8')) as Readonly<Record<string, Coverage>>;
  const ids = new Set(requirements.map(({ id }) => id));
  for (const id of Object.keys(registry))
    if (!ids.has(id)) faults.push(`${REGISTRY}: ${id} is no requirement`);
  const covered: string[][] = [];
  const open: string[][] = [];
  for (const { id, file, part } of requirements) {
    const coverage = registry[id];
    const place = `[${part.replaceAll('|', '\\|')}](../${FOLDER}/${file})`;
    if (coverage === undefined) faults.push(`${REGISTRY}: nothing covers ${id}, and no reason says why`);
    else if ('none' in coverage) open.push([id, place, coverage.none]);
    else {
      for (const one of coverage) check(id, one, faults);
      if (!coverage.some((one) => /^(no )?scenario: /.test(one)))
        faults.push(`${REGISTRY}: ${id} has no scenario, and no reason why none can see it`);
      covered.push([id, place, coverage.map(shown).join('<br>')]);
    }
  }
  return `# Coverage

Written by \`npm run docs\` from [requirements.json](requirements.json); a check fails if a test that it names does not exist.

${covered.length} of ${requirements.length} requirements are covered by a test, a golden vector or a scenario.

## Covered

${table(['requirement', 'part', 'covered by'], covered)}

## Not covered

${table(['requirement', 'part', 'why'], open)}
`;
}

function check(id: string, coverage: string, faults: string[]): void {
  const [, kind = '', name = ''] = /^([^:]+): (.+)$/s.exec(coverage) ?? [];
  // A test may name the requirement itself.
  const isNamed = name === id && existsSync(kind) && readFileSync(kind, 'utf8').includes(`'${id}'`);
  if (isNamed) return;
  if (kind !== 'vector' && name.length < 8) faults.push(`${REGISTRY}: ${id}: "${coverage}" names too little`);
  if (kind === 'no scenario') return;
  if (kind === 'vector') {
    if (!existsSync(`conformance/vectors/${name}.json`))
      faults.push(`${REGISTRY}: ${id}: there are no vectors ${name}`);
  } else if (kind === 'scenario') {
    if (!SCENARIOS.some((scenario) => scenario.name === name))
      faults.push(`${REGISTRY}: ${id}: there is no scenario ${name}`);
  } else if (!existsSync(kind)) faults.push(`${REGISTRY}: ${id}: there is no file ${kind || coverage}`);
  else if (!readFileSync(kind, 'utf8').includes(name))
    faults.push(`${REGISTRY}: ${id}: ${kind} has no test "${name}"`);
}

function shown(coverage: string): string {
  const [, kind = '', name = ''] = /^([^:]+): (.+)$/s.exec(coverage) ?? [];
  if (kind === 'vector') return `vectors [${name}](vectors/${name}.json)`;
  if (kind === 'scenario') return `scenario ${name}`;
  if (kind === 'no scenario') return `no scenario: ${name}`;
  return `[${kind.split('/').at(-1)}](../${kind}): ${name.replaceAll('|', '\\|')}`;
}
