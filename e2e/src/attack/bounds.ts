import { totalmem } from 'node:os';
import { getHeapStatistics } from 'node:v8';
import type { Fair, Latency, Outcome } from './attack.js';
import { MIB } from './bombs.js';

const CONSTRAINED = process.constrainedMemory?.() || Infinity;
/** The server's default for `processMemory`. */
const PROCESS_MEMORY = Math.min(CONSTRAINED / 4, totalmem() / 4, getHeapStatistics().heap_size_limit / 2);

/** The most that the worst peer may take at default limits. */
export const BOUNDS = {
  /** Above idle, for each session of the attacker. */
  memoryPerSession: 64 * MIB,
  /** Above idle, for all sessions of one principal: a quarter of `processMemory`. */
  memoryPerPrincipal: PROCESS_MEMORY / 4,
  /** Above idle, for all sessions together. */
  memoryOfProcess: PROCESS_MEMORY,
  /** Not counted against the attacker: bytes for each message, and for each connection. */
  floor: 64 * 1024,
  /**
   * The most that a session's windows let it hold: 4 MiB unread in each direction, 8 MiB not acknowledged.
   */
  windows: 16 * MIB,
  /** Bytes in use for each byte sent, above the floors. */
  heldPerByte: 300,
  newcomerMs: 1_000,
  recoveryMs: 10_000,
  leftBytes: 32 * MIB,
  /** Per principal: 60 of each event and session, and some for each of the hundred sessions that may begin in a minute. */
  logLines: 2_100,
  logBytes: 2.5 * MIB,
  aliveMs: 10_000,
} as const;

/** Per address in a window of at most a minute: the announced rate, with the tolerance of a receiver. */
export const MOST_CREDENTIALS = 200;
/**
 * The most open connections: 100 sessions and 1,000 handshakes of one address, and those of the neighbour.
 */
export const MOST_CONNECTIONS = 1_100 + 10;

/**
 * Times count only in relation to what was measured in the same run: how long a neighbour waits without an attack, and beside a
 * well-behaved client that echoes texts of a MiB; and what each of them costs the server.
 */
export const RATIO_TO_QUIET = 10;
export const RATIO_TO_FAIR = 4;
/** An attack may cost what a client does that has so many MiB echoed in a second; a session may send 10 MB. */
export const FAIR_MIB_PER_S = 16;
/** The part of a core that is allowed on every machine, as is the default of `loopShare`; and that is on none. */
const LEAST_CORES = 0.5;
const MOST_CORES = 0.9;
/** A short run must not fail because the machine is busy. */
const SHORT = { p99Ms: 3_000, ratio: 100 } as const;
/** Tolerance for V8's garbage, about a second's worth of work. */
export const SLACK = 48 * MIB;

/** The bounds that an outcome breaks, one sentence each. */
export function broken(outcome: Outcome, isShort: boolean): readonly string[] {
  const problems = [...outcome.found];
  const { attack, neighbour, quiet, death } = outcome;
  const { sessions = 1, principals = 1, addresses = 1, boundsTime = true } = attack;
  if (outcome.wasStopped) problems.push('the server was stopped before it took more memory');
  else if (death !== undefined) problems.push(`the server process died: ${death}`);
  else if (outcome.aliveMs === undefined) problems.push('another session got no echo afterwards');

  const memory = Math.min(
    BOUNDS.memoryPerSession * sessions,
    BOUNDS.memoryPerPrincipal * principals,
    BOUNDS.memoryOfProcess,
  );
  if (outcome.peakBytes > memory + SLACK)
    problems.push(`memory ${mib(outcome.peakBytes)} above idle, at most ${mib(memory)} are allowed`);
  const ratio = ratioOf(outcome);
  if (ratio > BOUNDS.heldPerByte)
    problems.push(`${Math.round(ratio)} bytes held per byte sent, at most ${BOUNDS.heldPerByte} are allowed`);
  if (outcome.recoveredMs === undefined)
    problems.push(`${mib(outcome.leftBytes)} above idle after the attack`);

  const cores = coresOf(outcome);
  const mostCores = mostCoresOf(outcome.fair);
  if (boundsTime && cores > mostCores && !isShort)
    problems.push(`${percent(cores)} of a core, at most ${percent(mostCores)} is allowed`);
  const p99 = isShort ? Math.max(SHORT.p99Ms, SHORT.ratio * quiet.p99) : mostP99(quiet, outcome.fair);
  if (boundsTime && neighbour.p99 > p99)
    problems.push(
      `the neighbour's p99 is ${Math.round(neighbour.p99)} ms, at most ${Math.round(p99)} ms are allowed`,
    );
  if (neighbour.unanswered > quiet.unanswered)
    problems.push(`${neighbour.unanswered} echoes of the neighbour were never answered`);

  const mostLines = Math.max(BOUNDS.logLines * principals, addresses);
  if (outcome.logLines > mostLines) problems.push(`${outcome.logLines} log lines`);
  if (outcome.logBytes > BOUNDS.logBytes * principals) problems.push(`${mib(outcome.logBytes)} of log`);
  return problems;
}

/** Milliseconds. */
export const mostP99 = (quiet: Latency, fair: Fair | undefined) =>
  Math.max(RATIO_TO_FAIR * (fair?.neighbour.p99 ?? 0), RATIO_TO_QUIET * quiet.p99);

/** Of one core. */
export const mostCoresOf = (fair: Fair | undefined) =>
  Math.min(MOST_CORES, Math.max(LEAST_CORES, (FAIR_MIB_PER_S * (fair?.msPerMib ?? 0)) / 1_000));

/** Whether the neighbour waited longer than allowed, given a quiet run. */
export const isDeferred = (neighbour: Latency, quiet: Latency, fair: Fair | undefined) =>
  neighbour.p99 > mostP99(quiet, fair);

/** Bytes held for each byte sent, without the floors and windows. */
export function ratioOf({ heldBytes, floors, sentBytes }: Outcome): number {
  return Math.max(0, heldBytes - floors * BOUNDS.floor - BOUNDS.windows) / Math.max(1, sentBytes);
}

/** CPU share of the attack alone, without the neighbour's. */
export function coresOf({ cpuMs, quietCpuMs, windowMs }: Outcome): number {
  return Math.max(0, cpuMs - quietCpuMs) / windowMs;
}

export const mib = (bytes: number) => `${Math.round(bytes / MIB)} MiB`;
export const percent = (share: number) => `${Math.round(share * 100)} %`;
