import { readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { Application, type TypeDocOptions } from 'typedoc';
import type { PluginOptions } from 'typedoc-plugin-markdown';
import ts from 'typescript';
import { anchorsOf } from '../../scripts/docs/links.js';
import { ENTRY_POINTS } from '../../scripts/entry-points.js';

/** Of the contents, from the root of the site. */
export const REFERENCE = 'api/index.md';

/** What it has pages for, with their paths. The command line has a page of its own. */
export const DOCUMENTED = ENTRY_POINTS.filter(({ folder }) => folder !== 'cli').map((each) => ({
  ...each,
  path: `api/${each.name.replace('@parlance/', '')}.md`,
}));

/** Writes a page in Markdown for each entry point of the packages into a folder. Throws at each warning. */
export async function writeReference(folder: string): Promise<void> {
  const options: TypeDocOptions & Partial<PluginOptions> = {
    plugin: ['typedoc-plugin-markdown'],
    excludeExternals: true,
    excludeInternal: true,
    excludePrivate: true,
    disableSources: true,
    disableGit: true,
    readme: 'none',
    name: 'API',
    outputs: [{ name: 'markdown', path: folder }],
    externalSymbolLinkMappings: { '@parlance/protocol': { '*': '#' } },
    outputFileStrategy: 'modules',
    entryFileName: 'index',
    excludeScopesInPaths: true,
    sortEntryPoints: false,
    hideBreadcrumbs: true,
    parametersFormat: 'table',
    interfacePropertiesFormat: 'table',
    classPropertiesFormat: 'table',
    typeAliasPropertiesFormat: 'table',
    propertyMembersFormat: 'table',
    enumMembersFormat: 'table',
    hidePageHeader: true,
    useHTMLEncodedBrackets: true,
    treatWarningsAsErrors: true,
  };
  const app = await Application.bootstrapWithPlugins(options);
  // Declarations are read in half the time that the sources take.
  const program = ts.createProgram(
    DOCUMENTED.map(({ declarations }) => declarations),
    {
      target: ts.ScriptTarget.ES2023,
      module: ts.ModuleKind.NodeNext,
      strict: true,
      skipLibCheck: true,
      types: ['node'],
    },
  );
  const project = app.converter.convert(
    // A subpath comes before a name of the whole that its file would have.
    [...DOCUMENTED].reverse().map(({ name, declarations }) => {
      const sourceFile = program.getSourceFile(declarations);
      if (sourceFile === undefined) throw new Error(`${declarations} is missing: run "npm run build"`);
      return { displayName: name, program, sourceFile };
    }),
  );
  app.validate(project);
  await app.generateOutputs(project);
  correctAnchors(folder);
  writeFileSync(join(folder, 'index.md'), contents());
  if (app.logger.hasWarnings() || app.logger.hasErrors()) throw new Error('TypeDoc warns');
}

/** The plug-in takes `Session.stats` for a heading, so it numbers the heading `SessionStats`; Markdown does not. */
function correctAnchors(folder: string): void {
  for (const { path } of DOCUMENTED) {
    const file = join(folder, path.replace('api/', ''));
    const text = readFileSync(file, 'utf8').replaceAll(
      /\]\(([\w./-]*)#([a-z]+)-1\)/g,
      (link, to: string, heading: string) => {
        const target = to === '' ? file : join(dirname(file), to);
        return anchorsOf(target).has(`${heading}-1`) ? link : `](${to}#${heading})`;
      },
    );
    writeFileSync(file, text);
  }
}

const EVENTS = 'The events of a session, and the data of each: [SessionEvents](./client.md#sessionevents).';

function contents(): string {
  const links = DOCUMENTED.map(({ name, path }) => `- [${name}](${path.replace('api/', './')})`);
  return `# API reference\n\n${links.join('\n')}\n\n${EVENTS}\n`;
}
