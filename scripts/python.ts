import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, linkSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { bundlePrograms } from '../e2e/src/kit/bundle-programs.js';
import { SOURCES } from '../e2e/src/kit/programs.js';
import { add, run, type Tally } from './run.js';

/** The client in Python: virtual environments with what its tests and checks need, kept for all later runs. */

const PROJECT = fileURLToPath(new URL('../python', import.meta.url));
const CACHE = fileURLToPath(new URL('../node_modules/.cache/python', import.meta.url));
const CANDIDATES = [
  process.env['PYTHON'],
  'python3.11',
  'python3',
  'python3.12',
  'python3.13',
  '/usr/bin/python3',
];
/** Long enough for a slow registry, and short enough for a machine without one. */
const INSTALL_MS = 240_000;

/** What is installed in an environment. */
interface Wanted {
  readonly name: string;
  /** The file with all versions. */
  readonly requirements: string;
  /** The package itself, with its extras. */
  readonly project?: string;
}

const MAIN: Wanted = {
  name: 'main',
  requirements: 'tests/requirements.txt',
  project: `${PROJECT}[context,brotli,tensors,crypto,http,openai]`,
};
/** The reference of AVP, and tests with that of M2M. */
const REFERENCE = {
  name: 'reference',
  requirements: 'tests/reference/requirements.txt',
  tests: 'tests/reference',
};
/** Packages of OpenAI, Anthropic and LangChain, which use httpx2, or httpx in the versions before. */
const OTHERS: readonly (Wanted & { readonly tests: string })[] = [
  { name: 'sdks-httpx2', requirements: 'tests/sdk/httpx2.txt', tests: 'tests/sdk' },
  { name: 'sdks-httpx', requirements: 'tests/sdk/httpx.txt', tests: 'tests/sdk' },
  REFERENCE,
];

interface Environment {
  /** The program `python` of the virtual environment. */
  readonly python?: string;
  /** Why there is none. */
  readonly missing?: string;
}

const environments = new Map<Wanted, Environment>();

function find(): string | undefined {
  const isRecent = 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))';
  return CANDIDATES.find(
    (program) => program !== undefined && spawnSync(program, ['-c', isRecent]).status === 0,
  );
}

/**
 * Makes a virtual environment if what it depends on has changed. Processes that do so at once make one each, as an environment
 * cannot be moved; the file with the name `key` says which is used from then on.
 */
export function prepare({ name, requirements, project }: Wanted, cache = CACHE): Environment {
  const base = find();
  if (base === undefined)
    return { missing: 'skipped the client in Python, which needs Python 3.11 or later with venv and pip' };
  const list = join(PROJECT, requirements);
  const described = [spawnSync(base, ['-VV']).stdout.toString(), readFileSync(list, 'utf8'), project ?? ''];
  if (project !== undefined) described.push(readFileSync(join(PROJECT, 'pyproject.toml'), 'utf8'));
  const key = createHash('sha256').update(described.join('\n')).digest('hex').slice(0, 12);
  const all = join(cache, name);
  const used = join(all, key);
  const pythonOf = (folder: string) =>
    join(all, folder, process.platform === 'win32' ? 'Scripts/python.exe' : 'bin/python');
  if (existsSync(used)) return { python: pythonOf(readFileSync(used, 'utf8')) };
  const own = `${key}-${process.pid}`;
  mkdirSync(all, { recursive: true });
  const pip = ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', '--requirement', list];
  const steps: [string, string[]][] = [
    [base, ['-m', 'venv', '--clear', join(all, own)]],
    [pythonOf(own), [...pip, ...(project === undefined ? [] : ['--editable', project])]],
  ];
  for (const [program, args] of steps) {
    const { status, stderr } = spawnSync(program, args, { timeout: INSTALL_MS });
    if (status === 0) continue;
    const why = stderr.toString().trim().split('\n').at(-1) ?? '';
    const tried = `${program} ${args.slice(0, 3).join(' ')} …`;
    return { missing: `skipped the client in Python (${requirements}): "${tried}" failed: ${why}` };
  }
  const offered = join(all, `${own}.done`);
  writeFileSync(offered, own);
  try {
    linkSync(offered, used);
  } catch (error) {
    // Another process was faster.
    if (!existsSync(used)) throw error;
    rmSync(join(all, own), { recursive: true });
  }
  rmSync(offered);
  const chosen = readFileSync(used, 'utf8');
  removeOthers(all, [key, chosen]);
  return { python: pythonOf(chosen) };
}

/** Removes environments of processes that have ended. */
function removeOthers(all: string, kept: readonly string[]): void {
  for (const entry of readdirSync(all))
    if (!kept.includes(entry) && !isRunning(entry)) rmSync(join(all, entry), { recursive: true });
}

/** @param entry the name of an environment, which ends with the ID of its process. */
function isRunning(entry: string): boolean {
  try {
    return process.kill(Number.parseInt(entry.split('-')[1] ?? '', 10), 0);
  } catch {
    return false;
  }
}

/** The program `python` of the environment with the client and all its extras. */
export function pythonProgram(wanted: Wanted = MAIN): Environment {
  const environment = environments.get(wanted) ?? prepare(wanted);
  environments.set(wanted, environment);
  return environment;
}

async function inEnvironment(wanted: Wanted, work: (python: string) => Promise<Tally>): Promise<Tally> {
  const { python, missing } = pythonProgram(wanted);
  return python === undefined
    ? { passed: 0, failed: 0, skipped: 1, notes: [missing ?? ''] }
    : await work(python);
}

/** The programs that `python/tests/conftest.py` starts. */
const PROGRAMS = [
  'conformance/src/main',
  'conformance/peers/parlance/main',
  'packages/cli/src/main',
  ...['avp', 'events', 'http', 'networks', 'server'].map((name) => `e2e/src/python/${name}`),
];

/** Runs the tests, end to end with a server of this checkout too, and those of each other environment. */
export function pythonTests(): Promise<Tally> {
  return inEnvironment(MAIN, async (python) => {
    const sources = PROGRAMS.map((name) => [name, new URL(`../${name}.ts`, import.meta.url)] as const);
    const programs = await bundlePrograms({ ...SOURCES, ...Object.fromEntries(sources) });
    try {
      const env = { PYTHONPATH: join(PROJECT, 'src'), E2E_PROGRAMS: programs };
      let tally = await run(python, ['-B', '-m', 'pytest', PROJECT], { env });
      for (const wanted of OTHERS) {
        const args = ['-B', '-m', 'pytest', join(PROJECT, wanted.tests)];
        tally = add(tally, await inEnvironment(wanted, (other) => run(other, args, { env })));
      }
      return tally;
    } finally {
      rmSync(programs, { recursive: true });
    }
  });
}

/** Long enough for some 200 crates on a busy machine. */
const BUILD_MS = 3_600_000;

/** Builds the reference of M2M, which takes minutes, and passes frames both ways. */
export async function m2mReference(): Promise<Tally> {
  const folder = fileURLToPath(new URL('../conformance/reference/m2m', import.meta.url));
  const target = join(CACHE, 'm2m');
  const build = ['build', '--quiet', '--manifest-path', join(folder, 'Cargo.toml'), '--target-dir', target];
  const { status, stderr, error } = spawnSync('cargo', build, { timeout: BUILD_MS });
  if (status !== 0) {
    const why = error?.message ?? stderr.toString().trim().split('\n').at(-1) ?? '';
    return {
      passed: 0,
      failed: 0,
      skipped: 1,
      notes: [`skipped the reference of M2M: cargo build failed: ${why}`],
    };
  }
  const env = { PYTHONPATH: join(PROJECT, 'src'), M2M_REFERENCE: join(target, 'debug/m2m-reference') };
  const args = ['-B', '-m', 'pytest', join(PROJECT, REFERENCE.tests)];
  return await inEnvironment(REFERENCE, (python) => run(python, args, { env }));
}

/** Checks format, style and types. */
export function pythonChecks(): Promise<Tally> {
  return inEnvironment(MAIN, (python) => run(python, ['-B', join(PROJECT, 'tests/checks.py')]));
}
