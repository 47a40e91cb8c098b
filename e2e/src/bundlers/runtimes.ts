import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer as createTcpServer } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { createContext, runInContext } from 'node:vm';
import WebSocket from 'ws';
import { Pasted, paste } from '../../../scripts/pasted.js';
import { type Case, casesOf, type Outcome, unexpected } from './cases.js';
import { filesUnder, Project } from './project.js';
import { createEchoServer } from './server.js';

/** Bundles of one file in runtimes other than browsers, and what a client installs. Each returns its faults. */

const root = fileURLToPath(new URL('../../..', import.meta.url));

interface Check {
  readonly name: string;
  /** It installs much, so that only the long form runs it. */
  readonly isLong?: boolean;
  run(tarballs: readonly string[]): Promise<string[]>;
}

/** Of a client without optional packages: the sum of its files, of which its documents are 0.6 MB. */
const MAX_INSTALLED_MB = 13;
const ESBUILD = 'esbuild@0.28.2';
const WORKERD = 'workerd@1.20260730.1';
const GUIDE = 'docs/guide/bun-and-deno.md';
const REACT_NATIVE = 'docs/guide/react-native.md';
const START_TIMEOUT_MS = 20_000;

const OTHERS = [
  { runtime: 'Bun', spec: '@oven/bun-linux-x64@1.4.5', program: 'bin/bun', options: [] },
  { runtime: 'Deno', spec: '@deno/linux-x64-glibc@2.9.6', program: 'deno', options: ['run', '-A'] },
] as const;

export const RUNTIMES: readonly Check[] = [
  { name: `a client installs at most ${MAX_INSTALLED_MB} MB, and offers what it has`, run: tryBareClient },
  { name: 'the server and the client of the quick start in one file each, on Node', run: tryNodeBundle },
  { name: "a client on Cloudflare's workerd", run: tryWorker },
  ...OTHERS.map(({ runtime, spec, program, options }) => ({
    name: `the server and the client of the quick start under ${runtime}, each with the other one on Node`,
    isLong: true,
    run: (tarballs: readonly string[]) => tryQuickStart(tarballs, spec, program, options),
  })),
  { name: 'the guide to Bun and Deno, each server with each client', isLong: true, run: tryGuide },
  { name: 'the guide to React Native, without a device', isLong: true, run: tryReactNative },
];

async function tryBareClient([protocol = '', , client = '']: readonly string[]): Promise<string[]> {
  const project = new Project([protocol, client, 'ws@8']);
  const bytes = filesUnder(join(project.folder, 'node_modules')).reduce((sum, { size }) => sum + size, 0);
  console.log(`  ${(bytes / 2 ** 20).toFixed(1)} MB`);
  await using server = createEchoServer();
  const { url } = await server.listen();
  writeFileSync(join(project.folder, 'client.mjs'), BARE_CLIENT);
  const output = await runOnce('node', ['client.mjs', url], project.folder);
  return [
    ...(bytes > MAX_INSTALLED_MB * 2 ** 20 ? [`it has ${bytes} bytes`] : []),
    ...lacking(output, [
      'M2M,TOKEN,BROTLI,DICTIONARY,NONE null',
      'vocabulary_unavailable: CL100K_BASE needs the package js-tiktoken: npm install js-tiktoken',
    ]),
  ];
}

const BARE_CLIENT = `
import { connect } from '@parlance/client';
import WebSocket from 'ws';
const [, , url] = process.argv;
const session = await connect(url, { WebSocket });
console.log(String(session.negotiated.algorithms), session.negotiated.encoding);
await session.close();
await connect(url, { WebSocket, encodings: ['CL100K_BASE'] }).catch(({ code, message }) =>
  console.log(code + ': ' + message),
);
`;

/** CommonJS packages in an ES module need `require`. */
const REQUIRE =
  "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);";

async function tryNodeBundle(tarballs: readonly string[]): Promise<string[]> {
  const project = new Project([...tarballs, 'ws@8', ESBUILD]);
  const elsewhere = temporaryFolder();
  for (const file of QUICK_START) writeQuickStart(project.folder, file);
  for (const file of [...QUICK_START, OVER_HTTP])
    await project.run([
      ...['esbuild', file, '--bundle', '--platform=node', '--format=esm', `--banner:js=${REQUIRE}`],
      ...['--log-level=error', `--outfile=${join(elsewhere, file)}`],
    ]);
  return await talk(elsewhere, ['node'], ['node']);
}

/** @param spec of the package that has the runtime. @param program its path in that package. */
async function tryQuickStart(
  tarballs: readonly string[],
  spec: string,
  program: string,
  options: readonly string[],
): Promise<string[]> {
  const project = new Project([...tarballs, 'ws@8', spec]);
  for (const file of QUICK_START) writeQuickStart(project.folder, file);
  const other = [join(project.folder, 'node_modules', nameOf(spec), program), ...options];
  return [...(await talk(project.folder, other, ['node'])), ...(await talk(project.folder, ['node'], other))];
}

/** Runs the commands of the guide, which have the permissions that Deno needs. */
async function tryGuide(tarballs: readonly string[]): Promise<string[]> {
  const [tarball = ''] = tarballs;
  await using pasted = await Pasted.create(
    OTHERS.map(({ spec }) => spec),
    dirname(tarball),
  );
  pasted.paste(GUIDE);
  for (const { runtime, spec, program } of OTHERS) {
    const bin = join(pasted.folder, 'node_modules', '.bin', runtime.toLowerCase());
    rmSync(bin, { force: true });
    symlinkSync(join(pasted.folder, 'node_modules', nameOf(spec), program), bin);
  }
  const [, bun = '', inBun = '', deno = '', inDeno = ''] =
    /^\| Bun \| `(.+?)` \| `(.+?)` \|\n\| Deno \| `(.+?)` \| `(.+?)` \|$/m.exec(
      readFileSync(join(root, GUIDE), 'utf8'),
    ) ?? [];
  for (const [serve, name] of [
    [bun, 'Bun/1.4.5'],
    [deno, 'Deno/2.9.6'],
  ] as const) {
    const server = pasted.start(serve, { env: { PORT: `${await freePort()}` } });
    const [SERVER = ''] = /ws:\S+/.exec(await server.printed(/ws:\S+\n/)) ?? [];
    const expected = [`${name} heard: hello`, 'You asked: why is the sky blue?', '{"bytes":1000000}'];
    for (const ask of [inBun, inDeno]) await pasted.run(ask, expected, { env: { SERVER } });
    await server.kill();
  }
  return [];
}

/** React Native itself is not installed: what it runs before an app needs a device. */
async function tryReactNative(tarballs: readonly string[]): Promise<string[]> {
  const [protocol = '', , client = ''] = tarballs;
  const project = new Project([protocol, client, ...OF_REACT_NATIVE]);
  paste(REACT_NATIVE, project.folder);
  const write = (file: string, text: string) => writeFileSync(join(project.folder, file), text);
  write('package.json', '{ "private": true }');
  write('index.js', "import { ask } from './ask.js';\nglobalThis.ask = ask;\n");
  // As in a new project.
  write('babel.config.js', "module.exports = { presets: ['module:@react-native/babel-preset'] };");
  write('bare.config.js', BARE_CONFIG);
  const config = ['--config', 'bare.config.js', '--platform', 'android', '--reset-cache'];
  await project.run(['metro', 'build', 'index.js', ...config, '-O', 'out.js']);
  const hermesc = '../hermes-compiler/hermesc/linux64-bin/hermesc';
  await project.run([hermesc, '-emit-binary', '-O', '-out', 'out.hbc', 'out.js']);

  const context = createContext({ ...GLOBALS_OF_REACT_NATIVE });
  runInContext('globalThis.global = globalThis; delete globalThis.WebAssembly;', context);
  runInContext(readFileSync(join(project.folder, 'out.js'), 'utf8'), context);
  await using server = createEchoServer();
  const { url } = await server.listen();
  let shown = '';
  await context['ask'](url, 'why?', (text: string) => {
    shown = text;
  });
  const faults = lacking(shown, ['you asked: why?']);
  runInContext('delete globalThis.crypto', context);
  const { code, message } = await context['ask'](url, 'why?').catch((error: unknown) => error);
  return [...faults, ...lacking(`${code}: ${message}`, ['unsupported: ', 'crypto.getRandomValues'])];
}

const OF_REACT_NATIVE = [
  'metro@0.87.1',
  'metro-runtime@0.87.1',
  '@react-native/babel-preset@0.88.1',
  '@react-native/metro-config@0.88.1',
  'hermes-compiler@260318099.0.5',
];

const BARE_CONFIG = `
const config = require('@react-native/metro-config').getDefaultConfig(__dirname);
module.exports = { ...config, serializer: { ...config.serializer, getModulesRunBeforeMainModule: () => [] } };
`;

/** Those that the guide says `connect` needs, and no other: neither `fetch`, streams nor `btoa`. */
const GLOBALS_OF_REACT_NATIVE: Readonly<Record<string, unknown>> = {
  ...{ WebSocket, TextEncoder, TextDecoder, performance, URL, console },
  ...{ setTimeout, clearTimeout, setInterval, clearInterval },
  crypto: { getRandomValues: (array: Uint8Array<ArrayBuffer>) => crypto.getRandomValues(array) },
};

const QUICK_START = ['server.mjs', 'client.mjs'] as const;
/** The client, which connects over HTTP. */
const OVER_HTTP = 'client-over-http.mjs';

function writeQuickStart(folder: string, file: (typeof QUICK_START)[number]): void {
  const code = quickStartBlock(file)
    .replace('8765 }', 'Number(process.argv[2]) }')
    .replace("'ws://127.0.0.1:8765'", 'process.argv[2]');
  writeFileSync(join(folder, file), code);
  if (file === 'client.mjs')
    writeFileSync(
      join(folder, OVER_HTTP),
      code.replace('process.argv[2]', "process.argv[2], { transports: ['http'] }") +
        "console.log('over', session.transport);\n",
    );
}

/** Runs both programs of the quick start, each with its own command. Returns what the client has not printed. */
async function talk(
  folder: string,
  [serve = '', ...serveOptions]: readonly string[],
  [ask = '', ...askOptions]: readonly string[],
): Promise<string[]> {
  await using server = await start(serve, [...serveOptions, 'server.mjs', '0'], folder, /ws:\S+/);
  const said = ['agreed on M2M, TOKEN_NATIVE', 'you said: hello', 'You asked: why is the sky blue?'];
  const client = await runOnce(ask, [...askOptions, 'client.mjs', server.matched], folder);
  const overHttp = await runOnce(ask, [...askOptions, OVER_HTTP, server.matched], folder);
  return [...lacking(client, said), ...lacking(overHttp, [...said, 'over http'])];
}

async function tryWorker([protocol = '', , client = '']: readonly string[]): Promise<string[]> {
  const project = Project.withPage([protocol, client, ESBUILD, WORKERD]);
  await project.run([
    ...['esbuild', 'worker.js', '--bundle', '--format=esm', '--conditions=workerd,worker,browser'],
    ...['--outfile=bundle.js', '--log-level=error'],
  ]);
  const port = await freePort();
  writeFileSync(join(project.folder, 'config.capnp'), workerConfig(port));
  const binary = join(project.folder, 'node_modules', '.bin', 'workerd');
  await using _workerd = await start(binary, ['serve', 'config.capnp'], project.folder);
  await using server = createEchoServer();
  const { url } = await server.listen();
  // Nothing can be fetched beside the script, so WebAssembly does not load.
  const cases = casesOf({ hasPackages: true, hasWasm: false, host: 'none' });
  const outcomes: Outcome[] = [];
  for (const each of cases) outcomes.push(await askWorker(port, url, each));
  return unexpected(cases, outcomes);
}

async function askWorker(port: number, url: string, { name, options }: Case): Promise<Outcome> {
  const body = JSON.stringify({ name, url, options });
  const until = performance.now() + START_TIMEOUT_MS;
  for (;;) {
    try {
      const response = await fetch(`http://127.0.0.1:${port}/`, { method: 'POST', body });
      const text = await response.text();
      return response.ok ? (JSON.parse(text) as Outcome) : { message: `${response.status} ${text}` };
    } catch (error) {
      // It does not listen yet.
      if (performance.now() > until) throw error;
      await delay(100);
    }
  }
}

const workerConfig = (port: number): string => `
using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [
    (name = "main", worker = .worker),
    (name = "internet", network = (allow = ["public", "private"])),
  ],
  sockets = [(name = "http", address = "127.0.0.1:${port}", http = (), service = "main")],
);
const worker :Workerd.Worker = (
  modules = [(name = "worker", esModule = embed "bundle.js")],
  compatibilityDate = "2026-07-01",
);
`;

// --- Helpers

/** Of a package, without its version. */
const nameOf = (spec: string): string => spec.replace(/@[^@]*$/, '');

function lacking(output: string, expected: readonly string[]): string[] {
  return expected.flatMap((text) => (output.includes(text) ? [] : [`expected "${text}" in\n${output}`]));
}

function quickStartBlock(file: string): string {
  const block = readFileSync(join(root, 'docs/start/quickstart.md'), 'utf8')
    .split('```')
    .find((text) => text.startsWith(`js\n// ${file}\n`));
  if (block === undefined) throw new Error(`the quick start has no code block for ${file}`);
  return block.slice('js\n'.length);
}

function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'parlance-bundle-'));
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

async function runOnce(command: string, args: readonly string[], folder: string): Promise<string> {
  const child = spawn(command, args, { cwd: folder, env: cleanEnv(), stdio: ['ignore', 'pipe', 'pipe'] });
  return await outputOf(child);
}

function cleanEnv(): NodeJS.ProcessEnv {
  const { NODE_OPTIONS: _, ...env } = process.env;
  return env;
}

function outputOf(child: ChildProcess): Promise<string> {
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream?.on('data', (chunk: Buffer) => {
      output += chunk.toString('utf8');
    });
  }
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', () => resolve(output));
  });
}

/** @param ready waits until it prints this. */
async function start(command: string, args: readonly string[], folder: string, ready?: RegExp) {
  const child = spawn(command, args, { cwd: folder, env: cleanEnv(), stdio: ['ignore', 'pipe', 'pipe'] });
  const ended = outputOf(child);
  const matched = await new Promise<string>((resolve, reject) => {
    if (ready === undefined) return resolve('');
    child.stdout?.on('data', (chunk: Buffer) => {
      const found = ready.exec(chunk.toString('utf8'));
      if (found !== null) resolve(found[0]);
    });
    ended.then((output) => reject(new Error(`${command} ${args.join(' ')} ended:\n${output}`)), reject);
  });
  return {
    matched,
    async [Symbol.asyncDispose]() {
      child.kill();
      await ended;
    },
  };
}

function freePort(): Promise<number> {
  return new Promise((resolve) => {
    const server = createTcpServer().listen(0, '127.0.0.1', () => {
      const { port } = server.address() as AddressInfo;
      server.close(() => resolve(port));
    });
  });
}
