import { readCommandLine, wholeNumber } from '../../../scripts/command-line.js';
import { type RunReport, runChaos } from './run.js';

/** `npm run chaos`: the exit code is 1 if anything was lost, duplicated, out of order or stuck. */

const USAGE = `npm run chaos -- [--seconds N] [--sessions M]
npm run chaos -- --histories N [--seed S]

  --seconds N     duration, over real sockets and a proxy that breaks, delays and freezes
                  connections (default: 60)
  --sessions M    concurrent sessions (default: 50)
  --histories N   random histories on the simulated network instead
  --seed S        repeats the histories of an earlier run`;

const { values } = readCommandLine(USAGE, {
  options: {
    seconds: { type: 'string', default: '60' },
    sessions: { type: 'string', default: '50' },
    histories: { type: 'string' },
    seed: { type: 'string' },
  },
});

/** Share of the lost connections that sessions must recover from. */
const MIN_RECOVERED = 0.99;

const faults = values.histories === undefined ? await runSockets() : await runSimulation(values.histories);
for (const fault of faults.slice(0, 20)) console.log(`FAULT ${fault}`);
if (faults.length > 20) console.log(`… and ${faults.length - 20} more`);
// Work that got stuck would keep the process alive.
process.exit(faults.length > 0 ? 1 : 0);

async function runSockets(): Promise<readonly string[]> {
  const report = await runChaos({
    seconds: wholeNumber('seconds', values.seconds, USAGE),
    sessions: wholeNumber('sessions', values.sessions, USAGE),
  });
  print(report);
  const share = report.recovered / report.losses;
  return share >= MIN_RECOVERED || report.losses === 0
    ? report.faults
    : [...report.faults, `only ${(share * 100).toFixed(1)} % of the lost connections were recovered`];
}

function print(report: RunReport): void {
  const { arrived, sessions, connections, losses, recovered, closed, cuts } = report;
  console.log(`${arrived} messages, requests, replies and parts arrived in ${sessions} sessions`);
  console.log(
    `${connections} connections: ${cuts} cut, ${report.freezes} frozen, ${report.delays} slowed down,`,
  );
  console.log(`  ${report.halves} dead in one direction; ${report.outages} outages without new connections`);
  console.log(
    `${recovered} of ${losses} losses of a connection recovered, ${closed} sessions closed meanwhile`,
  );
  const { replies, parts, returns, complete, expected, endings } = report.followers;
  console.log(
    `${parts} parts of ${replies} kept replies read by followers, which came back ${returns} times;`,
  );
  const others = [...endings]
    .filter(([ending]) => ending !== 'complete')
    .map(([code, count]) => `${count} ${code}`);
  console.log(
    `  complete for ${complete} of ${expected}; by stops and bounds: ${others.join(', ') || 'none'}`,
  );
}

async function runSimulation(wanted: string): Promise<readonly string[]> {
  // Sources of the protocol package's tests, which it does not export.
  const { runHistories } = await import('../../../packages/protocol/src/testing/chaos/histories.js');
  const histories = wholeNumber('histories', wanted, USAGE);
  const seed = values.seed === undefined ? Date.now() % 2 ** 31 : wholeNumber('seed', values.seed, USAGE, 0);
  console.log(`${histories} histories from seed ${seed}`);
  const { faults, tally, delivered, peakUnread } = runHistories(seed, histories);
  for (const [name, count] of tally.entries()) console.log(`${String(count).padStart(9)}  ${name}`);
  console.log(`${delivered} bodies arrived; at most ${peakUnread} bytes waited unread at one end`);
  return faults;
}
