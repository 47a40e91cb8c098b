import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { createCuttingProxy } from '../e2e/src/kit/cutting-proxy.js';
import { freePort } from '../packages/server/src/engine/testing/free-port.js';
import { build } from './build-ui.js';
import { launchChromium, WHOLE_CHROMIUM } from './chromium.js';

/**
 * `npm run picture`: records the chat page of `parlance serve --data` while its connection is cut, the server is killed, and the page is
 * loaded again, all within one answer, as docs/media/cut.webp with a still of its end. Needs Chromium and ffmpeg (Debian: apt-get
 * install chromium ffmpeg), and is run by hand after the page has changed.
 */

const FOLDER = fileURLToPath(new URL('../docs/media', import.meta.url));
const PROGRAM = fileURLToPath(new URL('../packages/cli/dist/node/cli.js', import.meta.url));
const SIZE = { width: 1080, height: 640 };
/** Pictures of the screen in a second, and in the result, which so takes some ten seconds. */
const [RATE, SHOWN_RATE] = [8, 14];
/** In pixels: a README is 830 wide on GitHub. */
const WIDTH = 830;
/** Bytes of the animated picture. */
const MAX_SIZE = 1_500_000;
const QUESTION = 'How does an answer survive a lost connection?';

await build('@parlance/cli');
const data = mkdtempSync(join(tmpdir(), 'parlance-picture-'));
const frames = join(data, 'frames');
mkdirSync(frames);
mkdirSync(FOLDER, { recursive: true });
const port = await freePort();
let server = await serve();
const proxy = await createCuttingProxy(port);
const browser = await launchChromium(WHOLE_CHROMIUM);
try {
  const context = await browser.newContext({
    viewport: SIZE,
    colorScheme: 'light',
    reducedMotion: 'no-preference',
  });
  const tab = await context.newPage();
  await tab.goto(`http://127.0.0.1:${proxy.port}/`);
  const isIn = (state: string) => tab.locator(`body[data-state="${state}"]`).waitFor();
  await isIn('connected');
  let count = 0;
  let isOver = false;
  let caption = '';
  const recording = (async () => {
    for (let next = performance.now(); !isOver; next += 1000 / RATE) {
      await sleep(Math.max(0, next - performance.now()));
      await tab.evaluate(showCaption, caption).catch(() => {});
      writeFileSync(join(frames, `${String(count++).padStart(4, '0')}.png`), await tab.screenshot());
    }
  })();
  recording.catch(() => {});
  await tab.getByLabel('Your message').fill(QUESTION);
  await sleep(500);
  await tab.keyboard.press('Enter');
  await tab.locator('answer-text .block').nth(1).waitFor();
  caption = '1 · The connection is cut';
  proxy.refuse(true);
  proxy.cut();
  await isIn('suspended');
  await sleep(1_400);
  proxy.refuse(false);
  await isIn('connected');
  await sleep(1_200);
  caption = '2 · The server is killed (kill -9), and started again';
  await sleep(400);
  server.kill('SIGKILL');
  await isIn('suspended');
  server = await serve();
  await isIn('connected');
  await sleep(1_200);
  caption = '3 · The page is loaded again';
  await sleep(400);
  await tab.reload();
  await isIn('connected');
  await tab.locator('.answer[data-state="done"]').waitFor();
  await tab.locator('.proof[data-verdict="whole"]').click();
  caption = 'Each piece has come, once';
  await tab.locator('.card dl').waitFor();
  await tab.locator('#log').evaluate((log) => log.scrollTo(0, log.scrollHeight));
  await sleep(800);
  const still = count - 1;
  await sleep(2_000);
  isOver = true;
  await recording;
  const scaled = ['-vf', `scale=${WIDTH}:-1:flags=lanczos`];
  const stillFile = join(frames, `${String(still).padStart(4, '0')}.png`);
  execFileSync('ffmpeg', ['-y', '-i', stillFile, ...scaled, join(FOLDER, 'cut.png')], { stdio: 'ignore' });
  const target = join(FOLDER, 'cut.webp');
  const webp = 'libwebp_anim -lossless 0 -quality 75 -compression_level 6 -loop 0'.split(' ');
  const pictures = ['-framerate', String(SHOWN_RATE), '-i', join(frames, '%04d.png')];
  execFileSync('ffmpeg', ['-y', ...pictures, ...scaled, '-c:v', ...webp, target], { stdio: 'ignore' });
  const { size } = statSync(target);
  console.log(
    `${count} pictures, ${(count / SHOWN_RATE).toFixed(1)} s, ${(size / 1000).toFixed(0)} kB: ${target}`,
  );
  if (size > MAX_SIZE) {
    console.error(`at most ${MAX_SIZE / 1000} kB are allowed`);
    process.exitCode = 1;
  }
} finally {
  await browser.close();
  await proxy[Symbol.asyncDispose]();
  server.kill('SIGKILL');
  rmSync(data, { recursive: true, force: true });
}

/** Starts `parlance serve`. Resolves when it listens. */
async function serve(): Promise<ChildProcess> {
  const args = [PROGRAM, 'serve', '--port', String(port), '--data', join(data, 'sessions')];
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  for (let log = ''; !log.includes('"serve.ready"'); log += String((await once(child.stdout, 'data'))[0]));
  child.stdout.resume();
  return child;
}

/** Runs in the page: says what happens, below the log. */
function showCaption(text: string): void {
  const known = document.querySelector<HTMLElement>('#caption');
  const element =
    known ?? document.body.appendChild(Object.assign(document.createElement('p'), { id: 'caption' }));
  element.textContent = text;
  element.hidden = text === '';
  const style = {
    position: 'fixed',
    top: '3.75rem',
    left: '1.5rem',
    zIndex: '9',
    margin: '0',
    padding: '0.5rem 0.875rem',
  };
  Object.assign(element.style, style, {
    borderRadius: '0.5rem',
    background: '#1a1d20',
    color: '#fff',
    fontWeight: '600',
  });
}
