import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The README as a new user follows it: packed packages in an empty folder, code as pasted. */

const root = fileURLToPath(new URL('..', import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'parlance-packed-'));
let server: ChildProcess | undefined;

try {
  for (const name of ['protocol', 'server', 'client']) {
    execFileSync('npx', ['--no-install', 'pnpm', 'pack', '--pack-destination', folder], {
      cwd: join(root, 'packages', name),
      stdio: 'pipe',
    });
  }
  const tarballs = readdirSync(folder).filter((file) => file.endsWith('.tgz'));
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ private: true, type: 'module' }));
  execFileSync(
    'npm',
    ['install', '--no-audit', '--no-fund', '--loglevel=error', 'ws', ...tarballs.map((file) => `./${file}`)],
    {
      cwd: folder,
      stdio: 'inherit',
    },
  );
  for (const file of ['server.mjs', 'client.mjs']) writeFileSync(join(folder, file), codeOf(file));

  server = spawn('node', ['server.mjs'], { cwd: folder, stdio: ['ignore', 'pipe', 'inherit'] });
  await printed(server, 'listening on');
  const output = execFileSync('node', ['client.mjs'], { cwd: folder, encoding: 'utf8', timeout: 60_000 });
  console.log(output.trim());
  for (const expected of ['agreed on M2M', 'you said: hello', 'You asked: why is the sky blue?']) {
    if (!output.includes(expected)) throw new Error(`the client of the README did not print "${expected}"`);
  }
} finally {
  server?.kill();
  rmSync(folder, { recursive: true, force: true });
}

/** The code block of the README that begins with a comment naming `file`. */
function codeOf(file: string): string {
  const blocks = readFileSync(join(root, 'README.md'), 'utf8').split('```');
  const block = blocks.find((text) => text.startsWith(`js\n// ${file}\n`));
  if (block === undefined) throw new Error(`the README has no code block for ${file}`);
  return block.slice('js\n'.length);
}

function printed(child: ChildProcess, text: string): Promise<void> {
  return new Promise((resolve, reject) => {
    child.stdout?.on('data', (chunk: Buffer) => {
      if (chunk.includes(text)) resolve();
    });
    child.once('exit', (code) => reject(new Error(`the server of the README ended with code ${code}`)));
  });
}
