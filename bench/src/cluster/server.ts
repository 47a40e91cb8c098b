import { cluster } from '@parlance/server';
import { redis } from '@parlance/server/redis';
import { offer } from '../../../scripts/child-process.js';
import { cpuTime } from '../process/cpu.js';
import { serveSessions } from '../systems/session.js';

/** One server in a process of its own: on its own, or a node whose Redis is named on the command line. */

const [, , url] = process.argv;
let echoes = 0;
const { port, count } = await serveSessions(
  () => {
    echoes++;
  },
  url === undefined
    ? {}
    : { engine: redis({ url }), features: [cluster({ secret: 'a secret for the bench' })] },
);

const commands = {
  port: () => port,
  connections: () => count(),
  mark: () => ({ echoes, cpuUs: cpuTime() }),
};
export type NodeCommands = typeof commands;

offer(commands);
