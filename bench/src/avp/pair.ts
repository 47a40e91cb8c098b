import { type Child, startChild } from '../../../scripts/child-process.js';
import type { TransferCommands } from '../process/transfer.js';
import type { TransferSystemName } from './ends.js';

/** Both ends of one connection, each in a process of its own. */
export interface Pair {
  readonly system: TransferSystemName;
  readonly client: Child<TransferCommands>;
  readonly server: Child<TransferCommands>;
  readonly port: number;
  stop(): void;
}

export const DIRECTIONS = [
  { name: 'client to server', from: 'client', to: 'server' },
  { name: 'server to client', from: 'server', to: 'client' },
] as const;
export type Direction = (typeof DIRECTIONS)[number];

export async function startPair(system: TransferSystemName): Promise<Pair> {
  const [client, server] = [startEnd(system), startEnd(system)];
  const port = await server.call('serve');
  await client.call('connect', { port });
  const stop = () => {
    client.stop();
    server.stop();
  };
  return { system, client, server, port, stop };
}

export function startEnd(system: TransferSystemName): Child<TransferCommands> {
  return startChild(new URL('../process/transfer.ts', import.meta.url), [system], ['--expose-gc']);
}
