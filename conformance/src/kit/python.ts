import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

/** The peer in Python, as a process. */

const FOLDER = fileURLToPath(new URL('../../peers/python', import.meta.url));
const PACKAGES = 'python3-msgpack python3-websockets python3-brotli python3-zstandard';

/** Debian's own Python has its packages; another one may be found first. */
export const PROGRAM = [process.env['PYTHON'], '/usr/bin/python3', 'python3'].find(
  (program) =>
    program !== undefined &&
    spawnSync(program, ['-c', 'import msgpack, websockets, brotli, zstandard']).status === 0,
);

/** Why tests that need the peer in Python are skipped; `undefined` if it runs here. In CI it has to. */
export const pythonMissing: string | undefined =
  PROGRAM === undefined && process.env['CI'] !== 'true'
    ? `skipped the peer in Python, which needs: apt-get install ${PACKAGES}`
    : undefined;

export interface PythonPeer {
  /** The URL of a server. */
  readonly url: string;
  /** The text of its error output. */
  readonly errors: () => string;
  stop(): void;
}

export interface Other {
  /** Breaks one thing on purpose. */
  readonly fault?: string;
  /** Does something otherwise that the specification allows. */
  readonly variants?: readonly string[];
}

/**
 * Starts a server on a free port, or a client of `url`.
 *
 * @param other than it is; see `faults/`.
 * @throws if the packages are missing, or the server ends before it listens.
 */
export async function startPython(url?: string, other: Other = {}): Promise<PythonPeer> {
  if (PROGRAM === undefined) throw new Error(`missing: apt-get install ${PACKAGES}`);
  const role = url === undefined ? ['--listen', '0'] : ['--peer', url];
  const { fault, variants } = other;
  const module = fault !== undefined || variants !== undefined ? 'faults' : 'parlance_peer';
  const switches = [
    ...(fault === undefined ? [] : ['--fault', fault]),
    ...(variants === undefined ? [] : ['--variant', variants.join(',')]),
  ];
  const child = spawn(PROGRAM, ['-B', '-m', module, ...switches, ...role], {
    cwd: FOLDER,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let errors = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    errors += text;
  });
  const stop = () => {
    process.off('exit', stop);
    child.kill('SIGKILL');
  };
  process.once('exit', stop);
  return { url: url ?? (await firstLine(child, () => errors)), errors: () => errors, stop };
}

async function firstLine(child: ChildProcess, errors: () => string): Promise<string> {
  if (child.stdout === null) throw new Error('the peer has no output');
  for await (const line of createInterface({ input: child.stdout })) return line;
  throw new Error(`the peer in Python ended: ${errors()}`);
}
