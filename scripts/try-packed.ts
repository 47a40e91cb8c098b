import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { startOpenAIUpstream } from '../e2e/src/kit/openai-upstream.js';
import { Pasted, type Running, SQLITE } from './pasted.js';

/**
 * Follows the README and the quick start as a new user does: installs the packed packages in an empty folder and runs the
 * code blocks. Takes the folder of tarballs if they are packed already.
 */

/** The pages that a new user follows; of two blocks for one file, the last one counts. */
const PAGES = [
  'docs/SERVER.md',
  'docs/CONTRACTS.md',
  'docs/guide/protected-sessions.md',
  'docs/start/quickstart.md',
  'README.md',
];
/** What the durable server is asked. */
const QUESTION = 'why is the sky blue?';
const root = fileURLToPath(new URL('..', import.meta.url));
const upstream = await startOpenAIUpstream();
const pasted = await Pasted.create(['ws@8', 'openai@6', 'zod@4', ...SQLITE], process.argv[2]);
const { folder } = pasted;
const env = { OPENAI_BASE_URL: upstream.baseUrl, OPENAI_API_KEY: 'sk-0123456789abcdef' };

try {
  for (const page of PAGES) pasted.paste(page);

  // It waits for most of its time.
  const killed = tryKills();
  killed.catch(() => {});
  const { url, server } = await start('server.mjs');
  await tryOut('client.mjs', ['agreed on M2M', 'you said: hello', 'You asked: why is the sky blue?']);
  await tryCommandLine(url);
  await tryStaying(server);
  await tryOut('protected.mjs', ['between us: hello (as M2M, AEAD)', 'without the key:']);
  await tryOut('contract.mjs', [
    'the sum is 5',
    'counted 3',
    'sum: the input is not valid: b: Invalid input: expected number, received string',
  ]);
  await tryOut('groups.mjs', ['ben reads ann: hello']);
  await start('gateway.mjs');
  await tryOut('chat.mjs', ['Tokens travel', '世界']);
  await tryServing();
  await killed;
} finally {
  await pasted[Symbol.asyncDispose]();
  await upstream.stop();
}

/** Starts a server; `url` is where it listens. */
async function start(file: string): Promise<{ url: string; server: Running }> {
  const server = pasted.start(`node ${file}`, { env });
  const output = await server.printed('listening on');
  return { url: /ws:\S+/.exec(output)?.[0] ?? '', server };
}

/** Kills the server below a client that stays, and starts it again. */
async function tryStaying(server: Running): Promise<void> {
  const client = pasted.start('node stay.mjs');
  await client.printed('you said: number 2');
  await server.kill('SIGKILL');
  await client.printed('state: suspended');
  await start('server.mjs');
  console.log(await client.printed(/state: suspended.*state: established.*you said: number (?:[4-9]|\d\d)/s));
  await client.kill();
}

/** Asks the server that keeps its sessions in a file, and kills it twice in mid-answer. */
async function tryKills(): Promise<void> {
  const lines = readFileSync(join(folder, 'durable.mjs'), 'utf8')
    .split('\n')
    .filter((line) => /^[^/]/.test(line.trim()));
  if (lines.length > 10) throw new Error(`the durable server of the README has ${lines.length} lines`);
  const serve = () => pasted.start('node durable.mjs');
  let server = serve();
  await untilReached('http://127.0.0.1:8767/');
  const words = `You asked: ${QUESTION} `.repeat(9);
  let kills = 0;
  // On a machine that does much else, an answer may be over before this process has seen half of it.
  for (let asked = 0; kills < 2 && asked < 5; asked++) {
    const client = pasted.start('parlance connect --quiet ws://127.0.0.1:8767/session', { input: QUESTION });
    kills = 0;
    for (const part of [1 / 4, 1 / 2]) {
      await client.printed(new RegExp(`^[^]{${Math.floor(part * words.length)}}`));
      await server.kill('SIGKILL');
      if (client.text().length < words.length) kills++;
      server = serve();
    }
    const code = await client.ended;
    if (code !== 0 || client.text().trim() !== words.trim())
      throw new Error(`an answer whose server was killed ended with ${code}: ${client.text()}`);
  }
  if (kills < 2) throw new Error('the durable server of the README could not be killed in mid-answer');
  console.log(`a durable server of ${lines.length} lines was killed twice, and its answer was whole`);
}

/** Waits until something answers there. */
async function untilReached(url: string): Promise<void> {
  for (;;) {
    const isReached = await fetch(url).then(
      () => true,
      () => false,
    );
    if (isReached) return;
    await pause(50);
  }
}

/** Runs the binary that npm links. */
async function tryCommandLine(url: string): Promise<void> {
  // As the README has it: npm finds the binary by the name of its package, here among the packages that are installed.
  const encode = 'npx --no-install @parlance/cli encode --algorithm TOKEN_NATIVE';
  const coded = await pasted.run(encode, [], { input: 'Hello, world!' });
  console.log(await pasted.run('parlance inspect -', ['the frame is valid'], { input: coded }));
  if ((await pasted.run('parlance decode', [], { input: coded })) !== 'Hello, world!')
    throw new Error('the packed command line does not decode what it encodes');
  const reply = await pasted.run(`parlance connect --quiet ${url}`, [], { input: 'are you there?' });
  if (reply !== 'You asked: are you there? \n') throw new Error(`parlance connect printed ${reply}`);
}

/** Runs the line of the README that starts a gateway with a chat page; npm takes the packages that are installed here. */
async function tryServing(): Promise<void> {
  const readme = readFileSync(join(root, 'README.md'), 'utf8');
  const line = /^OPENAI_API_KEY=\S+ npx @parlance\/cli (serve --upstream) \S+$/m.exec(readme);
  if (line?.[1] === undefined) throw new Error('the README does not say how to start a gateway');
  const server = pasted.start(`parlance ${line[1]} ${upstream.baseUrl} --port 0`, { env });
  const page = /"page":"([^"]+)"/.exec(await server.printed('"page":'))?.[1] ?? '';
  const html = await (await fetch(page)).text();
  if (!html.includes('<script type="module"'))
    throw new Error(`${page} is not the chat page: ${html.slice(0, 200)}`);
  console.log(`the chat page of the gateway is at ${page}`);
}

/** Runs a client. */
async function tryOut(file: string, expected: readonly string[]): Promise<void> {
  console.log((await pasted.run(`node ${file}`, expected)).trim());
}
