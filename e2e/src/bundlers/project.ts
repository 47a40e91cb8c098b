import { execFile, execFileSync } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { Bundler } from './bundlers.js';

/** Projects of users: temporary folders in which npm has installed our tarballs. */

const FIXTURE = fileURLToPath(new URL('../../bundlers', import.meta.url));
const OPTIONAL = ['js-tiktoken', 'brotli-wasm', 'llama3-tokenizer-js'] as const;
const OPTIONAL_VERSIONS = ['js-tiktoken@1.0.21', 'brotli-wasm@3.0.1', 'llama3-tokenizer-js@1.2.0'];
/** Packages of packages are those of this day. */
const AS_A_USER = ['--engine-strict=false', '--before=2026-11-20'];
const BUILD_TIMEOUT_MS = 300_000;

export class Project {
  readonly folder = mkdtempSync(join(tmpdir(), 'parlance-bundlers-'));

  /** @param packages tarballs, and packages with their exact versions. */
  constructor(packages: readonly string[]) {
    process.once('exit', () => rmSync(this.folder, { recursive: true, force: true }));
    const parcel = { '@parcel/resolver-default': { packageExports: true } };
    writeFileSync(
      join(this.folder, 'package.json'),
      JSON.stringify({ private: true, type: 'module', ...parcel }),
    );
    execFileSync(
      'npm',
      // As in a folder of its own: without the strictness of this repository, which npm passes on to its children.
      [
        'install',
        '--no-audit',
        '--no-fund',
        '--no-package-lock',
        '--loglevel=error',
        ...AS_A_USER,
        ...packages,
      ],
      { cwd: this.folder, stdio: ['ignore', 'ignore', 'inherit'] },
    );
  }

  /** Adds the page and its optional packages. */
  static withPage(packages: readonly string[]): Project {
    const project = new Project([...packages, ...OPTIONAL_VERSIONS]);
    cpSync(FIXTURE, project.folder, { recursive: true });
    return project;
  }

  /** Takes the optional packages out of `node_modules`, or puts them back. */
  install(hasOptional: boolean): void {
    const aside = join(this.folder, 'aside');
    mkdirSync(aside, { recursive: true });
    const modules = join(this.folder, 'node_modules');
    const [from, to] = hasOptional ? [aside, modules] : [modules, aside];
    for (const name of OPTIONAL) {
      if (existsSync(join(from, name))) renameSync(join(from, name), join(to, name));
    }
  }

  /** @returns the folder to serve. @throws the output of the bundler if it fails. */
  async build({ command, output, caches, script }: Bundler): Promise<string> {
    for (const each of [output, ...caches]) rmSync(join(this.folder, each), { recursive: true, force: true });
    await this.run(command);
    const built = join(this.folder, output);
    if (script !== undefined) writeFileSync(join(built, 'index.html'), pageOf(script));
    return built;
  }

  /** Runs a binary of the project and returns what it prints. */
  async run(command: readonly string[]): Promise<string> {
    const env: NodeJS.ProcessEnv = { ...process.env, NEXT_TELEMETRY_DISABLED: '1', PARCEL_WORKERS: '1' };
    // `tsx` sets this for the scripts of this repository.
    delete env['NODE_OPTIONS'];
    const [name = '', ...args] = command;
    const options = { cwd: this.folder, env, timeout: BUILD_TIMEOUT_MS, maxBuffer: 2 ** 24 };
    try {
      const { stdout } = await promisify(execFile)(
        join(this.folder, 'node_modules', '.bin', name),
        args,
        options,
      );
      return stdout;
    } catch (error) {
      const { stdout = '', stderr = '' } = error as { stdout?: string; stderr?: string };
      throw new Error(`${command.join(' ')} failed:\n${`${stdout}\n${stderr}`.slice(-3000)}`);
    }
  }
}

function pageOf(script: string): string {
  return `<!doctype html>
<html lang="en">
  <head>
    <title>A page</title>
    <link rel="icon" href="data:," />
    <script type="module" src="./${script}"></script>
  </head>
</html>
`;
}

/** Every file of a folder and the folders in it, with its bytes. */
export function filesUnder(folder: string): readonly { readonly path: string; readonly size: number }[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => ({
      path: join(parentPath, name),
      size: statSync(join(parentPath, name)).size,
    }));
}
