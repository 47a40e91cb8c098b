import { parseArgs } from 'node:util';
import { type RunReport, runChaos } from './run.js';

/**
 * `npm run chaos -- --seconds N [--sessions M]`: sessions over real sockets and a proxy that cuts, delays,
 * halves and freezes their connections. `npm run chaos -- --histories N [--seed S]`: random histories on the
 * simulated network. The exit code is 1 where anything was lost, doubled, out of order or stuck.
 */

const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '60' },
    sessions: { type: 'string', default: '50' },
    histories: { type: 'string' },
    seed: { type: 'string' },
  },
});

/** Of the connections that a session loses, those that it has to get over. */
const MIN_RECOVERED = 0.99;

const faults = values.histories === undefined ? await runSockets() : await runSimulation(values.histories);
for (const fault of faults.slice(0, 20)) console.log(`FAULT ${fault}`);
if (faults.length > 20) console.log(`… and ${faults.length - 20} more`);
// Where something got stuck, it would keep the process from ending.
process.exit(faults.length > 0 ? 1 : 0);

async function runSockets(): Promise<readonly string[]> {
  const report = await runChaos({ seconds: Number(values.seconds), sessions: Number(values.sessions) });
  print(report);
  const share = report.recovered / report.losses;
  return share >= MIN_RECOVERED || report.losses === 0
    ? report.faults
    : [...report.faults, `only ${(share * 100).toFixed(1)} % of the lost connections were made up for`];
}

function print(report: RunReport): void {
  const { arrived, sessions, connections, losses, recovered, closed, cuts } = report;
  console.log(`${arrived} messages, requests, replies and parts arrived in ${sessions} sessions`);
  console.log(
    `${connections} connections: ${cuts} cut, ${report.freezes} frozen, ${report.delays} slowed down,`,
  );
  console.log(`  ${report.halves} dead in one direction; ${report.outages} times nobody could connect`);
  console.log(
    `${recovered} of ${losses} losses of a connection recovered, ${closed} sessions closed meanwhile`,
  );
}

async function runSimulation(histories: string): Promise<readonly string[]> {
  // Sources of the protocol's own tests, which it does not export.
  const { runHistories } = await import('../../../packages/protocol/src/testing/chaos/histories.js');
  const seed = values.seed === undefined ? Date.now() % 2 ** 31 : Number(values.seed);
  console.log(`${histories} histories from seed ${seed}`);
  const { faults, tally, delivered, peakUnread } = runHistories(seed, Number(histories));
  for (const [name, count] of tally.entries()) console.log(`${String(count).padStart(9)}  ${name}`);
  console.log(`${delivered} bodies arrived; at most ${peakUnread} bytes waited unread at one end`);
  return faults;
}
