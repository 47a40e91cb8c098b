import type { Exchange, SystemName } from '../systems/system.js';
import { PLACEMENTS, type Placement } from './placement.js';

/** One combination at which all of its systems are measured, in turns. */
export interface Case {
  readonly exchange: Exchange;
  readonly systems: readonly SystemName[];
  readonly connections: number;
  /** Bytes per message. */
  readonly size: number;
  /** Messages, requests or streams in flight per connection. */
  readonly depth: number;
}

export interface Plan {
  readonly cases: readonly Case[];
  /** Turns of every system in every case; the median counts. */
  readonly rounds: number;
  /** Milliseconds of a turn before measuring begins, and while it runs. */
  readonly rampMs: number;
  readonly windowMs: number;
  /** All cases are measured in each of them. */
  readonly placements: readonly Placement[];
  /** Messages before the first turn, for the JIT compiler. */
  readonly warmUp: number;
  /** Connections that are opened, measured while idle, and closed, in every turn. */
  readonly idleConnections: number;
  readonly idleRounds: number;
}

const KB = 1024;
const SIZES = [100, KB, 16 * KB];
const QUICK_SIZES = [KB, 16 * KB];
const CROWDS = [
  { connections: 1, depth: 1 },
  { connections: 1, depth: 64 },
  { connections: 64, depth: 8 },
  { connections: 1000, depth: 2 },
];

const messages = (sizes: readonly number[]): Case[] =>
  CROWDS.flatMap((crowd) =>
    sizes.map(
      (size): Case => ({
        ...crowd,
        size,
        exchange: 'message',
        systems: ['ws', 'ws+cork', 'bound', 'session', 'socket.io'],
      }),
    ),
  );

/**
 * `ws` has no requests: its echo is the lower bound for a round trip; IDs are what an application would add.
 */
const requests: readonly Case[] = [
  { connections: 1, depth: 1, size: KB },
  { connections: 1, depth: 64, size: 100 },
  { connections: 64, depth: 8, size: KB },
  { connections: 1000, depth: 2, size: KB },
].map((crowd): Case => ({ ...crowd, exchange: 'request', systems: ['ws', 'ws+id', 'session', 'socket.io'] }));

/** Depth is the number of requests in flight, size the size of a chunk, and every chunk counts. */
const streams: readonly Case[] = [
  { connections: 1, depth: 1, size: 100 },
  { connections: 1, depth: 16, size: 100 },
  { connections: 64, depth: 4, size: 100 },
  { connections: 64, depth: 4, size: KB },
].map((crowd): Case => ({ ...crowd, exchange: 'stream', systems: ['ws+id', 'session', 'socket.io'] }));

export function createPlan(quick: boolean): Plan {
  const timing = quick
    ? { rounds: 3, rampMs: 30, windowMs: 120, warmUp: 1_000, idleConnections: 300, idleRounds: 1 }
    : { rounds: 9, rampMs: 60, windowMs: 220, warmUp: 5_000, idleConnections: 1000, idleRounds: 4 };
  const cases = [...messages(quick ? QUICK_SIZES : SIZES), ...requests, ...streams];
  return { cases, placements: PLACEMENTS, ...timing };
}

/** For example `64x1KB depth 8, one core`. */
export function describe({ connections, size, depth }: Case, placement: Placement): string {
  return `${connections}x${size >= KB ? `${size / KB}KB` : `${size}B`} depth ${depth}, ${placement}`;
}
