import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { basename, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

/** `npm create parlance`: copies a template into a new folder. Asks nothing; exit code 1: nothing was created. */

const TEMPLATES = {
  chat: 'a page that chats with a model over a gateway that keeps the key',
  agents: 'a server, a worker and a planner that asks it',
  service: 'a server with a typed contract, and its client',
};
const USAGE = `Usage: npm create parlance [folder] -- [--template NAME] [--packages FOLDER]

${Object.entries(TEMPLATES)
  .map(([name, text]) => `  ${name.padEnd(9)}${text}`)
  .join('\n')}

  folder       where the project is created; parlance-app by default
  --template   one of the names above; chat by default
  --packages   a folder of tarballs from \`npm run packages\` in a clone of Parlance, in place of the registry`;

/** npm leaves these names out of tarballs, or reads them itself. */
const RENAMED = { gitignore: '.gitignore', dockerignore: '.dockerignore' };

class Refusal extends Error {}

interface Manifest {
  name: string;
  version: string;
  dependencies: Record<string, string>;
}

const read = (file: string): Manifest => JSON.parse(readFileSync(file, 'utf8'));
const inPackage = (path: string): string => fileURLToPath(new URL(path, import.meta.url));

/** The name of a package that npm takes, from the name of a folder. */
function nameFor(folder: string): string {
  const name = basename(folder)
    .toLowerCase()
    .replaceAll(/[^a-z0-9._-]+/g, '-')
    .replaceAll(/^[._-]+|-+$/g, '');
  return name === '' ? 'parlance-app' : name.slice(0, 214);
}

/** Where the packages of Parlance come from, by name; copies tarballs into the project, so that its image can be built. */
function sourcesOf(manifest: Manifest, folder: string, tarballs: string | undefined): Record<string, string> {
  const names = Object.keys(manifest.dependencies).filter((name) => name.startsWith('@parlance/'));
  const { version } = read(inPackage('../package.json'));
  if (tarballs === undefined) {
    if (version === '0.0.0')
      throw new Refusal(
        'Parlance is not published yet. Run `npm run packages` in a clone of it, and pass its folder: --packages CLONE/tarballs',
      );
    return Object.fromEntries(names.map((name) => [name, `^${version}`]));
  }
  const files = existsSync(tarballs) ? readdirSync(tarballs) : [];
  return Object.fromEntries(
    // The tarballs need this one, which no registry has.
    [...new Set([...names, '@parlance/protocol'])].map((name) => {
      const begin = `${name.slice(1).replace('/', '-')}-`;
      const file = files.find((each) => each.startsWith(begin) && each.endsWith('.tgz'));
      if (file === undefined) throw new Refusal(`${tarballs} has no tarball ${begin}….tgz`);
      mkdirSync(join(folder, 'tarballs'), { recursive: true });
      cpSync(join(tarballs, file), join(folder, 'tarballs', file));
      return [name, `file:tarballs/${file}`];
    }),
  );
}

function create(folder: string, template: string, tarballs: string | undefined): void {
  if (!Object.hasOwn(TEMPLATES, template))
    throw new Refusal(`There is no template ${template}: take ${Object.keys(TEMPLATES).join(', ')}`);
  const isNew = !existsSync(folder);
  if (!isNew && readdirSync(folder).length > 0) throw new Refusal(`${folder} is not empty`);
  try {
    for (const each of ['every', template])
      cpSync(inPackage(`../templates/${each}`), folder, { recursive: true });
    for (const [from, to] of Object.entries(RENAMED)) renameSync(join(folder, from), join(folder, to));
    const manifest = read(join(folder, 'package.json'));
    const name = nameFor(folder);
    const dependencies = { ...manifest.dependencies, ...sourcesOf(manifest, folder, tarballs) };
    writeFileSync(
      join(folder, 'package.json'),
      `${JSON.stringify({ ...manifest, name, dependencies }, null, 2)}\n`,
    );
    const readme = join(folder, 'README.md');
    writeFileSync(readme, readFileSync(readme, 'utf8').replace(/^# .*/, `# ${name}`));
  } catch (error) {
    for (const each of isNew ? [''] : readdirSync(folder)) rmSync(join(folder, each), { recursive: true });
    throw error;
  }
}

try {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      template: { type: 'string', short: 't', default: 'chat' },
      packages: { type: 'string' },
      help: { type: 'boolean', short: 'h', default: false },
    },
  });
  if (values.help) {
    console.log(USAGE);
  } else {
    const [name = 'parlance-app', ...others] = positionals;
    if (others.length > 0) throw new Refusal(`one folder is created, and ${positionals.length} are named`);
    const folder = resolve(name);
    create(folder, values.template, values.packages);
    const here = relative('.', folder);
    const steps = [...(here === '' ? [] : [`cd ${here}`]), 'npm install', 'npm run dev'];
    console.log(`Created ${folder} with the template ${values.template}. Now:\n\n  ${steps.join('\n  ')}\n`);
  }
} catch (error) {
  const isOfUsage = (error as NodeJS.ErrnoException).code?.startsWith('ERR_PARSE_ARGS') === true;
  if (!(error instanceof Refusal) && !isOfUsage && (error as NodeJS.ErrnoException).syscall === undefined)
    throw error;
  console.error(`${(error as Error).message}${isOfUsage ? `\n\n${USAGE}` : ''}`);
  process.exitCode = 1;
}
