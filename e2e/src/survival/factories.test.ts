import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import ts from 'typescript';
import { describe, expect, it } from 'vitest';
import { defaultFeatures } from '../../../packages/server/src/create-server.js';
import { ROWS_OF } from './matrix.js';

const SOURCES = new URL('../../../packages/server/src', import.meta.url).pathname;

/** Those that make no feature of their own, and why. */
const NOT_ONE = { without: 'removes a default' };

/** The exported functions of a source that return a `Feature`, and the name of the feature that each makes. */
function factoriesIn(path: string, text: string): readonly (readonly [string, string | undefined])[] {
  const source = ts.createSourceFile(path, text, ts.ScriptTarget.Latest);
  const isFeature = (type: ts.TypeNode | undefined) => type?.getText(source) === 'Feature';
  const found: (readonly [string, string | undefined])[] = [];
  for (const statement of source.statements) {
    const isExported = (ts.canHaveModifiers(statement) ? (ts.getModifiers(statement) ?? []) : []).some(
      ({ kind }) => kind === ts.SyntaxKind.ExportKeyword,
    );
    if (!isExported) continue;
    if (ts.isFunctionDeclaration(statement) && isFeature(statement.type))
      found.push([statement.name?.text ?? '', nameIn(statement, source)]);
    if (!ts.isVariableStatement(statement)) continue;
    for (const { name, initializer } of statement.declarationList.declarations)
      if (initializer && ts.isArrowFunction(initializer) && isFeature(initializer.type))
        found.push([name.getText(source), nameIn(initializer, source)]);
  }
  return found;
}

/** The text of `name` beside a member `install`. */
function nameIn(node: ts.Node, source: ts.SourceFile): string | undefined {
  if (ts.isObjectLiteralExpression(node)) {
    const members = new Map(node.properties.map((each) => [each.name?.getText(source), each]));
    const name = members.get('name');
    const value = name && ts.isPropertyAssignment(name) ? name.initializer : undefined;
    if (members.has('install') && value && ts.isStringLiteral(value)) return value.text;
    // Such as one for each path.
    if (members.has('install') && value && ts.isTemplateExpression(value)) return value.head.text.trim();
  }
  return ts.forEachChild(node, (child) => nameIn(child, source));
}

const factories = readdirSync(SOURCES, { recursive: true, encoding: 'utf8' })
  .filter((file) => file.endsWith('.ts') && !file.endsWith('.test.ts'))
  .flatMap((file) => factoriesIn(file, readFileSync(join(SOURCES, file), 'utf8')))
  .filter(([factory]) => !Object.hasOwn(NOT_ONE, factory));

describe('a feature that no server has by default', () => {
  it('is found by the function that makes it', () => {
    const text = `export const one = (): Feature => ({ name: 'first', install: () => ({ name: 'no' }) });
      export function two(): Feature { if (x) throw y; return { name: 'second', after: [], install }; }
      export const each = (path: string): Feature => ({ name: \`each \${path}\`, install });
      export const three = (name: string): Feature => ({ name, install }); const four = one;`;
    expect(factoriesIn('a.ts', text)).toEqual([
      ['one', 'first'],
      ['two', 'second'],
      ['each', 'each'],
      ['three', undefined],
    ]);
    expect(factories.length).toBeGreaterThan(10);
  });

  it.each(factories)(
    'has rows in the matrix, or a reason why there are none: %s makes %s',
    (_factory, name) => {
      expect(Object.keys(ROWS_OF)).toContain(name);
    },
  );

  it('is still there if the matrix has it', () => {
    const defaults = defaultFeatures({ authenticate: () => null }).map(({ name }) => name);
    const all = [...defaults, ...factories.map(([, name]) => name)];
    expect(all).toEqual(expect.arrayContaining(Object.keys(ROWS_OF)));
  });
});
