import { createServer } from '@parlance/server';
import { type PeakMemory, watchMemory } from './memory.js';

/** A server that connects its clients and has no model of its own. */

export type RelayCommand = 'watch' | 'report';
export interface RelayReport {
  readonly url: string;
  readonly peakBytes: number;
}

const server = createServer({
  limits: { messagesPerMinute: Infinity, bytesPerSecond: Infinity },
  // A real server verifies a token; here the token is the agent's name.
  authenticate: ({ token }) => (token === undefined ? null : { principal: 'team', agentId: token }),
});
const { url } = await server.listen();
let memory: PeakMemory | undefined;
const report = () => process.send?.({ url, peakBytes: memory?.peak() ?? 0 } satisfies RelayReport);

process.on('message', (command: RelayCommand) => {
  if (command === 'watch') memory = watchMemory();
  else report();
});
process.once('disconnect', () => process.exit());
report();
