import type { ReplyLogs } from '../../../packages/server/src/engine/logs/logs.js';
import { memoryReplies } from '../../../packages/server/src/engine/logs/memory.js';
import { ReplyLog } from '../../../packages/server/src/replies/log.js';
import { Recording } from '../../../packages/server/src/replies/recording.js';
import { offer } from '../../../scripts/child-process.js';

/** A process that holds kept replies, and nothing else, so that their memory can be weighed. */

const WIDE = { maxReplies: Infinity, maxReplyBytes: Infinity, maxOwnerBytes: Infinity, maxBytes: Infinity };

/** Replies, and what each of them has. */
export interface Load {
  readonly replies: number;
  readonly parts: number;
  readonly isEnded: boolean;
  /** Bytes of metadata of each part. */
  readonly metadata?: number;
  /** Each has a name and share data of its own. */
  readonly isNamed?: boolean;
  /** Each belongs to a principal of its own. */
  readonly isAlone?: boolean;
}

export interface Weight {
  /** Bytes by the account of the log. */
  readonly accounted: number;
  /** Bytes of the heap and of buffers, after garbage collection. */
  readonly measured: number;
  /** Bytes by the account of the log when all replies are dropped. */
  readonly left: number;
}

/** Buffers are freed by other threads, later on a busy machine: collects until nothing more is freed for some rounds. */
async function inUse(): Promise<number> {
  let least = Number.POSITIVE_INFINITY;
  for (let rounds = 0; rounds < 8; rounds++) {
    globalThis.gc?.();
    await new Promise((resolve) => setTimeout(resolve, 10));
    const { heapUsed, external } = process.memoryUsage();
    if (heapUsed + external < least - 16_384) rounds = 0;
    least = Math.min(least, heapUsed + external);
  }
  return least;
}

function recordOf({ metadata }: Load, number: number): Uint8Array {
  if (metadata === undefined) return Uint8Array.of(0, 104, 101, 108, 108, number & 0xff);
  return Uint8Array.from([0x20, metadata, ...new Uint8Array(metadata), 1, 2, 3, 4, 5]);
}

const LOGGER = { debug() {}, info() {}, warn() {}, error() {} };
/** Takes everything and keeps nothing. */
const ENGINE = {
  open: async () => 'done',
  append: async () => 'done',
  end: async () => 'done',
  listen: () => () => {},
  close: async () => {},
} as unknown as ReplyLogs;

/** Replies that are being written to an engine, and their records. */
async function write(log: ReplyLog, load: Load): Promise<Recording[]> {
  const recordings: Recording[] = [];
  for (let i = 0; i < load.replies; i++) {
    const head = headOf(load, i);
    const recording = new Recording({
      ...{ id: head.id, log, logger: LOGGER, now: Date.now, date: Date.now, abandonAfterMs: 600_000 },
      request: { isWanted: () => true } as never,
      opened: log.open(head),
      read: async function* () {},
      onUnkept: () => {},
      onOver: () => {},
    });
    for (let part = 0; part < load.parts; part++) await recording.appendRecord(recordOf(load, part));
    recordings.push(recording);
  }
  return recordings;
}

function headOf(load: Load, i: number) {
  const principal = load.isAlone === true ? `principal ${i}` : 'ada';
  return {
    id: `reply_${String(i).padStart(22, 'x')}`,
    owner: `principal:${principal}`,
    principal,
    name: load.isNamed === true ? `the chat with number ${i}` : undefined,
    share: load.isNamed === true ? JSON.stringify({ team: `team ${i}` }) : undefined,
    encoding: 'CL100K_BASE',
    ttlMs: 600_000,
    startedAt: Date.now() + i,
  };
}

const OPTIONS = {
  ...{ bounds: WIDE, incarnation: 'aaaaaa', logger: LOGGER, now: Date.now },
  isAlive: async () => true,
};

function inMemory() {
  const memory = memoryReplies(Date.now, { maxBytes: Infinity, onDropped() {} });
  const log = new ReplyLog({ ...OPTIONS, engine: memory, local: memory.local });
  return { log, drop: (id: string) => memory.local.drop({ id }) };
}

function fill(log: ReplyLog, load: Load): void {
  for (let i = 0; i < load.replies; i++) {
    const head = headOf(load, i);
    const { id } = head;
    log.open(head);
    for (let part = 0; part < load.parts; part++) log.append(id, recordOf(load, part));
    if (!load.isEnded) continue;
    log.end(id, { at: Date.now() + i, failure: undefined, metadata: undefined });
    log.release(id, i % 2 === 0);
  }
}

const commands = {
  async weigh(load: Load): Promise<Weight> {
    // Code and shapes that the first replies bring along are not theirs.
    fill(inMemory().log, { ...load, replies: 100 });
    const { log, drop } = inMemory();
    const before = await inUse();
    fill(log, load);
    const measured = (await inUse()) - before;
    const accounted = log.usage.bytes;
    for (let i = 0; i < load.replies; i++) drop(`reply_${String(i).padStart(22, 'x')}`);
    return { accounted, measured, left: log.usage.bytes };
  },

  async weighWriters(load: Load): Promise<Weight> {
    const create = () => new ReplyLog({ ...OPTIONS, engine: ENGINE });
    await write(create(), { ...load, replies: 100 });
    const log = create();
    const before = await inUse();
    const recordings = await write(log, load);
    const measured = (await inUse()) - before;
    const accounted = log.usage.bytes;
    for (const recording of recordings) await recording.end();
    return { accounted, measured, left: log.usage.bytes };
  },
};
export type KeptMemoryCommands = typeof commands;

offer(commands);
