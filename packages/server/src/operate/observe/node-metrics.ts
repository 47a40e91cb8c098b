import { readFileSync } from 'node:fs';
import { collectDefaultMetrics, Registry } from 'prom-client';

/** Metrics of the process, which all servers in it share. */

let ofProcess: Registry | undefined;

/** CPU, memory, garbage collection and the lag of the event loop, under the names that dashboards for Node expect. */
export function nodeMetrics(): Registry {
  if (ofProcess === undefined) {
    ofProcess = new Registry();
    collectDefaultMetrics({ register: ofProcess });
  }
  return ofProcess;
}

/** The version of this package. */
export function packageVersion(): string {
  const text = readFileSync(new URL('../../../package.json', import.meta.url), 'utf8');
  return (JSON.parse(text) as { version: string }).version;
}
