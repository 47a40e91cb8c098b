import {
  type Contestant,
  closeConnections,
  measureWindow,
  openConnections,
  startContestant,
  stopContestant,
  type Window,
  warmUp,
} from './echo/contestant.js';
import { measureIdle } from './echo/idle.js';
import { type Placement, place } from './echo/placement.js';
import { type Case, createPlan, describe, type Plan } from './echo/plan.js';
import { echoRows } from './echo/rows.js';
import { maxConnections } from './load/open-files.js';
import type { BenchOptions, Row } from './row.js';
import { SYSTEM_NAMES, type SystemName } from './systems/system.js';

/**
 * Echoed messages over a session and over other systems. Every server and every load is a process of its own.
 * The systems take turns in short windows, forwards and backwards, because a shared machine is slow now and
 * then. The medians are compared: trust the ratios and the CPU per message, not the rates.
 */
export async function* run({ quick }: BenchOptions): AsyncGenerator<Row> {
  yield* measure(createPlan(quick), SYSTEM_NAMES);
}

/** Some cases of the plan, with the systems that are in them. */
export async function* measure(plan: Plan, systems: readonly SystemName[]): AsyncGenerator<Row> {
  const most = maxConnections();
  const contestants = await Promise.all(systems.map(startContestant));
  try {
    for (const placement of plan.placements) {
      await placeAll(contestants, placement);
      for (const each of plan.cases) {
        const what = describe(each, placement);
        if (each.connections > most) {
          console.error(`skipped ${what}: the limit of open files (ulimit -n) allows ${most} connections`);
          continue;
        }
        const taking = contestants.filter(({ name }) => each.systems.includes(name));
        const windows = await measureCase(taking, each, plan);
        for (const name of each.systems)
          warnOfLoad(`${name} ${each.exchange} ${what}`, windows.get(name) ?? []);
        yield* echoRows(each, placement, windows);
      }
    }
    // Runs last because it forces garbage collections; afterwards V8 keeps a process's heap small and
    // collects more often.
    const idle = contestants.filter(({ name }) => name !== 'ws+id');
    const idlePlan = { ...plan, idleConnections: Math.min(plan.idleConnections, most) };
    for (const placement of plan.placements) {
      await placeAll(contestants, placement);
      yield* measureIdle(idle, placement, idlePlan);
    }
  } finally {
    for (const contestant of contestants) stopContestant(contestant);
  }
}

async function placeAll(contestants: readonly Contestant[], placement: Placement): Promise<void> {
  await Promise.all(contestants.map((contestant) => place(contestant, placement)));
}

async function measureCase(
  contestants: readonly Contestant[],
  each: Case,
  plan: Plan,
): Promise<Map<SystemName, Window[]>> {
  const { connections, size, depth, exchange } = each;
  const windows = new Map<SystemName, Window[]>(contestants.map(({ name }) => [name, []]));
  for (const contestant of contestants) {
    await openConnections(contestant, { connections, size, depth, exchange });
    await warmUp(contestant, plan.warmUp);
  }
  for (let round = 0; round < plan.rounds; round++) {
    for (const contestant of round % 2 === 0 ? contestants : contestants.toReversed())
      windows.get(contestant.name)?.push(await measureWindow(contestant, plan));
  }
  for (const contestant of contestants) await closeConnections(contestant);
  return windows;
}

/** If the load limited the rate, the rate says nothing about the server; its CPU per message still does. */
function warnOfLoad(what: string, windows: readonly Window[]): void {
  const held = windows.filter(({ loadBusy, serverBusy }) => loadBusy > 0.95 && serverBusy < 0.85);
  if (held.length * 2 > windows.length)
    console.error(`${what}: the load generator was busier than the server`);
}
