import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { readCommandLine } from '../../scripts/command-line.js';
import { rerunCompiled, runsFromSource } from './compiled.js';
import { createJsonReporter, createTableReporter } from './report.js';
import type { Bench } from './row.js';

const BENCHES: Readonly<Record<string, string>> = {
  echo: 'session messages, requests and streams beside ws, corked ws, ws with IDs and socket.io; handshakes',
  codecs: 'every codec beside JSON.stringify, Brotli and deflate; the choice of `auto`',
  tokenizer: 'the tokenizer beside js-tiktoken, tiktoken and gpt-tokenizer',
  context:
    'a chat that is sent once beside JSON, permessage-deflate, Brotli and SSE, on Node and in Chromium',
  stream: 'token streams beside SSE and a bare ws relay: bytes for each token, and time between tokens',
  gateway: 'a chat with streamed answers through the gateway beside plain HTTP; how soon cancelling arrives',
  relay: 'messages and a tensor from agent to agent beside a relay by hand on ws; one receiver that stalls',
  idle: '10,000 sessions that say nothing, beside connections of ws and socket.io',
  stalled: 'memory behind a reader that stalls, and the rate of 100 others beside it',
  cancel: 'how soon an abort at the client reaches the signal of the handler',
  avp: 'tensors: frames beside JSON, large transfers beside chunked ws, and what waits beside them',
  stall: 'what a megabyte in one session does to the round trips of another',
};

const USAGE = `npm run bench -- [name…] [--json] [--quick] [--conversation FILE]

  --json                one JSON object a line: name, value, unit, baseline, ratio, better
  --quick               fewer and shorter rounds: for a look, not for a verdict
  --conversation FILE   JSON { messages: [{ role, content }] } in place of one made of installed READMEs

${Object.entries(BENCHES)
  .map(([name, description]) => `  ${name.padEnd(10)}${description}`)
  .join('\n')}`;

const fileOf = (name: string) => new URL(`./${name}.ts`, import.meta.url);

async function main(): Promise<number> {
  const { values, positionals } = readCommandLine(USAGE, {
    allowPositionals: true,
    options: {
      json: { type: 'boolean' },
      quick: { type: 'boolean' },
      conversation: { type: 'string' },
    },
  });
  const unknown = positionals.filter((name) => !Object.hasOwn(BENCHES, name));
  if (unknown.length > 0) {
    console.error(`there is no bench called ${unknown.join(', ')}\n\n${USAGE}`);
    return 2;
  }
  if (runsFromSource()) return await rerunCompiled();
  const asked = positionals.length > 0 ? positionals : Object.keys(BENCHES);
  const reporter = values.json ? createJsonReporter(console.log) : createTableReporter(console.log);
  for (const name of asked) {
    if (positionals.length === 0 && !existsSync(fileURLToPath(fileOf(name)))) continue;
    // Loaded one by one: a bench pays only for its own imports, and fails only where it was asked for.
    const bench = (await import(fileOf(name).href)) as Bench;
    reporter.begin(name, BENCHES[name] as string);
    const { quick = false, conversation } = values;
    for await (const row of bench.run({ quick, conversation })) reporter.row(row);
  }
  reporter.end();
  return 0;
}

process.exitCode = await main();
