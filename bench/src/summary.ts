import { PLACEMENTS, type Placement } from './echo/placement.js';
import { type Case, createPlan } from './echo/plan.js';
import { measure } from './echo.js';
import { firstTokens } from './gateway.js';
import type { BenchOptions, Row } from './row.js';
import { run as savings } from './savings.js';
import type { SystemName } from './systems/system.js';

/** Across two cores, if the machine has them. */
const PLACEMENT = PLACEMENTS.at(-1) as Placement;

/** The figures of the README beside their baselines, in a few minutes, under the names that they have there. */

/** A row of another bench. */
interface Figure {
  /** As the README names it. */
  readonly name: string;
  readonly row: string;
  readonly unit: string;
  readonly baselines: readonly string[];
}

const FIGURES: readonly Figure[] = [
  {
    name: 'a chat of 40 turns, requests and answers',
    row: '40 turns, requests and answers',
    unit: 'B',
    baselines: ['gzip of answers', 'gzip of both'],
  },
  {
    name: 'its answers alone, streamed',
    row: '40 turns, answers',
    unit: 'B',
    baselines: ['gzip of answers'],
  },
  {
    name: 'server CPU, 1 KB and its echo, 64 connections',
    row: `echo session 64x1KB depth 8, ${PLACEMENT}`,
    unit: 'us/msg',
    baselines: ['ws'],
  },
  {
    name: 'first token through the gateway, warm, p50',
    row: 'first token, warm, p50',
    unit: 'ms',
    baselines: ['direct'],
  },
  { name: 'handshakes', row: `handshake session, ${PLACEMENT}`, unit: '1/s', baselines: ['ws'] },
  {
    name: 'handshakes of socket.io',
    row: `handshake socket.io, ${PLACEMENT}`,
    unit: '1/s',
    baselines: ['ws'],
  },
];

const SYSTEMS: readonly SystemName[] = ['ws', 'session', 'socket.io'];
const ECHO: Case = { exchange: 'message', systems: SYSTEMS, connections: 64, size: 1024, depth: 8 };

export async function* run({ quick }: BenchOptions): AsyncGenerator<Row> {
  const plan = { ...createPlan(quick), cases: [ECHO], placements: [PLACEMENT] };
  for (const rows of [savings(), measure(plan, SYSTEMS), firstTokens(quick ? 1 : 3)]) {
    for await (const row of rows) {
      const figure = FIGURES.find(
        (each) => each.row === row.name && each.unit === row.unit && each.baselines.includes(row.baseline),
      );
      if (figure !== undefined) yield { ...row, name: figure.name, target: undefined };
    }
  }
}
