import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { type Child, startChild } from '../../scripts/child-process.js';
import { pythonProgram } from '../../scripts/python.js';
import type { ClientCommands } from './python/client.js';
import type { ServerCommands } from './python/server.js';
import { CHUNKS, type Cost, DEPTH, QUESTION, STREAMS, type Work } from './python/work.js';
import { atLeast, type BenchOptions, compare, type Row } from './row.js';
import { median } from './statistics.js';

/**
 * The client in Python beside plain `websockets` with IDs, and beside the client in JavaScript: pipelined requests of 1 KB and streamed
 * chunks of 45 bytes, all as JSON. Each client and each server is a process of its own; the clients take turns. The servers
 * are Node's. Trust the CPU for a message: the rates depend on what else runs.
 */

/** Servers. */
const KINDS = ['plain', 'none', 'codecs'] as const;
/** Clients, and their servers. */
const WAYS = {
  websockets: 'plain',
  'python, NONE': 'none',
  'python, codecs': 'codecs',
  'javascript, NONE': 'none',
  'javascript, codecs': 'codecs',
} as const;
type Way = keyof typeof WAYS;

const LEAST = {
  requests: { 'python, NONE': 0.6 },
  chunks: { 'python, NONE': 0.8, 'python, codecs': 0.4 },
} as const satisfies Record<Work['name'], Partial<Record<Way, number>>>;

interface Client {
  run(work: Work): Promise<Cost>;
  close(): Promise<void>;
}

export async function* run({ quick }: BenchOptions): AsyncGenerator<Row> {
  const { python, missing } = pythonProgram();
  if (python === undefined) throw new Error(missing);
  const rounds = quick ? 5 : 15;
  const works: readonly Work[] = [
    { name: 'requests', count: DEPTH * (quick ? 40 : 150) },
    { name: 'chunks', count: STREAMS * CHUNKS * (quick ? 3 : 10) },
  ];
  const servers = new Map<string, Child<ServerCommands>>();
  const clients = new Map<Way, Client>();
  try {
    for (const kind of KINDS)
      servers.set(kind, startChild<ServerCommands>(new URL('./python/server.ts', import.meta.url), [kind]));
    for (const [way, kind] of Object.entries(WAYS) as [Way, string][]) {
      const url = (await servers.get(kind)?.call('url')) ?? '';
      clients.set(way, way.startsWith('javascript') ? await startNode(url) : startPython(python, kind, url));
    }
    for (const work of works) yield* measure(work, clients, rounds);
  } finally {
    for (const client of clients.values()) await client.close();
    for (const server of servers.values()) server.stop();
  }
}

async function* measure(work: Work, clients: Map<Way, Client>, rounds: number): AsyncGenerator<Row> {
  const found = new Map<Way, Cost[]>();
  // The first round compiles the code.
  for (let round = -1; round < rounds; round++)
    for (const [way, client] of round % 2 === 0 ? clients : [...clients].toReversed()) {
      const cost = await client.run(work);
      if (round >= 0) found.set(way, [...(found.get(way) ?? []), cost]);
    }
  const rate = (way: Way) => median((found.get(way) ?? []).map(({ seconds }) => work.count / seconds));
  const cpu = (way: Way) => median((found.get(way) ?? []).map(({ cpuUs }) => cpuUs / work.count));
  const least: Partial<Record<Way, number>> = LEAST[work.name];
  for (const way of ['python, NONE', 'python, codecs'] as const)
    for (const name of ['websockets', way.replace('python', 'javascript') as Way] as const) {
      const bound = name === 'websockets' ? least[way] : undefined;
      const target = bound === undefined ? undefined : atLeast(bound);
      const what = `${work.name}, ${way}`;
      yield compare(what, '/s', 'higher', rate(way), { name, value: rate(name) }, target);
      yield compare(`${what}, CPU of the client`, 'us', 'lower', cpu(way), { name, value: cpu(name) });
    }
}

async function startNode(url: string): Promise<Client> {
  const client = startChild<ClientCommands>(new URL('./python/client.ts', import.meta.url), []);
  await client.call('open', url);
  return {
    run: (work) => client.call('run', work),
    async close() {
      await client.call('close');
      client.stop();
    },
  };
}

function startPython(python: string, kind: string, url: string): Client {
  const program = fileURLToPath(new URL('./python/load.py', import.meta.url));
  const child = spawn(python, ['-B', program, kind === 'plain' ? 'plain' : 'session', url], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  return {
    async run({ name, count }) {
      const work = { name, count, question: QUESTION, chunks: CHUNKS, depth: DEPTH, streams: STREAMS };
      child.stdin.write(`${JSON.stringify(work)}\n`);
      const { value } = await lines.next();
      if (value === undefined) throw new Error('the client in Python has failed');
      return JSON.parse(value) as Cost;
    },
    async close() {
      child.stdin.end();
      await ended;
    },
  };
}
