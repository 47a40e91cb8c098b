import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { expect, it } from 'vitest';

const PYTHON_TS = new URL('./python.ts', import.meta.url).href;
const PREPARE = `import { prepare } from '${PYTHON_TS}';
const wanted = { name: 'any', requirements: 'tests/requirements.txt' };
console.log(JSON.stringify(prepare(wanted, process.argv[1])));`;

/** Makes an environment only once as many processes as \`$COUNT\` are at it. */
const program = (folder: string) => `#!/bin/sh
case "$1 $2" in
  "-m venv")
    touch "${folder}/begun/$$"
    while [ "$(ls "${folder}/begun" | wc -l)" -lt "$COUNT" ]; do sleep 0.05; done
    mkdir "$4" "$4/bin" && cp "$0" "$4/bin/python" ;;
  "-m pip") test -x "$0" ;;
esac
`;

it('lets processes prepare one environment at once', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'parlance-python-'));
  try {
    const [base, cache] = [join(folder, 'python'), join(folder, 'cache')];
    writeFileSync(base, program(folder), { mode: 0o755 });
    const prepareIn = async (count: number): Promise<readonly unknown[]> => {
      rmSync(join(folder, 'begun'), { recursive: true, force: true });
      mkdirSync(join(folder, 'begun'));
      const env = { ...process.env, PYTHON: base, COUNT: `${count}` };
      const args = ['--import', 'tsx', '--input-type=module', '-e', PREPARE, cache];
      const all = Array.from({ length: count }, async () => {
        const child = spawn(process.execPath, args, { env, stdio: ['ignore', 'pipe', 'inherit'] });
        const [output] = await Promise.all([text(child.stdout), once(child, 'exit')]);
        return JSON.parse(output) as unknown;
      });
      return await Promise.all(all);
    };
    const left = join(cache, 'any');
    mkdirSync(join(left, 'of-an-earlier-version'), { recursive: true });

    const [first, second] = await prepareIn(2);

    expect(first).toEqual({ python: expect.stringContaining(left) });
    expect(second).toEqual(first);
    expect(await prepareIn(1)).toEqual([first]);
    // The environment and the file that names it.
    expect(readdirSync(left)).toHaveLength(2);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
