import type { ScaleWorld } from './scale-world.js';
import type { Counts } from './traffic.js';

/** How long a cluster lives before it is measured, and is measured, in milliseconds. */
const SETTLE_MS = 5_000;
/** In the time of the last messages, nothing is said any more. */
const CALM_MS = 3_000;
/** How long something may take until all nodes know of it, in milliseconds. */
const MOST_MS = 60_000;

/** The events of a run, and how long it took until all nodes knew them. */
export interface Convergence {
  /** All nodes know who lives, in milliseconds. */
  readonly nodesMs: number;
  /** The engine and all directories have the agents and groups of living nodes, and no others. */
  readonly agentsMs: number;
  /** All clients of nodes that have died were asked to begin a new session. */
  readonly clientsMs: number;
  /** Of the engine, by call. */
  readonly engine: Counts;
  /** The second with the most: calls, and how much of it the engine was busy. */
  readonly peakCalls: number;
  readonly peakBusy: number;
}

export interface Steady {
  readonly ms: number;
  readonly engine: Counts;
  readonly between: Counts;
  /** Bytes of messages between nodes, as nodes count them. */
  readonly messageBytes: number;
  /** How much of the time the engine was busy. */
  readonly busy: number;
  /** Connections between nodes. */
  readonly links: number;
}

/** Measures the traffic of the nodes in `ms`, while agents come and go and nodes send messages to groups. */
export async function measureSteady(world: ScaleWorld, ms: number): Promise<Steady> {
  await world.live(SETTLE_MS);
  const bytesNow = () => world.nodes.reduce((sum, { links }) => sum + links.traffic.bytesSent, 0);
  const [engine, between, bytes] = [world.engine.counts.copy(), world.traffic.copy(), bytesNow()];
  const since = secondOf(world);
  await world.live(ms);
  const busy = sumOf(world.engine.busyPerSecond.slice(since, secondOf(world))) / ms;
  return {
    ms,
    engine: world.engine.counts.since(engine),
    between: world.traffic.since(between),
    messageBytes: bytesNow() - bytes,
    busy,
    links: world.network.opened,
  };
}

/** Lets something happen, and waits until all nodes know of it. */
export async function converge(world: ScaleWorld, happen: () => void): Promise<Convergence> {
  const before = world.engine.counts.copy();
  const since = secondOf(world);
  const begun = world.time.now();
  happen();
  const nodesMs = await world.until(() => world.nodesAreKnown, MOST_MS);
  await world.until(() => world.isConverged, MOST_MS);
  const agentsMs = world.time.now() - begun;
  await world.until(() => world.clients === 0, MOST_MS);
  const clientsMs = world.time.now() - begun;
  return {
    ...{ nodesMs, agentsMs, clientsMs },
    engine: world.engine.counts.since(before),
    peakCalls: Math.max(...world.engine.counts.perSecond.slice(since)),
    peakBusy: Math.max(...world.engine.busyPerSecond.slice(since).map((ms) => ms / 1_000)),
  };
}

/** Lets everything arrive that was said. */
export async function calm(world: ScaleWorld): Promise<void> {
  await world.time.pass(CALM_MS);
}

const secondOf = (world: ScaleWorld): number => Math.floor(world.time.now() / 1_000);
const sumOf = (values: readonly number[]): number => values.reduce((sum, value) => sum + (value ?? 0), 0);
