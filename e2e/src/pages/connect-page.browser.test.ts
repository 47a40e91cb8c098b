import { type ChildProcessWithoutNullStreams, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { request } from 'node:http';
import { networkInterfaces } from 'node:os';
import { createServer } from '@parlance/server';
import type { Browser, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { chromiumMissing, launchChromium, openPage } from '../kit/chat-page.js';
import { collect, commandLine } from '../kit/cli-process.js';
import { look } from '../kit/looking.js';

/** `parlance connect --ui` as people use it: typed on a terminal, with its page in a browser. */

const missing = chromiumMissing();
const hasScript = spawnSync('script', ['--version']).status === 0;
if (process.env['CI'] === 'true' && (missing !== undefined || !hasScript))
  throw new Error(missing ?? 'no script(1), which gives a command a terminal');

const TOKEN = 'canary-of-the-user';
const CTRL_C = '\u0003';

describe.skipIf(missing !== undefined || !hasScript)('parlance connect --ui', () => {
  let browser: Browser;
  let url: string;
  let command: ChildProcessWithoutNullStreams | undefined;
  const server = createServer({
    authenticate: ({ token }) => (token === TOKEN ? { principal: 'p' } : null),
    async *onRequest({ text }) {
      for (const word of ['You', ' said:', ' ', text]) yield word;
    },
  });

  beforeAll(async () => {
    const [launched, listening] = await Promise.all([launchChromium(), server.listen()]);
    browser = launched;
    url = listening.url;
  });
  afterEach(() => void command?.kill('SIGKILL'));
  afterAll(async () => {
    await browser?.close();
    await server.close();
  });

  /** Starts the command on a terminal of its own. */
  function typeInto(...options: readonly string[]) {
    // Without `exec`, a shell that stays would also be interrupted, and would exit with 130.
    const line = `exec ${commandLine('connect', ...options, url)}`;
    const { FORCE_COLOR, ...inherited } = process.env;
    const env = { ...inherited, PARLANCE_TOKEN: TOKEN, TERM: 'xterm-256color', NO_COLOR: '1' };
    const child = spawn('script', ['-qec', line, '/dev/null'], { env });
    command = child;
    const shown = collect(child.stdout);
    return {
      shown,
      type: (text: string) => child.stdin.write(text),
      ended: once(child, 'close').then(([code]) => code as number | null),
      /** Waits until the terminal shows it. */
      async sees(text: string): Promise<void> {
        await expect.poll(shown).toContain(text);
      },
    };
  }

  it('shows what is typed, byte by byte, to those who have the address, until Ctrl-C', async () => {
    const { shown, type, sees, ended } = typeInto('--ui');
    await sees('> ');
    const [address = ''] = /http:\/\/127\.0\.0\.1:\d+\/inspect#key=[\w-]{24}/.exec(shown()) ?? [];
    expect(shown()).toContain(`Inspector ${address}`);

    await using opened = await openPage(browser, address, { viewport: { width: 1440, height: 900 } });
    const { page, complaints } = opened;
    await page.getByText('parlance connect', { exact: true }).waitFor();
    await expect.poll(() => labels(page)).toContain('← ACCEPT');
    type('hello there\r');
    await sees('You said: hello there');
    await expect.poll(() => labels(page)).toContain('← end #1');

    await page.locator('.frames tr', { hasText: '→ request #1' }).click();
    await page.getByRole('heading', { name: 'sent · request #1' }).waitFor();
    expect(await page.locator('.fields .name').allTextContents()).toEqual(
      expect.arrayContaining(['kind', 'stream', 'codec and flags']),
    );
    expect(await page.locator('.hex pre').textContent()).toMatch(/^0000 {2}[\da-f]{2} /);
    await look(page, 'connect-fields');
    await page.getByRole('tab', { name: 'Content' }).click();
    expect(await page.locator('pre.content').textContent()).toBe('hello there');
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
    await page.getByRole('button', { name: 'Copy text' }).click();
    await expect.poll(() => page.evaluate(() => navigator.clipboard.readText())).toBe('hello there');
    await look(page, 'connect-content');
    await page.locator('.frames tr', { hasText: '→ HELLO' }).click();
    await page.getByRole('tab', { name: 'Fields' }).click();
    await page.locator('.fields .secret', { hasText: '[redacted]' }).first().waitFor();
    expect(await page.content()).not.toContain(TOKEN);

    // The files of the page hold nothing; what the command has seen is behind the key.
    const { port } = new URL(address);
    const authorization = `Bearer ${new URL(address).hash.replace('#key=', '')}`;
    const status = (headers: Record<string, string>) => answerOf({ host: '127.0.0.1', port, headers });
    expect(await status({})).toBe(401);
    expect(await status({ authorization: `${authorization}x` })).toBe(401);
    expect(await status({ authorization, host: 'evil.example' })).toBe(403);
    expect(await status({ authorization, origin: 'http://evil.example' })).toBe(403);
    expect(await status({ authorization })).toBe(200);
    const addresses = Object.values(networkInterfaces()).flatMap((list) => list ?? []);
    const outside = addresses.find(({ internal, family }) => !internal && family === 'IPv4')?.address;
    if (outside !== undefined)
      expect(await answerOf({ host: outside, port, headers: { authorization } })).toBe('ECONNREFUSED');

    // The first ends the session, the second the command.
    type(CTRL_C);
    await sees(`The inspector stays until Ctrl-C:\r\n${address}`);
    await expect.poll(() => labels(page)).toContain('→ CLOSE');
    await page.getByText('parlance connect', { exact: true }).waitFor();
    type(CTRL_C);
    expect(await ended).toBe(0);
    await page.getByText('The command has ended').waitFor();
    expect(await labels(page)).toContain('→ request #1');
    expect(complaints).toEqual([]);
    expect(shown()).not.toContain(TOKEN);
  });
});

const labels = (page: Page) => page.locator('.frames tbody [role=row] .frame').allTextContents();

/** The status of an answer of `/events`, or the code of the failure to get one. */
function answerOf(options: {
  readonly host: string;
  readonly port: string;
  readonly headers: Readonly<Record<string, string>>;
}): Promise<number | string | undefined> {
  return new Promise((resolve) => {
    const asked = request({ ...options, path: '/events', agent: false }, (response) => {
      response.destroy();
      resolve(response.statusCode);
    });
    asked.on('error', ({ code }: NodeJS.ErrnoException) => resolve(code)).end();
  });
}
