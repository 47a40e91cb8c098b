import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import {
  CompilerState,
  Extractor,
  ExtractorConfig,
  ExtractorLogLevel,
  type ExtractorMessage,
  type IConfigFile,
} from '@microsoft/api-extractor';
import { ENTRY_POINTS, type EntryPoint } from './entry-points.js';

/**
 * Reports the public types of the packages, after a build: one report for each entry point, in `packages/NAME/api`, and one for the
 * `declare module` blocks of a package, which API Extractor leaves out. Fails if a report is out of date, or if a signature mentions a type that
 * no entry point of its package exports. `--write` updates the reports.
 */

const root = fileURLToPath(new URL('..', import.meta.url));
const doesWrite = process.argv.includes('--write');

/** Types that signatures mention but users never write. */
const UNNAMED = new Set([
  ...['AnyProtocolError', 'Continuation', 'EventHead', 'FieldValue'], // parts of types that are exported
  'GoAwayPayload', // of a hook that is internal
  // What `contract` infers:
  ...[
    'Arguments',
    'CallableNames',
    'DataSchema',
    'InputSchema',
    'Makes',
    'OnlyMembers',
    'OutputSchema',
    'PartsSchema',
  ],
  ...['Reply', 'StreamableNames', 'Takes', 'Validated'],
]);
/** Who implements the protocol calls its functions, and writes their options in place. */
const UNCHECKED = '@parlance/protocol';

const faults: string[] = [];
const temporary = mkdtempSync(join(tmpdir(), 'parlance-api-'));
const reports = new Set<string>();
const configs = ENTRY_POINTS.map((entryPoint) => ({ entryPoint, config: configOf(entryPoint) }));
const [first] = configs;
if (first === undefined) throw new Error('there are no entry points');
// One program for all: each by itself would take a second and more.
const compilerState = CompilerState.create(first.config, {
  additionalEntryPoints: ENTRY_POINTS.map(({ declarations }) => declarations),
});

const mentioned = configs.map(({ entryPoint, config }) => ({
  entryPoint,
  types: report(entryPoint, config),
}));
for (const { entryPoint, types } of mentioned) {
  if (entryPoint.name === UNCHECKED) continue;
  const exported = exportsOf(entryPoint.folder);
  for (const type of types)
    if (!exported.has(type) && !UNNAMED.has(type))
      faults.push(
        `no entry point of @parlance/${entryPoint.folder} exports ${type}, which ${entryPoint.name} mentions`,
      );
}
for (const folder of new Set(ENTRY_POINTS.map((each) => each.folder))) {
  reportDeclaredModules(folder);
  for (const name of readdirSync(apiFolder(folder)))
    if (!reports.has(join(apiFolder(folder), name)))
      faults.push(`packages/${folder}/api/${name} is of no entry point`);
}
rmSync(temporary, { recursive: true, force: true });
for (const fault of faults) console.error(fault);
console.log(`${Math.max(0, reports.size - faults.length)} passed, ${faults.length} failed`);
if (faults.length > 0) process.exitCode = 1;

function apiFolder(folder: string): string {
  return join(root, 'packages', folder, 'api');
}

function configOf({ name, folder, declarations }: EntryPoint): ExtractorConfig {
  const packageFolder = join(root, 'packages', folder);
  const reportFolder = apiFolder(folder);
  mkdirSync(reportFolder, { recursive: true });
  const reportFileName = `${name.split('/').slice(2).join('-') || 'index'}.api.md`;
  reports.add(join(reportFolder, reportFileName));
  const configObject: IConfigFile = {
    projectFolder: packageFolder,
    mainEntryPointFilePath: declarations,
    // Both ends export names of the protocol as their own.
    bundledPackages: ['@parlance/protocol'],
    newlineKind: 'lf',
    compiler: {
      overrideTsconfig: {
        compilerOptions: {
          target: 'es2023',
          lib: ['es2023', 'esnext.disposable', 'dom', 'dom.iterable'],
          module: 'nodenext',
          strict: true,
          exactOptionalPropertyTypes: true,
          skipLibCheck: true,
          types: ['node'],
        },
        files: [declarations],
      },
    },
    apiReport: { enabled: true, reportFileName, reportFolder, reportTempFolder: join(temporary, folder) },
    docModel: { enabled: false },
    dtsRollup: { enabled: false },
    tsdocMetadata: { enabled: false },
    messages: {
      extractorMessageReporting: {
        default: { logLevel: ExtractorLogLevel.Warning },
        'ae-forgotten-export': { logLevel: ExtractorLogLevel.Warning },
        // The site checks comments and their links.
        'ae-missing-release-tag': { logLevel: ExtractorLogLevel.None },
        'ae-undocumented': { logLevel: ExtractorLogLevel.None },
        'ae-unresolved-link': { logLevel: ExtractorLogLevel.None },
      },
      tsdocMessageReporting: { default: { logLevel: ExtractorLogLevel.None } },
    },
  };
  return ExtractorConfig.prepare({
    configObject,
    configObjectFullPath: undefined,
    packageJsonFullPath: join(packageFolder, 'package.json'),
  });
}

/** @returns the types that the entry point mentions and does not export. */
function report({ name }: EntryPoint, config: ExtractorConfig): string[] {
  const types: string[] = [];
  const { apiReportChanged } = Extractor.invoke(config, {
    compilerState,
    localBuild: doesWrite,
    messageCallback(message: ExtractorMessage) {
      message.handled = true;
      const [, symbol] = /^The symbol "(\w+?)(?:_\d+)?" needs/.exec(message.text) ?? [];
      const isWorse =
        message.logLevel === ExtractorLogLevel.Error || message.logLevel === ExtractorLogLevel.Warning;
      // A constant that a type is made of has a name in capitals.
      if (message.messageId === 'ae-forgotten-export')
        types.push(...(/^[A-Z_]+$/.test(symbol ?? '') ? [] : [symbol ?? '']));
      else if (isWorse && !message.messageId.startsWith('console-')) faults.push(`${name}: ${message.text}`);
    },
  });
  if (apiReportChanged && !doesWrite) outOfDate(config.reportFilePath);
  return types;
}

/** The names in the reports of a package. */
function exportsOf(folder: string): ReadonlySet<string> {
  const declared =
    /^export (?:declare |abstract )*(?:class|interface|type|function|const|enum) (\w+)|^export \{ (?:\w+ as )?(\w+) \}/gm;
  return new Set(
    readdirSync(apiFolder(folder)).flatMap((name) =>
      [...readFileSync(join(apiFolder(folder), name), 'utf8').matchAll(declared)].map(
        ([, a, b]) => a ?? b ?? '',
      ),
    ),
  );
}

/** What the declarations of a package add to modules, such as methods of features to `Session`. */
function reportDeclaredModules(folder: string): void {
  const dist = join(root, 'packages', folder, 'dist');
  const blocks = readdirSync(dist, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.d.ts') && !name.endsWith('.test.d.ts'))
    .sort()
    .flatMap((name) => {
      const found = readFileSync(join(dist, name), 'utf8').match(/^declare module [\s\S]*?^\}$/gm) ?? [];
      return found.map((block) => `// ${name}\n${block.replaceAll(/^\s*\/\*\*[\s\S]*?\*\/\n/gm, '')}`);
    });
  const file = join(apiFolder(folder), 'declared-modules.api.md');
  if (blocks.length === 0) return;
  reports.add(file);
  const text = `## Modules that "@parlance/${folder}" declares anew\n\n\`\`\`ts\n${blocks.join('\n\n')}\n\`\`\`\n`;
  if (existsSync(file) && readFileSync(file, 'utf8') === text) return;
  if (doesWrite) writeFileSync(file, text);
  else outOfDate(file);
}

function outOfDate(file: string): void {
  const fresh = join(temporary, basename(join(file, '../..')), basename(file));
  const what = existsSync(fresh) ? differences(file, fresh) : '';
  faults.push(
    `${relative(root, file)} is out of date: run "npm run api", and see whether users have to change anything${what}`,
  );
}

/** Lines that only one of two files has. */
function differences(file: string, fresh: string): string {
  const lines = (path: string) => (existsSync(path) ? readFileSync(path, 'utf8').split('\n') : []);
  const [before, after] = [lines(file), lines(fresh)];
  const [known, now] = [new Set(before), new Set(after)];
  const changed = [
    ...before.filter((line) => !now.has(line)).map((line) => `- ${line}`),
    ...after.filter((line) => !known.has(line)).map((line) => `+ ${line}`),
  ];
  return changed.map((line) => `\n  ${line}`).join('');
}
