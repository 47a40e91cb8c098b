import type { Scene } from './scene.js';
import type { ServerName } from './server.js';

/** The description of an attack, and its outcome. */

export const CATEGORIES = [
  'admission',
  'handshake',
  'http',
  'frames',
  'expansion',
  'time',
  'memory',
  'relay',
  'replies',
  'gateway',
  'uploads',
  'cluster',
  'nodes',
  'logs',
] as const;
export type Category = (typeof CATEGORIES)[number];

export interface Attack {
  readonly category: Category;
  /** A few words, unique. */
  readonly name: string;
  /** The attacked server. @default main */
  readonly server?: ServerName;
  /** Sessions that the attacker has at the same time; the memory bound is multiplied by them. @default 1 */
  readonly sessions?: number;
  /** Number of principals that take part. @default 1 */
  readonly principals?: number;
  /** Number of addresses; refusing each of them takes a line of the log. @default 1 */
  readonly addresses?: number;
  /**
   * Whether the bounds of CPU and of the neighbour's latency apply: they are promised for one principal only.
   * @default true
   */
  readonly boundsTime?: boolean;
  /**
   * Its requests continue when its connections are cut, with the memory that a session may have, until the session can
   * be resumed no longer. That would hide what stays behind: the server ends the sessions before memory is read.
   * @default false
   */
  readonly goesOn?: boolean;
  /** Duration of the long form, in seconds. @default 10 */
  readonly seconds?: number;
  /** Whether the short form leaves it out. @default false */
  readonly isLong?: boolean;
  /** Makes large bodies and the like, before measuring begins. */
  prepare?(): unknown;
  /** Attacks until the scene is over. @returns one sentence for each fault that it found. */
  run(scene: Scene): Promise<readonly string[] | undefined>;
}

/** Latencies of the neighbour's echoes, in milliseconds. */
export interface Latency {
  readonly p50: number;
  readonly p99: number;
  readonly max: number;
  readonly unanswered: number;
}

/** The costs of a well-behaved client for the server, and for its other users: the baseline of a run. */
export interface Fair {
  /** Milliseconds of processor time for each MiB that it has echoed. */
  readonly msPerMib: number;
  readonly neighbour: Latency;
}

export interface Outcome {
  readonly attack: Attack;
  readonly windowMs: number;
  readonly sentBytes: number;
  /** Bodies and connections, each of which may use the memory of one floor. */
  readonly floors: number;
  /** Peak memory of the server process, above idle. */
  readonly peakBytes: number;
  /** Memory in use above idle after garbage collection, while the attack still stands. */
  readonly heldBytes: number;
  readonly cpuMs: number;
  readonly neighbour: Latency;
  readonly quiet: Latency;
  readonly quietCpuMs: number;
  /** The baseline of the run; `undefined` in the short form. */
  readonly fair: Fair | undefined;
  readonly logLines: number;
  readonly logBytes: number;
  /** The server was killed before it took more of the machine's memory. */
  readonly wasStopped: boolean;
  /** How the server's process ended; `undefined` while it lives. */
  readonly death: string | undefined;
  /** Milliseconds of the neighbour's echo after the attack; `undefined` if there was none. */
  readonly aliveMs: number | undefined;
  /** Milliseconds from the end of the attack until memory was back; `undefined` if it never was. */
  readonly recoveredMs: number | undefined;
  /** Bytes above idle at the last reading. */
  readonly leftBytes: number;
  /** How often, and with what, the server closed most connections; `undefined` if it closed none. */
  readonly answer: string | undefined;
  /** Faults that the attack itself found. */
  readonly found: readonly string[];
}
