import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { Result } from './family.js';
import type { PassLine } from './pass.js';

/** The platforms of the protocol package; every case must pass on both. */
export const PLATFORMS = ['node', 'web'] as const;
export type PlatformName = (typeof PLATFORMS)[number];

/** The result of a pass: results by file and key, and the reason if it ended early. */
export interface Pass {
  readonly platform: PlatformName;
  readonly results: ReadonlyMap<string, Result>;
  readonly seconds: number;
  readonly failure: string | undefined;
}

/** A case that produces no output for this long hangs. The pass itself fails slow ones. */
const SILENCE_MS = 30_000;
/** Time to load the sources and a vocabulary on a busy machine. */
const START_MS = 120_000;

export function resultKey(file: string, key: string): string {
  return `${file} ${key}`;
}

/** Runs a folder on one platform, in a process of its own. */
export async function runPass(platform: PlatformName, folder: string): Promise<Pass> {
  const started = performance.now();
  const results = new Map<string, Result>();
  const child = spawn(
    process.execPath,
    [
      ...['--import', import.meta.resolve('tsx'), '--conditions=@parlance/source'],
      ...(platform === 'web' ? ['--import', import.meta.resolve('./web-platform.mjs')] : []),
      fileURLToPath(new URL('./pass.ts', import.meta.url)),
      ...['--vectors', folder, '--platform', platform],
    ],
    { stdio: ['ignore', 'pipe', 'inherit'] },
  );
  let running: PassLine | undefined;
  let hangs = false;
  const kill = () => {
    hangs = true;
    child.kill('SIGKILL');
  };
  let watchdog = setTimeout(kill, START_MS);

  const exit = new Promise<number | null>((resolve, reject) => {
    child.on('error', reject);
    child.on('close', resolve);
  });
  for await (const text of createInterface({ input: child.stdout })) {
    clearTimeout(watchdog);
    const line = JSON.parse(text) as PassLine;
    // Between two cases a family may be loading data.
    watchdog = setTimeout(kill, line.result === undefined ? SILENCE_MS : START_MS);
    running = line.result === undefined ? line : undefined;
    if (line.result !== undefined) results.set(resultKey(line.file, line.key), line.result);
  }
  const code = await exit;
  clearTimeout(watchdog);

  const failure = hangs
    ? `it produced no output for ${SILENCE_MS / 1000} s`
    : `it ended with exit code ${code}`;
  if (running !== undefined) {
    const why = hangs ? `did not return within ${SILENCE_MS / 1000} s` : 'the process died';
    results.set(resultKey(running.file, running.key), { status: 'failed', why });
  }
  return {
    platform,
    results,
    seconds: (performance.now() - started) / 1000,
    failure: hangs || code !== 0 ? failure : undefined,
  };
}
