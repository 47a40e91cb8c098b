import {
  type Convergence,
  calm,
  converge,
  measureSteady,
  type Steady,
} from '../../../packages/server/src/testing/scale/testing/scale-run.js';
import { type Load, ScaleWorld } from '../../../packages/server/src/testing/scale/testing/scale-world.js';
import { readCommandLine, wholeNumber } from '../../../scripts/command-line.js';
import { measureReal } from './real.js';

/**
 * The load of clusters of some sizes on their engine and on each other, in virtual time; and of nodes with sockets
 * beside.
 */

const USAGE = `npm run simulate -- [--nodes N[,N…]] [--seed S] [--seconds S] [--real N]

  --nodes N      nodes of a simulated cluster, or of several (default 10,100,1000)
  --seed S       of everything that is random in it (default 1)
  --seconds S    how long the steady state is measured, in seconds (default 10)
  --real N       so many nodes with sockets and a Redis of their own beside the simulated ones`;

const LOAD = {
  counted: 10_000,
  agents: 100,
  stayMs: 1_000_000,
  groups: 10,
  messages: 1,
  size: 100,
} as const;
const MAX_READERS = 4;
/** A tenth of the nodes dies at once. */
const DYING = 10;

const { values } = readCommandLine(USAGE, {
  options: {
    nodes: { type: 'string', default: '10,100,1000' },
    seed: { type: 'string', default: '1' },
    seconds: { type: 'string', default: '10' },
    real: { type: 'string' },
  },
});
const sizes = values.nodes.split(',').map((text) => wholeNumber('nodes', text, USAGE, 2));
const seed = wholeNumber('seed', values.seed, USAGE);
const ms = 1_000 * wholeNumber('seconds', values.seconds, USAGE);
const real = values.real === undefined ? undefined : wholeNumber('real', values.real, USAGE, 2);

const begun = performance.now();
const say = (text: string) =>
  console.log(`${text.padEnd(100)} ${((performance.now() - begun) / 1_000).toFixed(0)} s`);
const rate = (count: number, unit = '') => `${Math.round(count).toLocaleString('en')}${unit}`;

function showSteady(nodes: number, { engine, between, messageBytes, busy, links, ms }: Steady): void {
  const seconds = ms / 1_000;
  const line = (what: string, calls: number, bytes: number) =>
    console.log(
      `  ${what.padEnd(20)}${rate(calls / seconds).padStart(10)} /s${rate(bytes / seconds / 1_000).padStart(10)} kB/s` +
        `${(bytes / seconds / nodes / 1_000).toFixed(2).padStart(10)} kB/s a node`,
    );
  for (const name of engine.names)
    if (engine.calls(name) > 0) line(name, engine.calls(name), engine.bytes(name));
  line('engine, all', engine.calls(), engine.bytes());
  for (const name of between.names) line(`between: ${name}`, between.calls(name), between.bytes(name));
  line('between, all', between.calls(), between.bytes());
  console.log(
    `  the engine is busy for ${(100 * busy).toFixed(1)} %; ${rate(links)} connections between nodes were opened; ` +
      `${rate(messageBytes / seconds / 1_000)} kB/s of messages between nodes`,
  );
}

function showConverged(
  what: string,
  { nodesMs, agentsMs, clientsMs, engine, peakCalls, peakBusy }: Convergence,
): void {
  say(
    `  ${what}: nodes known after ${nodesMs} ms, agents and groups after ${agentsMs} ms, clients answered after ${clientsMs} ms`,
  );
  console.log(
    `    engine: ${rate(engine.calls())} calls, ${rate(engine.bytes() / 1_000)} kB; at most ${rate(peakCalls)} calls in a second, ` +
      `in which it was busy for ${(100 * peakBusy).toFixed(0)} %`,
  );
  const writes = engine.names.filter((name) => name.endsWith('put') || name === 'findSession');
  console.log(`    of them ${writes.map((name) => `${name} ${rate(engine.calls(name))}`).join(', ')}`);
}

function heapBytes(): number {
  globalThis.gc?.();
  return process.memoryUsage().heapUsed;
}

async function simulate(nodes: number): Promise<Steady> {
  const load: Load = { ...LOAD, nodes, seed, readers: Math.min(nodes, MAX_READERS) };
  console.log(
    `\n${nodes} nodes, seed ${seed}: ${rate(nodes * load.counted)} sessions counted, ${rate(nodes * load.agents)} as entries`,
  );
  const world = new ScaleWorld(load);
  await world.start();
  say(`  all know each other ${world.time.now()} ms after the first began`);
  const steady = await measureSteady(world, ms);
  say('  the steady state:');
  showSteady(nodes, steady);
  await calm(world);
  const before = heapBytes();
  showConverged('one joins', await converge(world, () => void world.join(true)));
  const each = (heapBytes() - before) / (nodes * load.agents);
  console.log(
    `    an agent of another node takes ${rate(each)} B of the heap of a node, tables and directory`,
  );
  showConverged('one dies', await converge(world, () => world.kill(world.alive.slice(1, 2))));
  const many = world.alive.filter((_, i) => i % DYING === 3);
  showConverged(`${many.length} die at once`, await converge(world, () => world.kill(many)));
  await world.live(3_000);
  await calm(world);
  const wrong = [world.missing(), world.missed()];
  say(
    `  agents that are missing: ${wrong[0]}; messages to groups that are missing, doubled or out of order: ${wrong[1]}`,
  );
  if (wrong.some((count) => count > 0) || !world.isConverged) process.exitCode = 1;
  return steady;
}

console.log(`seed ${seed}`);
const steady = new Map<number, Steady>();
for (const nodes of sizes) steady.set(nodes, await simulate(nodes));

console.log(
  `\n${'nodes'.padEnd(12)}${'engine, kB/s'.padStart(14)}${'a node'.padStart(10)}${'calls/s'.padStart(12)}${'between, kB/s'.padStart(16)}${'a node'.padStart(10)}`,
);
const curve = (name: string, nodes: number, engineBytes: number, calls: number, bytes: number) =>
  console.log(
    `${name.padEnd(12)}${(engineBytes / 1_000).toFixed(1).padStart(14)}${(engineBytes / nodes / 1_000).toFixed(2).padStart(10)}` +
      `${calls.toFixed(0).padStart(12)}${(bytes / 1_000).toFixed(1).padStart(16)}${(bytes / nodes / 1_000).toFixed(2).padStart(10)}`,
  );
for (const [nodes, { engine, messageBytes, ms }] of steady)
  curve(
    String(nodes),
    nodes,
    (engine.bytes() / ms) * 1_000,
    (engine.calls() / ms) * 1_000,
    (messageBytes / ms) * 1_000,
  );
if (real !== undefined) {
  const measured = await measureReal({ ...LOAD, nodes: real, seed, readers: real }, ms);
  curve(`${real} real`, real, measured.engineBytes, measured.engineCalls, measured.messageBytes);
  const same = steady.get(real);
  if (same !== undefined)
    for (const [what, own, simulated] of [
      ['bytes of the engine', measured.engineBytes, (same.engine.bytes() / ms) * 1_000],
      ['calls of the engine', measured.engineCalls, (same.engine.calls() / ms) * 1_000],
      ['bytes between nodes', measured.messageBytes, (same.messageBytes / ms) * 1_000],
    ] as const) {
      const ratio = own / simulated;
      console.log(`${what}: ${ratio.toFixed(2)} of the simulation`);
      if (Math.abs(ratio - 1) > 0.2) process.exitCode = 1;
    }
}
say('\ndone');
