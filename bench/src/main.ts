import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { readCommandLine } from '../../scripts/command-line.js';
import { rerunCompiled, runsFromSource } from './compiled.js';
import { createJsonReporter, createTableReporter } from './report.js';
import type { Bench } from './row.js';

const BENCHES: Readonly<Record<string, string>> = {
  summary: 'the figures of the README beside their baselines, in a few minutes',
  savings: 'bytes of a chat of 1 to 150 turns against gzip, counted by a TCP proxy; the same in each run',
  start: 'a server up to the moment when it listens: time, CPU and memory against a bare one of ws',
  echo: 'session messages, requests, streams and handshakes against ws, corked ws, ws with IDs, socket.io',
  transports: 'messages of a session over HTTP beside a WebSocket: times, CPU of the server, bytes a frame',
  rtt: 'ready and first reply over networks of 0, 40 and 150 ms, beside ws and socket.io; a resume',
  codecs: 'every codec against JSON.stringify, Brotli and deflate; the choice of `auto`',
  tokenizer: 'the tokenizer against js-tiktoken, tiktoken and gpt-tokenizer',
  context:
    'a chat with context coding against JSON, permessage-deflate, Brotli, SSE; on Node and in Chromium',
  stream: 'token streams against SSE and a bare ws relay: bytes per token, and time between tokens',
  follow: 'kept replies: cost of keeping, followers beside requesters, one reply with 1,000 followers',
  groups:
    'one message to 1,000 sessions against plain ws and `send` to each; to 10,000 of three nodes against socket.io',
  gateway: 'a chat with streamed answers through the gateway against plain HTTP; delay of cancelling',
  relay: 'messages and a tensor from agent to agent against a hand-written ws relay; a stalled receiver',
  idle: '10,000 idle sessions against idle connections of ws and socket.io',
  growth: 'what a message, a session, a stream and a request cost as their number and the history grow',
  stalled: 'server memory for a reader that stalls, and the rate of 100 other sessions',
  cancel: 'delay from an abort at the client to the signal of the handler',
  avp: 'tensors: frames against JSON, large transfers against chunked ws, and delays beside them',
  page: 'a browser page up to its first message: sizes, transfers, times; against socket.io and others',
  snapshot: 'a session as bytes for another process: idle, in a reply, with a context; against a handshake',
  cluster:
    'led connections, a clustered server, and agents across nodes, against one server; the directory of agents',
  durable:
    'sessions that outlive their nodes: parts against plain ones, a killed node against a cut, claims, bytes',
  engines:
    'what a turn and a part cost in memory, SQLite, Redis and Postgres: times, CPU of the node, bytes written',
  calls:
    'functions and files of a server that a resume takes, as V8 counts them; steps of a request and a message',
  python: 'requests and chunks of the client in Python beside plain websockets and the client in JavaScript',
  stall: 'round trips in one session while another sends megabytes of text',
};

/** These measure neither time nor memory, so they need no compiled packages. */
const COUNTS: ReadonlySet<string> = new Set(['savings', 'calls']);

const USAGE = `npm run bench -- [name…] [--json] [--quick] [--conversation FILE] [--modules] [--reading]

  --json                one JSON object per line: name, value, unit, baseline, ratio, better; quartiles of some
  --quick               fewer and shorter rounds: for a first impression
  --conversation FILE   JSON { messages: [{ role, content }] } instead of one made of installed READMEs
  --modules             page: what its scripts consist of, by room and by module, instead of measurements
  --reading             page: only how smoothly long answers appear

${Object.entries(BENCHES)
  .map(([name, description]) => `  ${name.padEnd(11)}${description}`)
  .join('\n')}`;

const fileOf = (name: string) => new URL(`./${name}.ts`, import.meta.url);

async function main(): Promise<number> {
  const { values, positionals } = readCommandLine(USAGE, {
    allowPositionals: true,
    options: {
      json: { type: 'boolean' },
      quick: { type: 'boolean' },
      conversation: { type: 'string' },
      modules: { type: 'boolean' },
      reading: { type: 'boolean' },
    },
  });
  const unknown = positionals.filter((name) => !Object.hasOwn(BENCHES, name));
  if (unknown.length > 0) {
    console.error(`unknown bench: ${unknown.join(', ')}\n\n${USAGE}`);
    return 2;
  }
  const asked = positionals.length > 0 ? positionals : Object.keys(BENCHES);
  if (runsFromSource() && asked.some((name) => !COUNTS.has(name))) return await rerunCompiled();
  const reporter = values.json ? createJsonReporter(console.log) : createTableReporter(console.log);
  for (const name of asked) {
    if (positionals.length === 0 && !existsSync(fileURLToPath(fileOf(name)))) continue;
    // Loaded one by one: a bench loads only its own imports, and a broken one does not stop the others.
    const bench = (await import(fileOf(name).href)) as Bench;
    const { quick = false, conversation, modules, reading } = values;
    const options = { quick, conversation, modules, reading };
    if (bench.text !== undefined && !values.json) {
      console.log(`\n${name}: ${BENCHES[name]}\n\n${await bench.text(options)}`);
      continue;
    }
    reporter.begin(name, BENCHES[name] as string);
    for await (const row of bench.run(options)) reporter.row(row);
  }
  reporter.end();
  return 0;
}

process.exitCode = await main();
