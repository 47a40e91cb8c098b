import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { run, type Tally } from './run.js';

/** The client in Python: a virtual environment with what its tests and checks need, kept for all later runs. */

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
const TOOLS = ['pytest', 'hypothesis', 'ruff', 'mypy'];
const EXTRAS = '[context,brotli,tensors,crypto]';
/** Long enough for a slow registry, and short enough for a machine without one. */
const INSTALL_MS = 240_000;

interface Environment {
  /** The program `python` of the virtual environment. */
  readonly python?: string;
  /** Why there is none. */
  readonly missing?: string;
}

let environment: Environment | undefined;

function find(): string | undefined {
  const isRecent = 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))';
  return CANDIDATES.find(
    (program) => program !== undefined && spawnSync(program, ['-c', isRecent]).status === 0,
  );
}

/** Makes the virtual environment if what it depends on has changed. */
function prepare(): Environment {
  const base = find();
  if (base === undefined)
    return { missing: 'skipped the client in Python, which needs Python 3.11 or later with venv and pip' };
  const version = spawnSync(base, ['-VV']).stdout.toString();
  const project = readFileSync(join(PROJECT, 'pyproject.toml'), 'utf8');
  const key = createHash('sha256')
    .update([version, project, EXTRAS, ...TOOLS].join('\n'))
    .digest('hex');
  const folder = join(CACHE, key.slice(0, 16));
  const python = join(folder, process.platform === 'win32' ? 'Scripts/python.exe' : 'bin/python');
  const done = join(folder, 'done');
  if (existsSync(done)) return { python };
  rmSync(CACHE, { recursive: true, force: true });
  mkdirSync(CACHE, { recursive: true });
  const pip = ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check'];
  const steps: [string, string[]][] = [
    [base, ['-m', 'venv', folder]],
    [python, [...pip, ...TOOLS, '--editable', `${PROJECT}${EXTRAS}`]],
  ];
  for (const [program, args] of steps) {
    const { status, stderr } = spawnSync(program, args, { timeout: INSTALL_MS });
    if (status === 0) continue;
    const why = stderr.toString().trim().split('\n').at(-1) ?? '';
    return {
      missing: `skipped the client in Python: "${program} ${args.slice(0, 3).join(' ')} …" failed: ${why}`,
    };
  }
  writeFileSync(done, '');
  return { python };
}

async function inEnvironment(work: (python: string) => Promise<Tally>): Promise<Tally> {
  environment ??= prepare();
  const { python, missing } = environment;
  return python === undefined
    ? { passed: 0, failed: 0, skipped: 1, notes: [missing ?? ''] }
    : await work(python);
}

/** Runs the tests, end to end with a server of this checkout too. */
export function pythonTests(): Promise<Tally> {
  return inEnvironment((python) => run(python, ['-B', '-m', 'pytest', PROJECT]));
}

/** Checks format, style and types. */
export function pythonChecks(): Promise<Tally> {
  return inEnvironment((python) => run(python, ['-B', join(PROJECT, 'tests/checks.py')]));
}
