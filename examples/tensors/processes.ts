import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { RelayCommand, RelayReport } from './relay.js';

/** The processes beside this one, which end with it. */

/** Whom a sender talks to, where that is not the server itself. */
export interface Addressing {
  /** Says to the server who the sender is. */
  readonly token: string;
  readonly to: string;
}

export function startSender(url: string, tokens: number, addressing?: Addressing): ChildProcess {
  const who = addressing === undefined ? [] : [addressing.token, addressing.to];
  return start('sender', [url, String(tokens), ...who]);
}

/** A server with two clients, in a process of its own. */
export interface Relay {
  readonly url: string;
  watchMemory(): void;
  /** Bytes that its memory has grown by since then, at most. */
  peakBytes(): Promise<number>;
  stop(): void;
}

export async function startRelay(): Promise<Relay> {
  const child = start('relay', []);
  const say = (command: RelayCommand) => child.send(command);
  const hear = async () => (await once(child, 'message'))[0] as RelayReport;
  const { url } = await hear();
  return {
    url,
    watchMemory: () => void say('watch'),
    async peakBytes() {
      say('report');
      return (await hear()).peakBytes;
    },
    stop: () => child.disconnect(),
  };
}

function start(name: 'sender' | 'relay', args: readonly string[]): ChildProcess {
  const child = fork(fileURLToPath(new URL(`./${name}.ts`, import.meta.url)), args);
  child.once('exit', (code, signal) => {
    if (code === 0) return;
    if (signal === 'SIGINT') stop();
    console.error(`\nthe ${name} failed`);
    process.exit(1);
  });
  return child;
}

/** Ctrl-C reaches every process of a terminal, so any of them may be the first to be gone. */
export function watchStop(): void {
  process.once('SIGINT', stop);
}

function stop(): never {
  console.log('\n\n  stopped');
  process.exit(130);
}
