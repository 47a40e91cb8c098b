import { type ChildProcess, execFile, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { builtinModules } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { startOpenAIUpstream } from '../e2e/src/kit/openai-upstream.js';
import { packOnce, tarballsIn } from './pack.js';

/**
 * Follows the README and the quick start as a new user does: installs the packed packages in an empty folder and runs the
 * code blocks. Takes the folder of tarballs if they are packed already.
 */

/** The pages that a new user follows. */
const PAGES = [
  'README.md',
  'docs/start/quickstart.md',
  'docs/guide/protected-sessions.md',
  'docs/CONTRACTS.md',
  'docs/SERVER.md',
];
/** What the durable server is asked. */
const QUESTION = 'why is the sky blue?';
const root = fileURLToPath(new URL('..', import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'parlance-packed-'));
const servers: ChildProcess[] = [];
const upstream = await startOpenAIUpstream();

try {
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ private: true, type: 'module' }));
  execFileSync(
    'npm',
    [
      'install',
      '--no-audit',
      '--no-fund',
      '--loglevel=error',
      'ws',
      'openai',
      'zod',
      // What Node 20 lacks, as the README says.
      ...(builtinModules.includes('node:sqlite') ? [] : ['@photostructure/sqlite@1']),
      ...tarballsIn(process.argv[2] ?? (await packOnce())),
    ],
    {
      cwd: folder,
      stdio: 'inherit',
    },
  );
  for (const file of [
    'server.mjs',
    'client.mjs',
    'stay.mjs',
    'protected.mjs',
    'contract.mjs',
    'groups.mjs',
    'gateway.mjs',
    'chat.mjs',
    'durable.mjs',
  ])
    writeFileSync(join(folder, file), codeOf(file));

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
  for (const server of servers) server.kill();
  await upstream.stop();
  rmSync(folder, { recursive: true, force: true });
}

/** Starts a server; `url` is where it listens. */
async function start(file: string): Promise<{ url: string; server: ChildProcess }> {
  const env = { ...process.env, OPENAI_BASE_URL: upstream.baseUrl, OPENAI_API_KEY: 'sk-0123456789abcdef' };
  const server = spawn('node', [file], { cwd: folder, env, stdio: ['ignore', 'pipe', 'inherit'] });
  servers.push(server);
  const output = await printed(server, 'listening on');
  return { url: /ws:\S+/.exec(output)?.[0] ?? '', server };
}

/** Kills the server below a client that stays, and starts it again. */
async function tryStaying(server: ChildProcess): Promise<void> {
  const client = spawn('node', ['stay.mjs'], { cwd: folder, stdio: ['ignore', 'pipe', 'inherit'] });
  servers.push(client);
  await printed(client, 'you said: number 2');
  const lost = printed(client, 'state: suspended');
  const back = printed(client, 'state: established');
  const heard = printed(client, /you said: number (?:[4-9]|\d\d)/);
  server.kill('SIGKILL');
  await lost;
  await start('server.mjs');
  console.log((await Promise.all([back, heard])).join('').trim());
  client.kill();
}

/** Asks the server that keeps its sessions in a file, and kills it twice in mid-answer. */
async function tryKills(): Promise<void> {
  const lines = codeOf('durable.mjs')
    .split('\n')
    .filter((line) => /^[^/]/.test(line.trim()));
  if (lines.length > 10) throw new Error(`the durable server of the README has ${lines.length} lines`);
  const serve = () => {
    const child = spawn('node', ['durable.mjs'], { cwd: folder, stdio: 'inherit' });
    servers.push(child);
    return child;
  };
  let server = serve();
  await untilReached('http://127.0.0.1:8767/');
  const words = `You asked: ${QUESTION} `.repeat(9);
  let kills = 0;
  // On a machine that does much else, an answer may be over before this process has seen half of it.
  for (let asked = 0; kills < 2 && asked < 5; asked++) {
    const binary = join(folder, 'node_modules', '.bin', 'parlance');
    const args = ['connect', '--quiet', 'ws://127.0.0.1:8767/session'];
    const client = spawn(binary, args, { cwd: folder, stdio: ['pipe', 'pipe', 'inherit'] });
    servers.push(client);
    const closed = once(client, 'close');
    client.stdin.end(QUESTION);
    const all = textOf(client);
    kills = 0;
    for (const part of [1 / 4, 1 / 2]) {
      await printed(client, new RegExp(`^[^]{${Math.floor(part * words.length)}}`), all);
      const dead = once(server, 'exit');
      server.kill('SIGKILL');
      await dead;
      if (all().length < words.length) kills++;
      server = serve();
    }
    const [code] = await closed;
    if (code !== 0 || all().trim() !== words.trim())
      throw new Error(`an answer whose server was killed ended with ${code}: ${all()}`);
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

/** All that a program has printed so far. */
function textOf(child: ChildProcess): () => string {
  const chunks: Buffer[] = [];
  child.stdout?.on('data', (chunk: Buffer) => chunks.push(chunk));
  return () => Buffer.concat(chunks).toString('utf8');
}

/** Runs the binary that npm links. */
async function tryCommandLine(url: string): Promise<void> {
  const parlance = (args: readonly string[], input: string) =>
    outputOf(join(folder, 'node_modules', '.bin', 'parlance'), args, input);
  // As the README has it: npm finds the binary by the name of its package, here among the packages that are installed.
  const npx = ['--no-install', '@parlance/cli', 'encode', '--algorithm', 'TOKEN_NATIVE'];
  const coded = await outputOf('npx', npx, 'Hello, world!');
  const explained = await parlance(['inspect', '-'], coded);
  console.log(explained);
  if (!explained.includes('the frame is valid') || (await parlance(['decode'], coded)) !== 'Hello, world!') {
    throw new Error('the packed command line does not explain or decode what it encodes');
  }
  const reply = await parlance(['connect', '--quiet', url], 'are you there?');
  if (reply !== 'You asked: are you there? \n') throw new Error(`parlance connect printed ${reply}`);
}

async function outputOf(command: string, args: readonly string[], input: string): Promise<string> {
  const running = promisify(execFile)(command, args, { cwd: folder, timeout: 60_000 });
  running.child.stdin?.end(input);
  return (await running).stdout;
}

/** Runs the line of the README that starts a gateway with a chat page; npm takes the packages that are installed here. */
async function tryServing(): Promise<void> {
  const readme = readFileSync(join(root, 'README.md'), 'utf8');
  const line = /^OPENAI_API_KEY=\S+ npx (@parlance\/cli serve --upstream) \S+$/m.exec(readme);
  if (line?.[1] === undefined) throw new Error('the README does not say how to start a gateway');
  const args = ['--no-install', ...line[1].split(' '), upstream.baseUrl, '--port', '0'];
  const env = { ...process.env, OPENAI_API_KEY: 'sk-0123456789abcdef' };
  // A group of its own, as npm starts the binary in a shell.
  const server = spawn('npx', args, {
    cwd: folder,
    env,
    detached: true,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  try {
    const page = /"page":"([^"]+)"/.exec(await printed(server, '"page":'))?.[1] ?? '';
    const html = await (await fetch(page)).text();
    if (!html.includes('<script type="module"'))
      throw new Error(`${page} is not the chat page: ${html.slice(0, 200)}`);
    console.log(`the chat page of the gateway is at ${page}`);
  } finally {
    if (server.pid !== undefined) process.kill(-server.pid);
  }
}

/** Runs a client; asynchronously, because the upstream runs in this process. */
async function tryOut(file: string, expected: readonly string[]): Promise<void> {
  const { stdout } = await promisify(execFile)('node', [file], { cwd: folder, timeout: 60_000 });
  console.log(stdout.trim());
  for (const text of expected) {
    if (!stdout.includes(text)) throw new Error(`${file} of the README did not print "${text}"`);
  }
}

/** The code block that begins with a comment with the name of the file. */
function codeOf(file: string): string {
  const texts = PAGES.map((name) => readFileSync(join(root, name), 'utf8'));
  const blocks = texts.flatMap((text) => text.split('```'));
  const block = blocks.find((text) => text.startsWith(`js\n// ${file}\n`));
  if (block === undefined) throw new Error(`no page has a code block for ${file}`);
  return block.slice('js\n'.length);
}

/**
 * Waits for output that contains `text`.
 *
 * @param all what it has printed. @default what it prints from now on
 * @returns all output until then.
 */
function printed(child: ChildProcess, text: string | RegExp, all = textOf(child)): Promise<string> {
  return new Promise((resolve, reject) => {
    const onData = (): void => {
      const output = all();
      if (typeof text === 'string' ? !output.includes(text) : !text.test(output)) return;
      child.stdout?.off('data', onData);
      child.off('exit', onExit);
      resolve(output);
    };
    const onExit = (code: number | null): void =>
      reject(new Error(`a program of the README ended with code ${code} before it printed ${text}`));
    child.stdout?.on('data', onData);
    child.once('exit', onExit);
    onData();
  });
}
