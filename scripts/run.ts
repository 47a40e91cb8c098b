import { AsyncLocalStorage } from 'node:async_hooks';
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** The result of a check or of several. */
export interface Tally {
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
  /** Printed at the end: each skipped part, and how to enable it. */
  readonly notes?: readonly string[];
  /** Printed at the end: each failed test with its message, or the last output of a failed command. */
  readonly failures?: readonly string[];
}

export function add(a: Tally, b: Tally): Tally {
  return {
    passed: a.passed + b.passed,
    failed: a.failed + b.failed,
    skipped: a.skipped + b.skipped,
    notes: [...(a.notes ?? []), ...(b.notes ?? [])],
    failures: [...(a.failures ?? []), ...(b.failures ?? [])],
  };
}

export interface CommandOptions {
  /** Environment variables beside those of this process. @default none */
  readonly env?: Readonly<Record<string, string>> | undefined;
}

/**
 * Runs a command and shows its output. If its last line is `N passed, N failed`, those are the counts;
 * otherwise the command counts as one check, which passes if the exit code is 0.
 */
export async function run(
  name: string,
  args: readonly string[],
  { env }: CommandOptions = {},
): Promise<Tally> {
  const { code, tail } = await execute(name, args, { env });
  const counts = /(\d+) passed, (\d+) failed(?:, (\d+) skipped)?\s*$/.exec(tail);
  const tally =
    counts === null
      ? { passed: code === 0 ? 1 : 0, failed: 0, skipped: 0 }
      : { passed: Number(counts[1]), failed: Number(counts[2]), skipped: Number(counts[3] ?? 0) };
  // A nonzero exit code is a failure even if no failed case was counted.
  const failed = code !== 0 && tally.failed === 0 ? 1 : tally.failed;
  return failed === 0 ? tally : { ...tally, failed, failures: [lastLines(tail)] };
}

const MAX_FAILURE_LINES = 12;

function lastLines(text: string): string {
  return text.trimEnd().split('\n').slice(-MAX_FAILURE_LINES).join('\n');
}

/** The part of a JSON report of vitest that names failed tests. */
export interface TestReport {
  readonly numFailedTests?: number;
  readonly numPassedTests?: number;
  readonly numPendingTests?: number;
  readonly numTodoTests?: number;
  readonly testResults?: readonly {
    readonly name: string;
    readonly status: string;
    readonly message: string;
    readonly assertionResults: readonly {
      readonly fullName: string;
      readonly status: string;
      readonly failureMessages: readonly string[];
    }[];
  }[];
}

function failuresOf(report: TestReport): string[] {
  return (report.testResults ?? []).flatMap((file) => {
    const failed = file.assertionResults.filter(({ status }) => status === 'failed');
    if (failed.length === 0 && file.status === 'failed') return [`${file.name}\n${firstLines(file.message)}`];
    return failed.map(
      ({ fullName, failureMessages }) =>
        `${file.name} > ${fullName}\n${firstLines(failureMessages.join('\n'))}`,
    );
  });
}

/** The errors that vitest prints before its summary if none of its tests has failed. */
function unhandledOf(errors: string): string {
  const start = errors.lastIndexOf('Unhandled Error');
  return start < 0 ? lastLines(errors) : firstLines(errors.slice(start), 2 * MAX_FAILURE_LINES);
}

function firstLines(text: string, count = MAX_FAILURE_LINES): string {
  return text.split('\n').slice(0, count).join('\n');
}

/** vitest prints this for a temporary file that is deleted before anyone could open it. */
const REPORT_LINE = /^JSON report written to .*\n/m;

export interface TestOptions extends CommandOptions {
  readonly projects: readonly string[];
  /** Paths of files, or parts of such. @default all */
  readonly files?: readonly string[];
}

/** Runs projects of the test suite and counts their tests. */
export async function vitest(options: TestOptions): Promise<Tally> {
  try {
    const { code, errors, report } = await vitestReport(options);
    const failed = report.numFailedTests ?? 0;
    const failures = failuresOf(report);
    // The report does not contain errors outside of all tests.
    if (code !== 0 && failures.length === 0) failures.push(unhandledOf(errors));
    return {
      passed: report.numPassedTests ?? 0,
      // A file that fails to load contains no failed test.
      failed: code !== 0 && failed === 0 ? 1 : failed,
      skipped: (report.numPendingTests ?? 0) + (report.numTodoTests ?? 0),
      failures,
    };
  } catch (error) {
    console.error(String(error));
    return { passed: 0, failed: 1, skipped: 0 };
  }
}

/**
 * Runs projects of the test suite.
 *
 * @throws if vitest has written no report.
 */
export async function vitestReport({
  projects,
  files = [],
  env,
}: TestOptions): Promise<{ code: number; errors: string; report: TestReport }> {
  const folder = mkdtempSync(join(tmpdir(), 'parlance-tests-'));
  const file = join(folder, 'report.json');
  const args = [
    '--no-install',
    'vitest',
    'run',
    ...files,
    ...projects.flatMap((project) => ['--project', project]),
    '--reporter=default',
    '--reporter=json',
    `--outputFile.json=${file}`,
  ];
  try {
    const { code, errors } = await execute('npx', args, { env, hidden: REPORT_LINE });
    return { code, errors, report: JSON.parse(readFileSync(file, 'utf8')) as TestReport };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Where the output of commands goes that run beside others. */
const held = new AsyncLocalStorage<Buffer[]>();

/** Runs `work`, and returns what its commands have printed in place of showing it. */
export async function holdingOutput<T>(work: () => Promise<T>): Promise<{ result: T; output: Buffer }> {
  const chunks: Buffer[] = [];
  const result = await held.run(chunks, work);
  return { result, output: Buffer.concat(chunks) };
}

/** How a command ended, with the end of its output and of its error output. */
interface Execution {
  readonly code: number;
  readonly tail: string;
  readonly errors: string;
}

const MAX_TAIL_CHARACTERS = 16_000;

interface ExecuteOptions extends CommandOptions {
  /** Pattern of output that is not shown. @default all is shown */
  readonly hidden?: RegExp;
}

function execute(
  name: string,
  args: readonly string[],
  { env, hidden }: ExecuteOptions = {},
): Promise<Execution> {
  const chunks = held.getStore();
  const show = (chunk: Buffer, stream: NodeJS.WriteStream) => {
    if (chunks === undefined) stream.write(chunk);
    else chunks.push(chunk);
  };
  return new Promise((resolve) => {
    const child = spawn(name, args, {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...process.env, ...env },
      shell: process.platform === 'win32',
    });
    let tail = '';
    let errors = '';
    child.stdout.on('data', (chunk: Buffer) => {
      const text = chunk.toString('utf8');
      show(hidden === undefined ? chunk : Buffer.from(text.replace(hidden, '')), process.stdout);
      tail = (tail + text).slice(-MAX_TAIL_CHARACTERS);
    });
    child.stderr.on('data', (chunk: Buffer) => {
      show(chunk, process.stderr);
      errors = (errors + chunk.toString('utf8')).slice(-MAX_TAIL_CHARACTERS);
    });
    child.on('error', (error) => {
      console.error(String(error));
      resolve({ code: 1, tail, errors });
    });
    child.on('close', (code) => resolve({ code: code ?? 1, tail, errors }));
  });
}
