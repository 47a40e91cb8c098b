import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { startChatPage } from '../examples/demo/serve-chat.js';
import { buildUserInterface } from './build-ui.js';
import { launchChromium, WHOLE_CHROMIUM } from './chromium.js';

/**
 * `npm run picture`: records the chat page while its connection is cut in mid-answer, as docs/media/cut.webp with a still.
 * Needs Chromium and ffmpeg (Debian: apt-get install chromium ffmpeg), and is run by hand after the page has changed.
 */

const FOLDER = fileURLToPath(new URL('../docs/media', import.meta.url));
const SIZE = { width: 1080, height: 620 };
/** Pictures of the screen, and in the result, in a second. */
const RATE = 8;
/** In pixels. */
const WIDTH = 900;
/** Bytes of the animated picture. */
const MAX_SIZE = 1_500_000;
const QUESTION = 'Write a debounce function in TypeScript.';

await buildUserInterface();
const page = await startChatPage({ port: 0, delayMs: 45, absenceMs: 3_000 });
const browser = await launchChromium(WHOLE_CHROMIUM);
const frames = mkdtempSync(join(tmpdir(), 'parlance-picture-'));
mkdirSync(FOLDER, { recursive: true });
try {
  const context = await browser.newContext({
    viewport: SIZE,
    colorScheme: 'light',
    reducedMotion: 'no-preference',
  });
  const tab = await context.newPage();
  await tab.goto(page.url);
  await tab.locator('body[data-state="connected"]').waitFor();
  let count = 0;
  let isOver = false;
  const recording = (async () => {
    for (let next = performance.now(); !isOver; next += 1000 / RATE) {
      await new Promise((resolve) => setTimeout(resolve, Math.max(0, next - performance.now())));
      writeFileSync(join(frames, `${String(count++).padStart(4, '0')}.png`), await tab.screenshot());
    }
  })();
  recording.catch(() => {});
  await tab.getByLabel('Your message').fill(QUESTION);
  await tab.waitForTimeout(500);
  await tab.keyboard.press('Enter');
  await tab.locator('pre').first().waitFor();
  await tab.waitForTimeout(1_200);
  await tab.getByRole('button', { name: /Cut the connection/ }).click();
  await tab.locator('body[data-state="suspended"]').waitFor();
  await tab.locator('body[data-state="connected"]').waitFor();
  await tab.getByRole('button', { name: 'Ask again' }).last().waitFor();
  await tab.waitForTimeout(800);
  await tab
    .locator('answer-text .mark')
    .first()
    .evaluate((mark) => mark.scrollIntoView({ block: 'center' }));
  await tab.waitForTimeout(1_000);
  const still = count - 1;
  await tab.waitForTimeout(2_000);
  isOver = true;
  await recording;
  execFileSync(
    'ffmpeg',
    [
      '-y',
      '-i',
      join(frames, `${String(still).padStart(4, '0')}.png`),
      '-vf',
      `scale=${WIDTH}:-1:flags=lanczos`,
      join(FOLDER, 'cut.png'),
    ],
    { stdio: 'ignore' },
  );
  const filter = `scale=${WIDTH}:-1:flags=lanczos`;
  const target = join(FOLDER, 'cut.webp');
  const encoding = [
    '-c:v',
    'libwebp_anim',
    '-lossless',
    '0',
    '-quality',
    '75',
    '-compression_level',
    '6',
    '-loop',
    '0',
  ];
  const pictures = ['-framerate', String(RATE), '-i', join(frames, '%04d.png')];
  execFileSync('ffmpeg', ['-y', ...pictures, '-vf', filter, ...encoding, target], { stdio: 'ignore' });
  const { size } = statSync(target);
  console.log(`${count} pictures, ${(size / 1000).toFixed(0)} kB: ${target}`);
  if (size > MAX_SIZE) {
    console.error(`at most ${MAX_SIZE / 1000} kB are allowed`);
    process.exitCode = 1;
  }
} finally {
  await browser.close();
  await page.close();
  rmSync(frames, { recursive: true, force: true });
}
