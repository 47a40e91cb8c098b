import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { freePort } from '../e2e/src/kit/cli-process.js';
import { packOnce, tarballsIn } from './pack.js';

/**
 * Follows the guide to several nodes as its reader does: writes its files into an empty folder and runs its commands in
 * order, with the packed packages and with free ports in place of its own. Takes the folder of tarballs if they are packed
 * already.
 */

const guide = readFileSync(fileURLToPath(new URL('../docs/CLUSTER.md', import.meta.url)), 'utf8');
const section = guide.slice(guide.indexOf('\n## Try it\n'), guide.indexOf('\n## Two machines or more\n'));
const PORTS = ['6390', '8001', '8002', '8080'];
const QUESTIONS = 30;
/** Against hanging only. */
const MAX_MS = 120_000;

const needed = ['/usr/bin/redis-server', '/usr/sbin/nginx'].filter((path) => !existsSync(path));
if (needed.length > 0 && process.env['CI'] !== 'true') {
  console.log(`skipped without ${needed.join(' and ')}`);
  console.log('0 passed, 0 failed, 1 skipped');
} else {
  await follow();
}

async function follow(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'parlance-guide-'));
  try {
    let text = section;
    const ports = new Map<string, string>();
    for (const port of PORTS) {
      ports.set(port, await freePort());
      text = text.replaceAll(port, ports.get(port) as string);
    }
    const blocks = [...text.matchAll(/^```(\w+)\n(.*?)^```$/gms)].map(([, language = '', code = '']) => ({
      language,
      code,
    }));
    for (const { language, code } of blocks) {
      const name = /^(?:\/\/|#) (\w+\.\w+)\n/.exec(code)?.[1];
      if (language !== 'sh' && name !== undefined) writeFileSync(join(folder, name), code);
    }
    const commands = blocks.filter(({ language }) => language === 'sh').map(({ code }) => code);
    const output = await run(folder, await packed(commands.join('\n')));
    console.log(output);
    check(output, [ports.get('8001') as string, ports.get('8002') as string]);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** The commands, with what is installed from the registry replaced by what is packed. */
async function packed(script: string): Promise<string> {
  const names = '@parlance/server @parlance/client';
  if (!script.includes(` ${names} `)) throw new Error('the guide does not install the packages');
  return script.replace(names, tarballsIn(process.argv[2] ?? (await packOnce())).join(' '));
}

/** Runs a shell script in a process group of its own, which is killed if it does not end. */
function run(folder: string, script: string): Promise<string> {
  return new Promise((resolve, reject) => {
    // Debian has nginx where only root looks for programs.
    const env = { ...process.env, PATH: `${process.env['PATH']}:/usr/sbin` };
    const shell = spawn('bash', ['-e', '-u', '-c', script], { cwd: folder, env, detached: true });
    let output = '';
    for (const stream of [shell.stdout, shell.stderr])
      stream.on('data', (chunk: Buffer) => {
        output += chunk.toString();
      });
    const stop = () => {
      try {
        process.kill(-(shell.pid as number), 'SIGKILL');
      } catch {
        // All of its processes have ended.
      }
    };
    const timer = setTimeout(stop, MAX_MS);
    shell.once('close', (code) => {
      clearTimeout(timer);
      stop();
      if (code === 0) resolve(output);
      else reject(new Error(`the commands of the guide ended with code ${code}:\n${output}`));
    });
  });
}

/** @throws if the client has not seen what the guide promises. */
function check(output: string, ports: readonly string[]): void {
  const lines = output.split('\n');
  const id = /^session (sess_\w+)$/m.exec(output)?.[1];
  if (id === undefined || !lines.includes(`still session ${id}`))
    throw new Error('the session of the guide did not go on');
  const answers = lines.filter((line) => line.startsWith('question '));
  const said = new Set<string>();
  for (let number = 1; number <= QUESTIONS; number++) {
    const [words, port = ''] = answers[number - 1]?.split(', says the node at ') ?? [];
    if (words !== `question ${number}: 1 2 3 4 5 6 7 8 9 10`)
      throw new Error(`the guide's answer ${number} is ${answers[number - 1]}`);
    said.add(port);
  }
  if (answers.length !== QUESTIONS || !ports.every((port) => said.has(port)))
    throw new Error(`${answers.length} answers of the guide came from the nodes at ${[...said].join(', ')}`);
}
