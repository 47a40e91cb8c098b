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
