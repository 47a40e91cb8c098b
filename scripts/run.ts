import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** How many checks or tests held. */
export interface Tally {
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
  /** What has to be said at the end: what was skipped, and how to get it. */
  readonly notes?: readonly string[];
}

export function add(a: Tally, b: Tally): Tally {
  return {
    passed: a.passed + b.passed,
    failed: a.failed + b.failed,
    skipped: a.skipped + b.skipped,
    notes: [...(a.notes ?? []), ...(b.notes ?? [])],
  };
}

/**
 * Runs a command with its output shown. A last line `N passed, N failed` counts as it says, otherwise
 * the command counts as one check that its exit code decides.
 */
export async function run(name: string, args: readonly string[]): Promise<Tally> {
  const { code, tail } = await execute(name, args);
  const counts = /(\d+) passed, (\d+) failed(?:, (\d+) skipped)?\s*$/.exec(tail);
  if (counts === null) return { passed: code === 0 ? 1 : 0, failed: code === 0 ? 0 : 1, skipped: 0 };
  const tally = { passed: Number(counts[1]), failed: Number(counts[2]), skipped: Number(counts[3] ?? 0) };
  // A command that fails without a failed case has failed all the same.
  return code !== 0 && tally.failed === 0 ? { ...tally, failed: 1 } : tally;
}

/** Says where a file is that is read and gone when anybody could look. */
const REPORT_LINE = /^JSON report written to .*\n/m;

/** Runs a project of the test suite and counts its tests. */
export async function vitest(project: string): Promise<Tally> {
  const folder = mkdtempSync(join(tmpdir(), 'parlance-tests-'));
  const file = join(folder, 'report.json');
  const args = [
    '--no-install',
    'vitest',
    'run',
    '--project',
    project,
    '--reporter=default',
    '--reporter=json',
    `--outputFile.json=${file}`,
  ];
  try {
    const { code } = await execute('npx', args, REPORT_LINE);
    const report = JSON.parse(readFileSync(file, 'utf8')) as Record<string, number>;
    const failed = report['numFailedTests'] ?? 0;
    return {
      passed: report['numPassedTests'] ?? 0,
      // A file that does not load holds no failed test.
      failed: code !== 0 && failed === 0 ? 1 : failed,
      skipped: (report['numPendingTests'] ?? 0) + (report['numTodoTests'] ?? 0),
    };
  } catch (error) {
    console.error(String(error));
    return { passed: 0, failed: 1, skipped: 0 };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** @param hidden what is not shown of the output. */
function execute(
  name: string,
  args: readonly string[],
  hidden?: RegExp,
): Promise<{ code: number; tail: string }> {
  return new Promise((resolve) => {
    const child = spawn(name, args, {
      stdio: ['ignore', 'pipe', 'inherit'],
      shell: process.platform === 'win32',
    });
    let tail = '';
    child.stdout.on('data', (chunk: Buffer) => {
      const text = chunk.toString('utf8');
      process.stdout.write(hidden === undefined ? chunk : text.replace(hidden, ''));
      tail = (tail + text).slice(-1000);
    });
    child.on('error', (error) => {
      console.error(String(error));
      resolve({ code: 1, tail });
    });
    child.on('close', (code) => resolve({ code: code ?? 1, tail }));
  });
}
