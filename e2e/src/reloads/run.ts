import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { getEncoding, loadEncoding } from '@parlance/protocol';
import { createServer, keptReplies, type Server } from '@parlance/server';
import type { Browser, BrowserContext, Page } from 'playwright-core';
import { bundleFile } from '../../../bench/src/page/bundle.js';
import { serveCompressed } from '../../../bench/src/page/static-files.js';
import { seeded } from '../../../packages/protocol/src/testing/prose.js';
import type { Shown } from './page.js';

/** Reloads pages in the middle of streamed answers, and compares what they show with what the server generated. */

export interface ReloadOptions {
  readonly browser: Browser;
  /** Reloads in all. */
  readonly reloads: number;
  /** Answers that are stopped. */
  readonly stops: number;
  readonly seed: number;
}

export interface ReloadResult {
  readonly reloads: number;
  readonly answers: number;
  /** Reloads after which the next part continued a character. */
  readonly insideCharacters: number;
  /** Sentences about what went wrong. */
  readonly faults: readonly string[];
  /** Milliseconds from the `load` event to the first part, for reloads of pages without a vocabulary. */
  readonly firstPart: readonly number[];
  /** Milliseconds from the call of `stop` in a page to the abort of the handler. */
  readonly stopped: readonly number[];
}

/** Its characters are often split between tokens of CL100K_BASE. */
const TEXT =
  'Grüße! 世界は広い 👩‍👩‍👧‍👦 and 🦀🦀 crabs; 漢字 𠮷野家 ẞ — ﷽ ꧁꧂ नमस्ते, 안녕하세요 🏳️‍🌈 plain words follow these, as they do. ';
const PART_MS = 4;
const RELOADS_PER_ANSWER = 10;

interface Answer {
  readonly signal: AbortSignal;
  abortedAt: number;
  text: string;
}

export async function runReloads({ browser, reloads, stops, seed }: ReloadOptions): Promise<ReloadResult> {
  const random = seeded(seed);
  const bundle = await bundleFile(fileURLToPath(new URL('./page.ts', import.meta.url)), { fromSource: true });
  const files = await serveCompressed(bundle.folder);
  const answers = new Map<string, Answer>();
  await loadEncoding('CL100K_BASE');
  const ids = [...(getEncoding('CL100K_BASE')?.encode(TEXT.repeat(12)) ?? [])];
  const inside = ids.map((_, position) => position).filter((position) => isInside(ids, position));
  const server = serve(files.origin, ids, answers);
  const { url } = await server.listen();
  const contexts: BrowserContext[] = [];
  const faults: string[] = [];
  const result = { reloads: 0, answers: 0, insideCharacters: 0, faults, firstPart: [], stopped: [] } as {
    reloads: number;
    answers: number;
    insideCharacters: number;
    faults: string[];
    firstPart: number[];
    stopped: number[];
  };
  try {
    const profile = async () => {
      const context = await browser.newContext();
      contexts.push(context);
      return context;
    };
    const [first, second, stranger] = [await profile(), await profile(), await profile()];
    const open = async (context: BrowserContext, name: string, query: Record<string, string>) => {
      const page = await context.newPage();
      await page.goto(
        `${files.origin}/?${new URLSearchParams({ server: url, name, token: 'ada', ...query })}`,
      );
      return page;
    };
    while (result.reloads < reloads) {
      const name = `answer ${result.answers}`;
      const hasEncoding = result.answers % 2 === 1;
      const asks = { role: 'asks', ...(hasEncoding ? { encoding: 'yes' } : {}) };
      const page = await open(first, name, asks);
      await until(page, 'shown.position > 0');
      const followers = [await open(first, name, {}), await open(second, name, { encoding: 'yes' })];
      for (let i = 0; i < RELOADS_PER_ANSWER && result.reloads < reloads; i++) {
        const { position, isComplete } = await shownIn(page);
        if (isComplete) break;
        const target = position + Math.floor(random() * 2 * (ids.length / RELOADS_PER_ANSWER));
        if (hasEncoding) {
          // The page reloads itself: seen from here, an answer is past a position when it is told.
          const at = inside.filter((position) => position >= target);
          await page.evaluate(`Object.assign(control, { isFormer: true, reloadAt: ${JSON.stringify(at)} })`);
          await until(page, `${OVER} || control.isFormer !== true`);
        } else await until(page, `${OVER} || shown.position >= ${target}`);
        const last = await shownIn(page);
        if (last.isComplete || last.error !== undefined) break;
        if (!hasEncoding) await page.reload();
        else if (inside.includes((await page.evaluate('control.from')) as number)) result.insideCharacters++;
        await page.waitForFunction(`control.firstPartAfterLoad > 0 || ((shown) => ${OVER})(control.shown)`);
        const wait = (await page.evaluate('control.firstPartAfterLoad')) as number | undefined;
        // A vocabulary takes longer to load than the page.
        if (wait !== undefined && !hasEncoding) result.firstPart.push(wait);
        result.reloads++;
      }
      for (const [i, each] of [page, ...followers].entries()) {
        await until(each, OVER);
        const shown = await shownIn(each);
        if (shown.error !== undefined) faults.push(`${name}, page ${i}: ${shown.error}`);
        else if (shown.text !== answers.get(name)?.text)
          faults.push(`${name}, page ${i}: another text, ${difference(shown.text, answers.get(name)?.text)}`);
        else if (shown.position !== ids.length) faults.push(`${name}, page ${i}: ended at ${shown.position}`);
        await each.close();
      }
      const eve = await open(stranger, name, { token: 'eve' });
      const nobody = await open(stranger, 'no such answer', { token: 'eve' });
      for (const each of [eve, nobody]) await until(each, 'shown.error !== undefined');
      const [denied, unknown] = [(await shownIn(eve)).error, (await shownIn(nobody)).error];
      if (denied !== unknown || denied?.startsWith('unknown_reply') !== true)
        faults.push(
          `${name}: a stranger is told "${denied}", and "${unknown}" about an answer that does not exist`,
        );
      for (const each of [eve, nobody]) await each.close();
      result.answers++;
    }
    for (let i = 0; i < stops; i++) {
      const name = `stopped ${i}`;
      const page = await open(first, name, { role: 'asks' });
      await until(page, 'shown.position > 0');
      const pages = [page, await open(first, name, {}), await open(second, name, {})];
      for (const each of pages) await until(each, 'shown.position > 0');
      if (i % 2 === 0) await page.reload();
      await until(page, 'shown.position > 0');
      await page.waitForFunction('control.firstPartAfterLoad !== undefined');
      const at = (await pages[i % 3]?.evaluate('control.stop()')) as number;
      const answer = answers.get(name);
      if (answer === undefined || !answer.signal.aborted) faults.push(`${name}: the handler was not stopped`);
      else result.stopped.push(Math.max(0, answer.abortedAt - at));
      for (const each of pages) {
        await until(each, OVER);
        const { error } = await shownIn(each);
        if (error?.startsWith('cancelled') !== true) faults.push(`${name}: a page shows ${error}`);
        await each.close();
      }
    }
  } finally {
    for (const context of contexts) await context.close();
    await server.close();
    await files[Symbol.asyncDispose]();
    await bundle[Symbol.asyncDispose]();
  }
  return result;
}

/** The token is the principal. Each answer is one token a part. */
function serve(origin: string, ids: readonly number[], answers: Map<string, Answer>): Server {
  return createServer({
    origins: [origin],
    limits: {
      messagesPerMinute: Infinity,
      sessionsPerIp: Infinity,
      sessionsPerPrincipal: Infinity,
      connectionsPerMinutePerIp: Infinity,
    },
    features: [keptReplies({ maxReplies: 100_000 })],
    authenticate: ({ token }) => (token === undefined ? null : { principal: token }),
    async *onRequest(request, { keep, metadata, signal, session }) {
      if (request.text === 'ready?') return;
      const name = String(metadata['name']);
      keep({ name });
      const answer: Answer = { signal, abortedAt: 0, text: TEXT.repeat(12) };
      signal.addEventListener('abort', () => {
        answer.abortedAt = Date.now();
      });
      answers.set(name, answer);
      const hasTokens = session.negotiated.encoding !== null;
      const decoder = getEncoding('CL100K_BASE')?.createDecoder();
      for (const id of ids) {
        if (signal.aborted) return;
        yield hasTokens ? { tokens: [id] } : (decoder?.push([id]) ?? '');
        await pause(PART_MS);
      }
    },
  });
}

/** Whether part `position` ends in the middle of a character. */
function isInside(ids: readonly number[], position: number): boolean {
  const decoder = getEncoding('CL100K_BASE')?.createDecoder();
  try {
    decoder?.push(ids.slice(0, position));
    decoder?.end();
    return false;
  } catch {
    return true;
  }
}

async function shownIn(page: Page): Promise<Shown> {
  return (await page.evaluate('control.shown')) as Shown;
}

/** @param condition JavaScript about `shown`, see {@link Shown}. */
async function until(page: Page, condition: string): Promise<void> {
  await page.waitForFunction(
    `globalThis.control !== undefined && ((shown) => ${condition})(control.shown)`,
    undefined,
    { polling: 20 },
  );
}
const OVER = 'shown.isComplete || shown.error !== undefined';

function difference(a: string, b = ''): string {
  let at = 0;
  while (at < a.length && a[at] === b[at]) at++;
  return `from unit ${at}: ${JSON.stringify(a.slice(at, at + 20))} in place of ${JSON.stringify(b.slice(at, at + 20))}`;
}
