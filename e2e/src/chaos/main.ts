import { readCommandLine, wholeNumber } from '../../../scripts/command-line.js';
import { runDeploy } from './cluster/deploy.js';
import { runFaults } from './cluster/faults.js';
import { PLANTS, type Plant } from './cluster/plant.js';
import { DURABLE_PLANTS, type DurablePlant } from './durable/plant.js';
import { runDurable } from './durable/run.js';
import { ENGINE_KINDS, type EngineOfHistory } from './interactions/engines.js';
import {
  INTERACTION_PLANTS,
  type InteractionPlant,
  isOf,
  PLANT_TRIES,
  plantsOf,
} from './interactions/plant.js';
import { runInteractions } from './interactions/run.js';
import { type RunReport, runChaos } from './run.js';

/** `npm run chaos`: the exit code is 1 if anything was lost, duplicated, out of order or stuck. */

const USAGE = `npm run chaos -- [--seconds N] [--sessions M]
npm run chaos -- --histories N [--seed S]
npm run chaos -- --cluster [deploy | faults] [--seconds N] [--streams N] [--busy N] [--idle N]
                    [--plant FAULT]
npm run chaos -- --redis [--seconds N] [--seed S]
npm run chaos -- --cluster --durable [--seconds N] [--sessions M] [--nodes N] [--seed S] [--plant FAULT | --plants]
npm run chaos -- --interactions [--engine ENGINE] [--seconds N] [--seed S] [--seeds N] [--plant FAULT | --plants]

  --seconds N     duration, over real sockets and a proxy that breaks, delays and freezes
                  connections (default: 60)
  --sessions M    concurrent sessions (default: 50)
  --histories N   random histories on the simulated network instead
  --seed S        repeats the histories of an earlier run; with --durable, what happens to the nodes; with --redis, to
                  the connections; with --interactions, all that is done, and when
  --redis         60 connections to a Redis are refused, reset and silenced, and Redis is paused, killed and
                  takes no more of them; all have to answer within 7 s after that
  --cluster       three nodes in processes of their own, with Redis, behind a balancer that picks any of
                  them. deploy: every node is replaced while it is in use, behind HAProxy with TLS;
                  faults: nodes, the engine and the connections of every leg fail. Without a word,
                  first the one and then the other
  --streams N     deploy: sessions with one streamed answer after another (default: 200)
  --busy N        deploy: sessions that say something four times a second (default: 50)
  --idle N        deploy: sessions that say something once a minute (default: 1000)
  --log FILE      appends what the nodes log, and with --interactions to FILE.effects what their handlers do
  --plant FAULT   a fault that has to be found, to check the checker: ${Object.keys(PLANTS).join(', ')}
  --durable       sessions that outlive their nodes: nodes are killed, paused and drained, Redis is killed and
                  paused, and no session may end. Its faults: ${Object.keys(DURABLE_PLANTS).join(', ')}
  --interactions  agents with durable and plain sessions ask, tell and follow on three nodes that are killed,
                  drained, paused and cut off, with an engine that is slow, silent, restarted and full. Each error has
                  to be one that the documents allow. Its faults: ${Object.keys(INTERACTION_PLANTS).join(', ')}
  --engine ENGINE the engine of interactions: ${Object.keys(ENGINE_KINDS).join(', ')} (default: redis). With sqlite, one
                  node after the other; in memory, nodes of one process, of which none is killed
  --seeds N       so many histories, one after another, from the seed on (default: 1)
  --nodes N       with --durable (default: 3)
  --python        with --durable every other user, and with --interactions every other agent, has a client in Python
  --http          with --durable and --interactions, sessions are over HTTP
  --plants        one run for each fault of the kind of chaos; fails if one is not found, with --interactions by a
                  contradiction that comes of it`;

const { values, positionals } = readCommandLine(USAGE, {
  allowPositionals: true,
  options: {
    seconds: { type: 'string', default: '60' },
    sessions: { type: 'string', default: '50' },
    histories: { type: 'string' },
    seed: { type: 'string' },
    redis: { type: 'boolean', default: false },
    cluster: { type: 'boolean', default: false },
    streams: { type: 'string', default: '200' },
    busy: { type: 'string', default: '50' },
    idle: { type: 'string', default: '1000' },
    durable: { type: 'boolean', default: false },
    interactions: { type: 'boolean', default: false },
    engine: { type: 'string' },
    seeds: { type: 'string', default: '1' },
    plant: { type: 'string' },
    plants: { type: 'boolean', default: false },
    nodes: { type: 'string', default: '3' },
    python: { type: 'boolean', default: false },
    http: { type: 'boolean', default: false },
    log: { type: 'string' },
  },
});

/** Those of `--durable` and `--interactions`. */
const CLIENTS = { python: values.python, transport: values.http ? 'http' : 'websocket' } as const;
const ENGINES = 60;
/** How long Redis is well before all of them have to answer, in milliseconds. */
const ENGINE_PATIENCE_MS = 7_000;
/** Nodes have a minute, of which the last moments are for what is left. */
const DRAIN = { drainMs: 45_000, returnWithinMs: 2_000 };
/** How long nodes fail at least if a deploy has taken most of the time. */
const MIN_FAULT_SECONDS = 10;
/** Share of the lost connections that sessions must recover from. */
const MIN_RECOVERED = 0.99;

/** Faults that are printed. */
const SHOWN = 20;

const faults = await runChosen();
for (const fault of faults.slice(0, SHOWN)) console.log(`FAULT ${fault}`);
if (faults.length > SHOWN) console.log(`… and ${faults.length - SHOWN} more`);
// Work that got stuck would keep the process alive.
process.exit(faults.length > 0 ? 1 : 0);

function runChosen(): Promise<readonly string[]> {
  if (values.redis) return runRedis();
  if (values.interactions || values.engine !== undefined) return runHistoriesOfInteractions();
  if (values.cluster) return values.durable ? runDurableSessions() : runCluster();
  return values.histories === undefined ? runSockets() : runSimulation(values.histories);
}

async function runCluster(): Promise<readonly string[]> {
  const start = performance.now();
  const [scenario = 'both', ...rest] = positionals;
  const isKnown = ['deploy', 'faults', 'both'].includes(scenario) && rest.length === 0;
  const { plant } = values;
  if (!isKnown || (plant !== undefined && !Object.hasOwn(PLANTS, plant))) refuse();
  const seconds = wholeNumber('seconds', values.seconds, USAGE);
  const nodes = wholeNumber('nodes', values.nodes, USAGE);
  const common = { nodes, plant: plant as Plant | undefined, log: values.log };
  const faults: string[] = [];
  if (scenario !== 'faults') {
    const streams = wholeNumber('streams', values.streams, USAGE);
    const idle = wholeNumber('idle', values.idle, USAGE);
    const busy = wholeNumber('busy', values.busy, USAGE);
    const report = await runDeploy({ ...common, ...DRAIN, streams, busy, idle });
    for (const line of report.lines) console.log(line);
    faults.push(...report.faults);
  }
  if (scenario !== 'deploy') {
    const leftSeconds = seconds - Math.round((performance.now() - start) / 1_000);
    const report = await runFaults({
      ...common,
      seconds: Math.max(MIN_FAULT_SECONDS, leftSeconds),
      sessions: 40,
    });
    for (const line of report.lines) console.log(line);
    faults.push(...report.faults);
  }
  if (faults.length > SHOWN) for (const line of kindsOf(faults)) console.log(line);
  return faults;
}

async function runRedis(): Promise<readonly string[]> {
  const { storm } = await import('../../../packages/server/src/engine/testing/redis-storm.js');
  const seed = seedOf();
  const seconds = wholeNumber('seconds', values.seconds, USAGE);
  const report = await storm({ seed, seconds, engines: ENGINES, patienceMs: ENGINE_PATIENCE_MS });
  const { answered, tookMs, opened, open } = report;
  console.log(
    `redis, seed ${seed}: ${answered} of ${ENGINES} answer ${tookMs} ms after all is well; ${opened} connections opened, ${open} open`,
  );
  return answered === ENGINES && open === ENGINES ? [] : ['not every engine has one connection that works'];
}

async function runDurableSessions(): Promise<readonly string[]> {
  const options = {
    nodes: wholeNumber('nodes', values.nodes, USAGE),
    seconds: wholeNumber('seconds', values.seconds, USAGE),
    sessions: wholeNumber('sessions', values.sessions, USAGE),
    seed: seedOf(),
    ...CLIENTS,
    log: values.log,
  };
  return await runPlanted(DURABLE_PLANTS, async (plant: DurablePlant | undefined) => {
    const { faults, lines } = await runDurable({ ...options, plant });
    for (const line of [...lines, ...kindsOf(faults)]) console.log(line);
    return faults;
  });
}

async function runHistoriesOfInteractions(): Promise<readonly string[]> {
  const seconds = wholeNumber('seconds', values.seconds, USAGE);
  const seeds = wholeNumber('seeds', values.seeds, USAGE);
  const { engine = 'redis' } = values;
  if (!isEngine(engine)) return refuse();
  const { missing } = ENGINE_KINDS[engine];
  if (missing !== undefined) return [missing];
  const run = async (plant: InteractionPlant | undefined) => {
    const first = seedOf(plant && 1);
    const end = first + (plant === undefined ? seeds : Math.max(seeds, PLANT_TRIES));
    const all: string[] = [];
    for (let seed = first; seed < end; seed++) {
      const { faults, lines } = await runInteractions({
        ...{ engine, seconds, seed, plant },
        ...{ ...CLIENTS, log: values.log },
      });
      for (const line of lines) console.log(line);
      all.push(...faults.map((fault) => `seed ${seed}: ${fault}`));
      if (plant !== undefined && faults.some((fault) => isOf(plant, fault))) break;
    }
    return all;
  };
  return await runPlanted(plantsOf(engine), run, isOf);
}

/**
 * One run, with the fault that was asked for, or one for each fault, which it has to find.
 *
 * @param isOfPlant whether what was found is what the fault makes. @default anything is
 */
async function runPlanted<Name extends string>(
  plants: Readonly<Partial<Record<Name, string>>>,
  run: (plant: Name | undefined) => Promise<readonly string[]>,
  isOfPlant: (plant: Name, found: string) => boolean = () => true,
): Promise<readonly string[]> {
  const { plant } = values;
  if (positionals.length > 0 || (plant !== undefined && !Object.hasOwn(plants, plant))) refuse();
  if (!values.plants) return await run(plant as Name | undefined);
  const unseen: string[] = [];
  for (const [name, what] of Object.entries(plants as Readonly<Record<string, string>>)) {
    console.log(`${name}: ${what}`);
    const found = (await run(name as Name)).find((fault) => isOfPlant(name as Name, fault));
    if (found === undefined) unseen.push(`nothing was found that comes of it that ${what}`);
    else console.log(`found: ${found}`);
  }
  return unseen;
}

function refuse(): never {
  console.error(`unknown scenario, engine or fault\n\n${USAGE}`);
  process.exit(2);
}

function isEngine(name: string): name is EngineOfHistory {
  return Object.hasOwn(ENGINE_KINDS, name);
}

function seedOf(standard = Date.now() % 2 ** 31): number {
  return values.seed === undefined ? standard : wholeNumber('seed', values.seed, USAGE, 0);
}

/** How many faults there are of each kind. */
function kindsOf(faults: readonly string[]): readonly string[] {
  const counts = new Map<string, number>();
  for (const fault of faults) {
    const kind = fault
      .replace(/^[\w-]+: /, '')
      .replace(/ (sess_|q)\w+/g, '')
      .replace(/ at \S+$/, '')
      .replace(/\d+/g, 'N');
    counts.set(kind, (counts.get(kind) ?? 0) + 1);
  }
  return [...counts].map(([kind, count]) => `${String(count).padStart(9)}  ${kind}`);
}

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
  const seed = seedOf();
  console.log(`${histories} histories from seed ${seed}`);
  const { faults, tally, delivered, peakUnread } = runHistories(seed, histories);
  for (const [name, count] of tally.entries()) console.log(`${String(count).padStart(9)}  ${name}`);
  console.log(`${delivered} bodies arrived; at most ${peakUnread} bytes waited unread at one end`);
  return faults;
}
