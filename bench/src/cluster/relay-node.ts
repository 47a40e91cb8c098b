import { cluster, createServer, without } from '@parlance/server';
import { redis } from '@parlance/server/redis';
import { offer } from '../../../scripts/child-process.js';
import { cpuTime } from '../process/cpu.js';
import { UNLIMITED } from '../unlimited.js';

/** One node in a process of its own, whose clients state their agent ID in the token. */

const url = process.argv[2] as string;
let others = 0;
const log = ({ event }: Readonly<Record<string, unknown>>) => {
  if (event === 'node.joined') others++;
};
const server = createServer({
  engine: redis({ url }),
  features: [cluster({ secret: 'a secret for the bench' }), without('context')],
  algorithms: ['NONE'],
  encodings: [],
  limits: UNLIMITED,
  logger: { debug: log, info: log, warn: log, error: log },
  authenticate: ({ token = '' }) => {
    const [principal = '', agentId] = token.split('/');
    return { principal, agentId };
  },
});
const { port } = await server.listen();

const commands = {
  port: () => port,
  others: () => others,
  mark: () => ({ cpuUs: cpuTime(), recoded: server.relayStats().recoded }),
};
export type RelayNodeCommands = typeof commands;

offer(commands);
