import { type CopyCounts, CopyRefused, copyEngine } from '@parlance/server/engine';
import { CommandFailure, ExitCode } from '../base/failure.js';
import type { Terminal } from '../base/terminal.js';
import { count } from '../base/text-layout.js';
import { type EngineAddress, isThere, openEngine } from './engine-address.js';

/** Between two lines that tell how far a copy is, in milliseconds. */
const PROGRESS_MS = 1_000;

/** `parlance engine copy FROM TO`. @param errors gets the progress. */
export async function copy(
  from: EngineAddress,
  to: EngineAddress,
  output: Terminal,
  errors: Terminal,
): Promise<ExitCode> {
  if (!isThere(from) && from.kind === 'sqlite')
    throw new CommandFailure(`FROM: there is no file ${from.file}`, ExitCode.USAGE);
  const [source, target] = [await openEngine(from, 'FROM'), await openEngine(to, 'TO')];
  let toldAt = performance.now();
  let hasBegun = false;
  const tell = (counts: Readonly<CopyCounts>): void => {
    hasBegun = true;
    if (performance.now() - toldAt < PROGRESS_MS) return;
    toldAt = performance.now();
    errors.write(`${wordsOf(counts)} so far\n`);
  };
  // Else the process would end with nothing said of what TO has.
  const interrupted = new Promise<never>((_resolve, reject) => {
    for (const signal of ['SIGINT', 'SIGTERM'] as const)
      process.once(signal, () => reject(new CommandFailure(`interrupted by ${signal}; ${remains(to)}`)));
  });
  try {
    const counts = await Promise.race([copyEngine(source, target, tell), interrupted]);
    output.write(`copied ${wordsOf(counts)}\n`);
    return ExitCode.OK;
  } catch (error) {
    if (error instanceof CopyRefused) throw new CommandFailure(refusal(error, from, to));
    if (hasBegun && !(error instanceof CommandFailure)) errors.write(`${remains(to)}\n`);
    throw error;
  }
}

function wordsOf({ sessions, replies, parts, bytes }: Readonly<CopyCounts>): string {
  return `${count(sessions, 'session')} and ${count(replies, 'reply', 'replies')} with ${count(parts, 'part')} (${count(bytes, 'byte')})`;
}

function refusal({ why, side, message }: CopyRefused, from: EngineAddress, to: EngineAddress): string {
  const [name, address] = side === 'from' ? (['FROM', from] as const) : (['TO', to] as const);
  if (why === 'alive')
    return `${name}: ${message}; stop its servers first. One that was killed counts for 5 s more`;
  if (why === 'unsupported') return `${name}: ${message}`;
  return `${name}: ${message}; to empty it, if nothing in it is needed: ${emptying(address)}`;
}

const remains = (to: EngineAddress): string =>
  `TO has a part of FROM; before the next copy, empty it: ${emptying(to)}`;

/** The line that empties an engine. It does not repeat a password. */
function emptying(address: EngineAddress): string {
  if (address.kind === 'sqlite') return `rm -f '${address.file}' '${address.file}-wal' '${address.file}-shm'`;
  if (address.kind === 'postgres')
    return `psql '${withoutPassword(address.url)}' -c 'DROP SCHEMA parlance CASCADE'`;
  const { hostname, port, pathname } = new URL(address.url);
  const at = `redis-cli -h ${hostname} -p ${port || 6379} -n ${pathname.slice(1) || 0}`;
  return `${at} --scan --pattern 'parlance:*' | xargs -d '\\n' ${at} unlink`;
}

/** Of one host or several. */
const withoutPassword = (url: string): string => url.replace(/^(\w+:\/\/[^/?@:]*):[^/?@]*@/, '$1@');
