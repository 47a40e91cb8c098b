import { type ChildProcess, execFile, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { connect } from '../packages/client/src/index.js';
import { packOnce, tarballsIn } from './pack.js';

/**
 * Creates a project from each template as a new user does, from tarballs in an empty folder; builds, tests, starts and stops
 * it. Takes the folder of tarballs if they are packed already. Images are not built.
 */

const execute = promisify(execFile);
const tarballs = process.argv[2] ?? (await packOnce());
const folder = mkdtempSync(join(tmpdir(), 'parlance-created-'));
const running = new Set<ChildProcess>();

const TEMPLATES = {
  async chat(project: string) {
    for (const script of ['dev', 'start']) {
      const server = await start(project, ['npm', 'run', script], /http:\S+/);
      const page = await (await fetch(server.url)).text();
      if (!page.includes('<div id="root">'))
        throw new Error(`${server.url} is no page: ${page.slice(0, 200)}`);
      const session = await connect(new URL('/session', server.url.replace('http', 'ws')));
      const answer = await session.fetch('/v1/chat/completions', {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ model: 'toy', messages: [{ role: 'user', content: 'hello' }], stream: true }),
      });
      if (!(await answer.text()).endsWith('data: [DONE]\n\n'))
        throw new Error(`the chat answers ${answer.status}`);
      await session.close();
      await server.stop();
    }
  },
  async agents(project: string) {
    const server = await start(project, ['node', 'dist/server.js'], /ws:\S+/);
    const worker = await start(project, ['node', 'dist/worker.js'], /works/, { URL: server.url });
    const planner = await execute('node', ['dist/planner.js', '60'], {
      cwd: project,
      env: { ...process.env, URL: server.url },
    });
    expectText(planner.stdout, 'worker says that 60 is the product of 2 2 3 5');
    await worker.stop();
    await server.stop();
  },
  async service(project: string) {
    const server = await start(project, ['node', 'dist/server.js'], /ws:\S+/);
    const client = await execute('node', ['dist/client.js'], {
      cwd: project,
      env: { ...process.env, URL: server.url },
    });
    expectText(client.stdout, '{ words: 5 }');
    expectText(client.stdout, '10: still here');
    await server.stop();
  },
};

try {
  writeFileSync(join(folder, 'package.json'), '{ "private": true }');
  const npm = ['install', '--no-audit', '--no-fund', '--loglevel=error'];
  execFileSync('npm', [...npm, ...tarballsIn(tarballs, ['create'])], { cwd: folder, stdio: 'inherit' });
  const create = async (...args: string[]) =>
    await execute('npx', ['--no-install', 'create-parlance', ...args], { cwd: folder });
  for (const [template, tryOut] of Object.entries(TEMPLATES)) {
    const name = `my ${template}`;
    const { stdout } = await create(name, '--template', template, '--packages', tarballs);
    expectText(stdout, 'npm install');
    const project = join(folder, name);
    for (const command of [npm, ['run', '--silent', 'build'], ['run', '--silent', 'test']])
      execFileSync('npm', command, { cwd: project, stdio: ['ignore', 'ignore', 'inherit'] });
    await tryOut(project);
    console.log(`${template}: created, built, tested, started and stopped`);
  }
  await refuses(create(`my chat`, '--packages', tarballs), 'is not empty');
  await refuses(
    create('other', '--template', 'nothing', '--packages', tarballs),
    'There is no template nothing',
  );
  await refuses(create('other', '--packages', folder), 'has no tarball parlance-client');
  await refuses(create('other', '--colour'), 'Usage: npm create parlance');
  const { version } = JSON.parse(
    readFileSync(join(folder, 'node_modules/create-parlance/package.json'), 'utf8'),
  );
  if (version === '0.0.0') await refuses(create('other'), 'Parlance is not published yet');
  if (readdirSync(folder).includes('other')) throw new Error('a project that was refused has left a folder');
} finally {
  for (const { pid } of running) if (pid !== undefined) process.kill(-pid, 'SIGKILL');
  rmSync(folder, { recursive: true, force: true });
}

function expectText(output: string, text: string): void {
  if (!output.includes(text)) throw new Error(`"${text}" is not in: ${output}`);
}

async function refuses(created: Promise<unknown>, why: string): Promise<void> {
  const error = await created.then(
    () => undefined,
    (error: { readonly code: number; readonly stderr: string }) => error,
  );
  if (error?.code !== 1) throw new Error(`exit code ${error?.code} where 1 is expected: ${why}`);
  expectText(error.stderr, why);
}

/** Starts a program of a project. @param ready is printed when it works, with its address if it has one. */
async function start(
  project: string,
  [command = '', ...args]: readonly string[],
  ready: RegExp,
  env: Readonly<Record<string, string>> = {},
): Promise<{ readonly url: string; stop(): Promise<void> }> {
  // A group of its own: npm starts programs in a shell.
  const child = spawn(command, args, {
    cwd: project,
    env: { ...process.env, PORT: '0', ...env },
    detached: true,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  running.add(child);
  const exited = once(child, 'exit');
  exited.then(() => running.delete(child));
  let output = '';
  const url = await new Promise<string>((resolve, reject) => {
    child.stdout.on('data', (chunk: Buffer) => {
      output += chunk.toString();
      const [found] = ready.exec(output) ?? [];
      if (found !== undefined) resolve(found);
    });
    exited.then(([code]) => reject(new Error(`${command} ${args.join(' ')} ended with ${code}: ${output}`)));
  });
  return {
    url,
    async stop() {
      if (child.pid !== undefined) process.kill(-child.pid, 'SIGTERM');
      const [code] = await exited;
      // npm and tsx pass the signal on and report it.
      if (command === 'node' && code !== 0) throw new Error(`${args.join(' ')} ended with ${code}`);
    },
  };
}
