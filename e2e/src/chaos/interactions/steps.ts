import { createRandom, type Random } from '../../../../packages/protocol/src/testing/chaos/random.js';
import { AGENTS, type Question } from './settings.js';

/** The grammar of a history: what happens, and when, follows from the seed alone. */

/** How a follower finds its reply, and whether it begins with the first part or where the requester is. */
export interface Following {
  readonly question: string;
  readonly by: 'name' | 'id';
  readonly from: 'start' | 'here';
}

export type Act =
  /** A question for the server, or for another agent. */
  | ({ readonly do: 'ask'; readonly who: string; readonly to?: string } & Question)
  /** A message to the server, whose handler takes some time for it. */
  | { readonly do: 'say'; readonly who: string; readonly workMs: number }
  /** Messages to another agent. */
  | { readonly do: 'tell'; readonly who: string; readonly to: string; readonly count: number }
  | ({ readonly do: 'follow'; readonly who: string } & Following)
  /** A second device follows. */
  | ({ readonly do: 'device'; readonly name: string } & Following)
  /** A new client takes the place of the present one, with the same store. */
  | { readonly do: 'reload'; readonly who: string }
  | { readonly do: 'cut'; readonly who: string }
  | { readonly do: 'freeze'; readonly who: string; readonly ms: number }
  | { readonly do: 'kill' | 'drain'; readonly node: number }
  /** SIGSTOP, or nothing passes between the node and the engine. */
  | { readonly do: 'pause' | 'part'; readonly node: number; readonly ms: number }
  /** The engine takes 100 ms; ends and starts again with its data; takes no writes. */
  | { readonly do: 'slow' | 'restart' | 'fill'; readonly ms: number }
  /** All present connections to the engine are dead, and new ones work. */
  | { readonly do: 'silence' };

export type Step = Act & { readonly at: number };

/** How often something happens, among a hundred things that users do, that happen to nodes, and that happen to the engine. */
export interface Mix {
  readonly users: Readonly<Record<Exclude<UserAct, 'ask'> | 'askServer' | 'askAgent', number>>;
  readonly nodes: Readonly<Record<'kill' | 'drain' | 'pause' | 'part', number>>;
  /** All 0 if nothing can. */
  readonly engine: Readonly<Record<'slow' | 'silence' | 'restart' | 'fill', number>>;
  /** In percent: questions whose replies are under way for seconds, and those whose handlers are called again. */
  readonly long: number;
  readonly again: number;
  /** In percent: followers of one of the newest replies; the rest follow any. */
  readonly newest: number;
}

type UserAct = 'ask' | 'say' | 'tell' | 'follow' | 'device' | 'reload' | 'cut' | 'freeze';

export const USUAL_MIX: Mix = {
  users: {
    askServer: 22,
    askAgent: 10,
    say: 20,
    tell: 22,
    follow: 12,
    device: 6,
    reload: 2,
    cut: 4,
    freeze: 2,
  },
  nodes: { kill: 45, drain: 20, pause: 18, part: 17 },
  engine: { slow: 40, silence: 20, restart: 20, fill: 20 },
  long: 30,
  again: 60,
  newest: 75,
};

/** Average times between two acts of users, two faults of nodes, and two of the engine, in milliseconds. */
const USERS_MS = 110;
const NODES_MS = 2_200;
const ENGINE_MS = 5_500;
/** Nothing fails before that, and nothing begins to fail in this time before the end. */
const QUIET_MS = 1_500;
/** Time in which a node is expected to take the place of another one, or to be itself again. */
const START_MS = 3_500;
/** Longer than a lease, in some cases. */
const MAX_AWAY_MS = 8_000;

/** @param nodes at a time. */
export function stepsOf(seed: number, seconds: number, mix: Mix = USUAL_MIX, nodes = 3): readonly Step[] {
  const endMs = seconds * 1_000;
  const steps = [
    ...userSteps(createRandom(seed), endMs, mix),
    ...failures(createRandom(seed + 1), endMs - QUIET_MS, mix, nodes),
  ];
  return steps.sort((one, other) => one.at - other.at);
}

/** A time around the average, but never none. */
const around = (random: Random, ms: number): number => random.below(2 * ms) + 1;

// --- users

function* userSteps(random: Random, endMs: number, mix: Mix): Generator<Step> {
  /** Questions that the server keeps; the newest are the last. */
  const kept: string[] = [];
  let number = 0;
  for (let at = around(random, USERS_MS); at < endMs; at += around(random, USERS_MS)) {
    const who = pick(random, AGENTS);
    const to = pick(
      random,
      AGENTS.filter((each) => each !== who),
    );
    const name = `q${number++}`;
    const act = chosen(random, mix.users);
    switch (act) {
      case 'askServer': {
        const keep = pick(random, ['name', 'name', 'policy', 'policy', 'no'] as const);
        if (keep !== 'no') kept.push(name);
        const again = { ...lengthOf(random, mix), keep, again: random.chance(mix.again) };
        yield { at, do: 'ask', who, id: name, ...again };
        break;
      }
      case 'askAgent':
        yield { at, do: 'ask', who, to, id: name, ...lengthOf(random, mix), keep: 'no', again: false };
        break;
      case 'say':
        yield { at, do: act, who, workMs: random.chance(12) ? 500 + random.below(2_000) : random.below(8) };
        break;
      case 'tell':
        yield { at, do: act, who, to, count: 1 + random.below(6) };
        break;
      case 'follow':
      case 'device': {
        const question = followed(random, kept, mix);
        if (question === undefined) continue;
        const following = {
          question,
          by: pick(random, ['name', 'id'] as const),
          from: pick(random, ['start', 'here'] as const),
        };
        if (act === 'follow') yield { at, do: act, who, ...following };
        else yield { at, do: act, name: `device ${name}`, ...following };
        break;
      }
      case 'freeze':
        yield { at, do: act, who, ms: 200 + random.below(3_000) };
        break;
      default:
        yield { at, do: act, who };
    }
  }
}

/** Some replies are under way for seconds, so that something happens to their nodes. */
function lengthOf(random: Random, { long }: Mix): { readonly parts: number; readonly paceMs: number } {
  if (random.chance(long)) return { parts: 80 + random.below(120), paceMs: 20 };
  return { parts: 1 + random.below(40), paceMs: 15 };
}

function followed(random: Random, names: readonly string[], { newest }: Mix): string | undefined {
  return random.pick(random.chance(newest) ? names.slice(-5) : names);
}

function pick<T>(random: Random, items: readonly T[]): T {
  return items[random.below(items.length)] as T;
}

/** One of the names, each as often as the mix says. */
function chosen<Name extends string>(random: Random, mix: Readonly<Record<Name, number>>): Name {
  const entries = Object.entries<number>(mix) as [Name, number][];
  let left = random.below(entries.reduce((sum, [, weight]) => sum + weight, 0));
  for (const [name, weight] of entries) {
    if (left < weight) return name;
    left -= weight;
  }
  throw new RangeError('a mix has nothing in it');
}

// --- what fails

/**
 * At least one of several nodes and, between two of its failures, the engine are well at any time, as far as that can be said
 * before.
 */
function* failures(random: Random, endMs: number, mix: Mix, nodes: number): Generator<Step> {
  /** Until when each node is expected to be away. */
  const away = new Array<number>(nodes).fill(0);
  const canFail = Object.values(mix.engine).some((weight) => weight > 0);
  let engineAt = canFail ? QUIET_MS + around(random, ENGINE_MS) : Infinity;
  for (let at = QUIET_MS + random.below(NODES_MS); at < endMs; at += around(random, NODES_MS)) {
    while (engineAt < at) {
      const [step, ms] = engineFailure(random, engineAt, mix);
      yield step;
      engineAt += ms + around(random, ENGINE_MS);
      // Drains beside a slow engine are where two promises meet.
      if (step.do !== 'slow') continue;
      const drainAt = step.at + 300 + random.below(700);
      const node = well(random, away, drainAt);
      if (node === undefined || drainAt >= endMs) continue;
      away[node] = drainAt + START_MS;
      yield { at: drainAt, do: 'drain', node };
    }
    const node = well(random, away, at);
    if (node === undefined) continue;
    const step = nodeFailure(random, node, at, mix);
    away[node] = at + ('ms' in step ? step.ms : START_MS) + 500;
    yield step;
  }
}

/** A node that may fail now; `undefined` if too few are well. */
function well(random: Random, away: readonly number[], at: number): number | undefined {
  const nodes = [...away.keys()].filter((node) => (away[node] as number) <= at);
  return nodes.length < Math.min(2, away.length) ? undefined : random.pick(nodes);
}

function nodeFailure(
  random: Random,
  node: number,
  at: number,
  { nodes }: Mix,
): Extract<Step, { readonly node: number }> {
  const act = chosen(random, nodes);
  if (act === 'kill' || act === 'drain') return { at, do: act, node };
  const ms = random.chance(60) ? 300 + random.below(2_000) : 3_500 + random.below(MAX_AWAY_MS - 3_500);
  return { at, do: act, node, ms };
}

function engineFailure(random: Random, at: number, { engine }: Mix): readonly [step: Step, ms: number] {
  const act = chosen(random, engine);
  if (act === 'silence') return [{ at, do: act }, 4_000];
  if (act === 'slow') {
    const ms = 2_500 + random.below(3_000);
    return [{ at, do: act, ms }, ms];
  }
  const ms = 200 + random.below(act === 'restart' ? 2_000 : 3_500);
  return [{ at, do: act, ms }, ms + 500];
}

// --- for people

const SECOND = 1_000;

/** One line, such as `12.340 d0 asks q17: 40 parts, kept by name, again`. */
export function describeStep(step: Step): string {
  return `${(step.at / SECOND).toFixed(3).padStart(7)}  ${describeAct(step)}`;
}

function describeAct(act: Act): string {
  switch (act.do) {
    case 'ask': {
      const kept = { name: ', kept by name', policy: ', kept by policy', no: '' }[act.keep];
      const again = act.again ? ', again' : '';
      return `${act.who} asks ${act.to ?? 'the server'} ${act.id}: ${act.parts} parts, one in ${act.paceMs} ms${kept}${again}`;
    }
    case 'say':
      return `${act.who} says a number to the server, whose handler takes ${act.workMs} ms`;
    case 'tell':
      return `${act.who} tells ${act.to} ${act.count} numbers`;
    case 'follow':
      return `${act.who} follows ${act.question} by ${act.by} from ${act.from}`;
    case 'device':
      return `${act.name} follows ${act.question} by ${act.by} from ${act.from}`;
    case 'reload':
      return `${act.who} reloads`;
    case 'cut':
      return `the connection of ${act.who} is cut`;
    case 'freeze':
      return `the connection of ${act.who} is frozen for ${act.ms} ms`;
    case 'kill':
      return `node ${act.node} is killed`;
    case 'drain':
      return `node ${act.node} drains`;
    case 'pause':
      return `node ${act.node} is paused for ${act.ms} ms`;
    case 'part':
      return `node ${act.node} is cut off from the engine for ${act.ms} ms`;
    case 'slow':
      return `the engine is 100 ms away for ${act.ms} ms`;
    case 'restart':
      return `the engine ends, and starts again with its data after ${act.ms} ms`;
    case 'fill':
      return `the engine takes no writes for ${act.ms} ms`;
    case 'silence':
      return 'all present connections to the engine fall silent';
  }
}
