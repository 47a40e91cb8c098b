import type { Scene } from './scene.js';
import type { ServerName } from './server.js';

/** What an attack is, and what came of it. */

export const CATEGORIES = [
  'admission',
  'handshake',
  'frames',
  'expansion',
  'time',
  'memory',
  'relay',
  'gateway',
  'logs',
] as const;
export type Category = (typeof CATEGORIES)[number];

export interface Attack {
  readonly category: Category;
  /** A few words, unique. */
  readonly name: string;
  /** Which of the servers. @default main */
  readonly server?: ServerName;
  /** Sessions that the attacker has at a time; the bound of memory counts them. @default 1 */
  readonly sessions?: number;
  /** How many principals take part. @default 1 */
  readonly principals?: number;
  /** From how many addresses it comes: the refusal of each is a line of the log. @default 1 */
  readonly addresses?: number;
  /**
   * Whether the bounds of CPU and of the neighbour's latency decide: they are promised of one principal.
   * @default true
   */
  readonly boundsTime?: boolean;
  /** Seconds of the long form. @default 10 */
  readonly seconds?: number;
  /** Makes what takes long to make, before anything is measured. */
  prepare?(): unknown;
  /** Does its worst until the scene is over. @returns sentences that say what it found broken. */
  run(scene: Scene): Promise<readonly string[] | undefined>;
}

/** Latencies of somebody else's echoes, in milliseconds. */
export interface Latency {
  readonly p50: number;
  readonly p99: number;
  readonly max: number;
  readonly unanswered: number;
}

export interface Outcome {
  readonly attack: Attack;
  readonly windowMs: number;
  readonly sentBytes: number;
  /** Bodies and connections, each of which may take its floor. */
  readonly floors: number;
  /** Of the server process above idle, at the highest. */
  readonly peakBytes: number;
  /** In use above idle when all garbage is gone and the attack still stands. */
  readonly heldBytes: number;
  readonly cpuMs: number;
  readonly neighbour: Latency;
  readonly quiet: Latency;
  readonly quietCpuMs: number;
  readonly logLines: number;
  readonly logBytes: number;
  /** It was killed before it took more of the machine's memory. */
  readonly wasStopped: boolean;
  /** How the server's process ended; `undefined` while it lives. */
  readonly death: string | undefined;
  /** Milliseconds of the neighbour's echo after the attack; `undefined` where none came. */
  readonly aliveMs: number | undefined;
  /** Milliseconds after the attacker had gone until memory was back; `undefined` where it was not. */
  readonly recoveredMs: number | undefined;
  /** Bytes above idle when that was last looked at. */
  readonly leftBytes: number;
  /** How often, and with what, the server has closed most connections; `undefined` where it has closed none. */
  readonly answer: string | undefined;
  /** What the attack itself found. */
  readonly found: readonly string[];
}
