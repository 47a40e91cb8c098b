import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { RelayCommand, RelayReport } from './relay.js';

/** Makes a sender address another client instead of the server. */
export interface Addressing {
  /** Identifies the sender to the server. */
  readonly token: string;
  readonly to: string;
}

export function startSender(url: string, tokens: number, addressing?: Addressing): ChildProcess {
  const who = addressing === undefined ? [] : [addressing.token, addressing.to];
  return start('sender', [url, String(tokens), ...who]);
}

/** A server in its own process. */
export interface Relay {
  readonly url: string;
  watchMemory(): void;
  /** Peak growth of its memory in bytes since `watchMemory`. */
  peakBytes(): Promise<number>;
  stop(): void;
}

export async function startRelay(): Promise<Relay> {
  const child = start('relay', []);
  const send = (command: RelayCommand) => child.send(command);
  const nextReport = async () => (await once(child, 'message'))[0] as RelayReport;
  const { url } = await nextReport();
  return {
    url,
    watchMemory: () => void send('watch'),
    async peakBytes() {
      send('report');
      return (await nextReport()).peakBytes;
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

/** Ctrl-C reaches every process of a terminal, so any of them may exit first. */
export function watchStop(): void {
  process.once('SIGINT', stop);
}

function stop(): never {
  console.log('\n\n  stopped');
  process.exit(130);
}
