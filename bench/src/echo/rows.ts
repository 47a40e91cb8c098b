import { atLeast, atMost, compare, type Row } from '../row.js';
import { median } from '../statistics.js';
import type { SystemName } from '../systems/system.js';
import type { Window } from './contestant.js';
import type { Placement } from './placement.js';
import { type Case, describe } from './plan.js';

const KB = 1024;
const WHAT = { message: 'echo', request: 'request', stream: 'stream chunk' } as const;

/** Every system of a case against each of its baselines. */
export function* echoRows(
  each: Case,
  placement: Placement,
  windows: ReadonlyMap<SystemName, readonly Window[]>,
): Generator<Row> {
  const figure = (name: SystemName, key: 'rate' | 'cpu') =>
    median((windows.get(name) ?? []).map((window) => window[key]));
  const label = (name: SystemName) => `${WHAT[each.exchange]} ${name} ${describe(each, placement)}`;

  for (const name of each.systems) {
    const others = each.systems.filter((other) => other !== name);
    const baselines = name === 'session' ? others : each.systems.slice(0, 1);
    for (const baseline of baselines) {
      const held = { name: baseline, value: figure(baseline, 'rate') };
      yield compare(label(name), 'msg/s', 'higher', figure(name, 'rate'), held, (ratio) =>
        name === 'session' ? rateTarget(each, baseline, ratio) : undefined,
      );
    }
    for (const baseline of baselines) {
      const held = { name: baseline, value: figure(baseline, 'cpu') };
      yield compare(label(name), 'us/msg', 'lower', figure(name, 'cpu'), held, (ratio) =>
        name === 'session' ? cpuTarget(each, baseline, ratio) : undefined,
      );
    }
  }
}

function rateTarget(
  { exchange, connections, size, depth }: Case,
  baseline: SystemName,
  ratio: number,
): Row['target'] {
  if (exchange !== 'message' || baseline === 'socket.io' || baseline === 'bound') return undefined;
  if (baseline === 'ws+cork')
    return connections <= 64 && size <= KB && depth > 1 ? atLeast(0.65)(ratio) : undefined;
  if (size > KB) return atLeast(0.9)(ratio);
  if (connections > 64) return atLeast(0.85)(ratio);
  return atLeast(depth > 1 ? 1.5 : 0.8)(ratio);
}

function cpuTarget(
  { exchange, connections, size }: Case,
  baseline: SystemName,
  ratio: number,
): Row['target'] {
  if (exchange !== 'message') return undefined;
  if (baseline === 'socket.io') return atMost(0.5)(ratio);
  return baseline === 'ws' && connections > 64 && size <= KB ? atMost(1.15)(ratio) : undefined;
}
