import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { type BenchOptions, compare, type Row, type Target } from './row.js';
import { median } from './statistics.js';

/**
 * Measures the cost of a server until it listens: processes of plain Node start a session server, or a bare one of `ws`, in turns. The
 * time is that from the start of the process to its first line, which it writes when it listens.
 */

const SYSTEMS = ['ws', 'session'] as const;
const PROGRAM = fileURLToPath(new URL('./start/program.mjs', import.meta.url));
/** Times the time of `ws` that a session server may take. */
const MOST_TIME = 2.5;
/** Megabytes of memory that it may have then. */
const MOST_MEMORY = 80;

interface Start {
  /** Milliseconds. */
  readonly up: number;
  /** Milliseconds of CPU, of all threads. */
  readonly cpu: number;
  /** Megabytes that are resident. */
  readonly rss: number;
}

export async function* run({ quick }: BenchOptions): AsyncGenerator<Row> {
  const found = { ws: [] as Start[], session: [] as Start[] };
  // The first of each reads files that the later ones find in memory.
  for (const name of SYSTEMS) await start(name);
  for (let round = 0; round < (quick ? 5 : 21); round++)
    for (const name of round % 2 === 0 ? SYSTEMS : SYSTEMS.toReversed()) found[name].push(await start(name));
  const row = (what: string, unit: string, key: keyof Start, target?: (ratio: number) => Target) => {
    const [value, baseline] = [found.session, found.ws].map((starts) =>
      median(starts.map((each) => each[key])),
    );
    return compare(what, unit, 'lower', value as number, { name: 'ws', value: baseline as number }, target);
  };
  yield row('up and listening', 'ms', 'up', (ratio) => ({
    text: `<= ${MOST_TIME}`,
    met: ratio <= MOST_TIME,
  }));
  yield row('CPU until then', 'ms', 'cpu');
  const memory = median(found.session.map(({ rss }) => rss));
  yield row('memory then', 'MB', 'rss', () => ({ text: `<= ${MOST_MEMORY} MB`, met: memory <= MOST_MEMORY }));
}

async function start(name: (typeof SYSTEMS)[number]): Promise<Start> {
  const begun = performance.now();
  const child = spawn(process.execPath, [PROGRAM, name], { stdio: ['ignore', 'pipe', 'inherit'] });
  const [line] = (await once(child.stdout, 'data')) as [Buffer];
  const up = performance.now() - begun;
  child.kill('SIGKILL');
  await once(child, 'exit');
  return { up, ...(JSON.parse(line.toString()) as Omit<Start, 'up'>) };
}
