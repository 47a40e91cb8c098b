import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createOpenAIGateway } from '@parlance/server/openai';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CHAT_OPTIONS } from '../../../examples/demo/chat-options.js';
import { answerText, answerTexts, ask, ChatPages, finished, state } from '../kit/chat-driver.js';
import { chromiumMissing } from '../kit/chat-page.js';
import { freePort, type Serving, startServing } from '../kit/cli-process.js';
import { type OpenAIUpstream, startOpenAIUpstream } from '../kit/openai-upstream.js';
import { ADMIN_TOKEN, Stage, type StageOptions } from './chat-stage.js';

/** The sentences of the chat page at each break and end, and those that it must not show then. */

const WHOLE = 'First words, the end.';

interface Row extends StageOptions {
  readonly event: string;
  run(stage: Stage): Promise<void>;
  /** Said at some time. */
  readonly says: readonly (string | RegExp)[];
  /** Never said. */
  readonly never: readonly (string | RegExp)[];
}

const BREAKS: readonly Row[] = [
  {
    event: 'the connection is cut',
    async run(stage) {
      const { page, proxy, model } = stage;
      proxy.refuse(true);
      proxy.cut();
      await state(page, 'suspended');
      const told = page.locator('#pieces-told', {
        hasText: /: connection lost once \([\d.]+\ss so far\)\.$/,
      });
      await told.waitFor();
      proxy.refuse(false);
      await state(page, 'connected');
      await told.waitFor({ state: 'detached' });
      await page.locator('#pieces-told', { hasText: /: connection lost once \([\d.]+\ss\)\.$/ }).waitFor();
      await page.locator('.mark', { hasText: /^connection lost for/ }).waitFor();
      expect(await page.locator('.mark').textContent()).not.toContain('missing');
      model.end();
      await whole(page);
    },
    says: [
      'Connection lost.',
      'If the server is up, it continues writing. This page reconnects.',
      /^A server that is up keeps the session for [12]:\d\d$/,
      /^connection lost for [\d.]+\ss.* · nothing missing$/,
    ],
    never: [/shuts down/, /session was lost/, /being written/, /loaded again/, /copy/],
  },
  {
    event: 'the network freezes while an answer is read',
    movesClock: true,
    async run(stage) {
      const { page, proxy, model } = stage;
      proxy.freeze();
      await page.clock.runFor(4_000);
      await page.locator('#status', { hasText: 'Quiet' }).waitFor();
      await page.clock.runFor(12_000);
      await page.locator('#status', { hasText: 'Quiet' }).waitFor();
      await untilLost(page);
      await state(page, 'connected');
      model.end();
      await whole(page);
      expect(await page.locator('.answer > .muted').count()).toBe(0);
    },
    says: [
      'Quiet',
      /^for \d\d\ss$/,
      /^Nothing of this answer has come for \d+\ss\. The connection is being checked\.$/,
      /^connection lost for [2-9]\d\ss.* · nothing missing$/,
    ],
    never: [/shuts down/, /session was lost/, /\d,\d{3}\sms/],
  },
  {
    event: 'the network freezes while nothing is asked',
    movesClock: true,
    async run(stage) {
      const { page, proxy, model } = stage;
      model.end();
      await whole(page);
      proxy.freeze();
      await page.clock.runFor(16_000);
      await page.locator('#status', { hasText: 'Quiet' }).waitFor();
      await untilLost(page);
      await state(page, 'connected');
      await page.locator('.remark', { hasText: 'Connection lost for' }).waitFor();
    },
    says: ['Quiet', /^Connection lost for [2-9]\d\ss · the session continues$/],
    never: [/shuts down/, /missing/, /Waiting/],
  },
  {
    event: 'the page is two minutes away, and a question waits',
    movesClock: true,
    serve: ({ onRequest }) => ({ ...CHAT_OPTIONS, onRequest, timers: { resumeWindowMs: 500 } }),
    async run(stage) {
      const { page, proxy, model, server } = stage;
      await page.getByLabel('Your message').fill('And then?');
      await page.keyboard.press('Enter');
      proxy.refuse(true);
      proxy.cut();
      await state(page, 'suspended');
      model.end();
      await page.clock.fastForward('02:05');
      await expect.poll(() => server.sessions.size).toBe(0);
      await state(page, 'moving');
      proxy.refuse(false);
      await page.clock.runFor(20_000);
      await state(page, 'connected');
      await finished(page, 2);
      expect(await page.getByLabel('Your message').inputValue()).toBe('');
      expect(model.asked).toBe(2);
    },
    says: [
      'It is sent as soon as this answer is complete. Esc keeps it here.',
      'Offline. It is sent if the answer before it becomes complete. Esc keeps it here.',
      'The session has ended. It is sent if the answer before it becomes complete. Esc keeps it here.',
      /^It was lost for longer than the server keeps a session\./,
      'Connected again, in a new session · the next question sends the conversation once more',
    ],
    never: [/shuts down/, /has not kept/, /not sent/],
  },
  {
    event: 'the page is loaded again, and a question waits',
    async run(stage) {
      const { page, model } = stage;
      await page.getByLabel('Your message').fill('And then?');
      await page.keyboard.press('Enter');
      await page.reload();
      await state(page, 'connected');
      await page.getByText('It is sent as soon as this answer is complete.').waitFor();
      model.end();
      await finished(page, 2);
      expect(model.asked).toBe(2);
    },
    says: [/^page loaded again after [\d.]+\ss.* · nothing missing$/],
    never: [/shuts down/, /session was lost/, /copy/, /not sent/],
  },
  {
    event: 'back and forward',
    async run(stage) {
      const { page, model } = stage;
      await page.goto('about:blank');
      await page.goBack();
      await state(page, 'connected');
      model.end();
      await whole(page);
      expect(model.asked).toBe(1);
    },
    says: [/^page loaded again after [\d.]+\ss.* · nothing missing$/],
    never: [/shuts down/, /session was lost/, /copy/],
  },
  {
    event: 'the server is killed, and another one knows nothing',
    async run(stage) {
      const { page, proxy, model } = stage;
      await page.getByLabel('Your message').fill('And then?');
      await page.keyboard.press('Enter');
      proxy.refuse(true);
      proxy.cut();
      await state(page, 'suspended');
      await page.getByText('No server answers.').waitFor();
      // A narrow page has room for all of the notice, even if its panel is open.
      await page.setViewportSize({ width: 390, height: 800 });
      await page.locator('#panel > summary').click();
      const cutOff = await page.locator('#notice').evaluate((box) => box.scrollHeight - box.clientHeight);
      expect(cutOff).toBeLessThan(2);
      await page.setViewportSize({ width: 1280, height: 800 });
      await stage.replace();
      proxy.refuse(false);
      await page.getByText('Connected again, in a new session').waitFor();
      await page.getByRole('button', { name: 'Ask again' }).waitFor();
      expect(await page.getByLabel('Your message').inputValue()).toBe('And then?');
      // The version that was cut short counts, also when it is shown no more.
      await page.locator('#pieces-title', { hasText: /^1\sanswer cut short$/ }).waitFor();
      await page.getByRole('button', { name: 'Ask again' }).click();
      await page.locator('#pieces-title', { hasText: 'This answer' }).waitFor();
      await page.locator('#pieces', { hasText: /^[1-9]\spieces? so far$/ }).waitFor();
      model.end();
      await whole(page);
      await page
        .locator('#pieces-told', {
          hasText: /^In this chat: session lost once \([\d.]+\ss\); 1\sanswer cut short, asked again; /,
        })
        .waitFor();
      expect(await page.locator('#pieces-title').textContent()).toMatch(/^1\sanswer cut short$/);
    },
    says: [
      'If the server is up, it continues writing. This page reconnects.',
      /^Attempts to connect to 127\.0\.0\.1:\d+ fail at once\. The answer continues if a server comes back that has kept the session\.$/,
      /^(?:Next try in \d+\ss|Trying now)\. Session kept up to 1:\d\d\.$/,
      'Offline. It is sent if the answer before it becomes complete. Esc keeps it here.',
      'It was not sent, as the answer before it is not complete. Enter sends it.',
      /^session lost after [\d.]+\ss$/,
      'The session was lost before the answer was complete. The server has not kept the rest.',
      'Connected again, in a new session · the next question sends the conversation once more',
    ],
    never: [/shuts down/, /missing/, /being written/],
  },
  {
    event: 'the server drains',
    async run(stage) {
      const { page, model, server } = stage;
      const drained = server.drain({ timeoutMs: 60_000 });
      await stage.replace();
      model.end();
      await whole(page);
      await page.getByText('Connected again, in a new session').waitFor();
      await drained;
    },
    says: ['Connected again, in a new session · the next question sends the conversation once more'],
    never: [/lost/, /missing/, /not kept/],
  },
  {
    event: 'an operator closes the session',
    movesClock: true,
    async run(stage) {
      const { page, server } = stage;
      const [id = ''] = server.sessions.keys();
      const closed = await fetch(`${server.admin?.url}admin/sessions/${id}/close`, {
        method: 'POST',
        headers: { authorization: `Bearer ${ADMIN_TOKEN}` },
      });
      expect(closed.status).toBe(202);
      await state(page, 'ended');
      // The page is at rest: it does not ask a session for the answer that has ended, again and again.
      const written = await page.evaluate(countWrites);
      expect(written).toBeLessThan(10);
      await page.clock.runFor(60_000);
      const after = await page.evaluate(() => {
        window.dispatchEvent(new Event('online'));
        return document.body.dataset['state'];
      });
      expect(after).toBe('ended');
      expect(server.sessions.size).toBe(0);
      await page.getByRole('button', { name: 'Connect again' }).click();
      await state(page, 'connected');
    },
    says: [
      'Closed',
      'The server closed this session',
      'An operator of the server has closed it. This page does not reconnect by itself.',
    ],
    never: [/shuts down/, /missing/, /as soon as/, /Next try/],
  },
];

/** Writes of chats in the time of a hundred looks at the databases of the page. */
async function countWrites(): Promise<number> {
  const { put } = IDBObjectStore.prototype;
  let writes = 0;
  IDBObjectStore.prototype.put = function (...given) {
    writes++;
    return put.apply(this, given);
  };
  for (let i = 0; i < 100; i++) await indexedDB.databases();
  IDBObjectStore.prototype.put = put;
  return writes;
}

const ENDS: readonly (Pick<Row, 'event' | 'says' | 'never'> & { run(stage: Stage): void })[] = [
  {
    event: 'a refusal',
    run: ({ model }) => model.say({ refusal: 'I cannot help with that.' }).say({}, 'stop').stop(),
    says: ['The model has refused to answer.'],
    never: [/nothing/, /complete/],
  },
  {
    event: 'a call of a tool',
    run({ model }) {
      const call = { id: 'call_1', type: 'function', function: { name: 'get_weather', arguments: '' } };
      model.say({ tool_calls: [{ index: 0, ...call }] });
      model.say({ tool_calls: [{ index: 0, function: { arguments: '{"city":' } }] });
      model.say({ tool_calls: [{ index: 0, function: { arguments: '"Wien"}' } }] });
      model.say({}, 'tool_calls').stop();
    },
    says: ['The model calls the tool get_weather({"city":"Wien"}), which this page does not have.'],
    never: [/answered with nothing/],
  },
  {
    event: 'the limit of the length',
    run: ({ model }) => model.end('length'),
    says: ['The answer is cut short: it has reached the limit of its length.'],
    never: [/missing/],
  },
  {
    event: 'a content filter',
    run: ({ model }) => model.end('content_filter'),
    says: ['The answer is cut short: a content filter of the API has stopped it.'],
    never: [/missing/],
  },
  {
    event: 'an end without a reason',
    run: ({ model }) => model.say({ content: 'the end.' }).stop(),
    says: ['The API has not said that the answer is complete.'],
    never: [/missing/],
  },
  {
    event: 'an end with a reason of its own',
    run: ({ model }) => model.end('recitation'),
    says: ['The reason that the API gives for the end is “recitation”.'],
    never: [/missing/],
  },
  {
    event: 'no words at all',
    run: ({ model }) => model.say({}, 'stop').stop(),
    says: ['The model has answered with nothing.'],
    never: [/refused/, /tool/],
  },
];

const FAILURES: readonly Pick<Row, 'asks' | 'says'>[] = [
  { asks: 'status-401', says: [/^The API key was refused\./] },
  { asks: 'status-429', says: [/^The API limits how much may be asked\./] },
  { asks: 'status-500', says: [/^The model’s server failed \(500\)\. Ask again later\./] },
  { asks: 'dies-in-stream', says: [/^The answer broke off: the model’s server closed the connection\./] },
  { asks: 'error-in-stream', says: [/^The server had an error\./] },
];

describe.skipIf(chromiumMissing() !== undefined)('the chat page says what it knows, and no more', () => {
  const pages = ChatPages.use();
  let upstream: OpenAIUpstream;
  beforeAll(async () => {
    upstream = await startOpenAIUpstream();
  });
  afterAll(() => upstream?.stop());

  it.each(BREAKS)('when $event', async (row) => {
    const stage = await Stage.open(pages, row);
    await stage.reading();
    await row.run(stage);
    check(stage.said(), row);
  });

  it.each(ENDS)('when an answer ends with $event', async (row) => {
    const stage = await Stage.open(pages, {});
    row.run(stage);
    await ask(stage.page, 'Hello?');
    await finished(stage.page, 1);
    check(stage.said(), row);
  });

  it.each(FAILURES)('when the upstream fails: $asks', async ({ asks, says }) => {
    const onRequest = createOpenAIGateway({ baseUrl: upstream.baseUrl, apiKey: 'key', maxRetries: 0 });
    const stage = await Stage.open(pages, { serve: () => ({ onRequest }), asks });
    await ask(stage.page, 'Hello?');
    await stage.page.locator('.answer[data-state="failed"] .note').waitFor();
    check(stage.said(), { says, never: [/missing/, /nothing/, /session was lost/] });
  });

  it('when a model thinks before it answers', async () => {
    const { page, model } = await Stage.open(pages, {});
    model.say({ reasoning_content: 'Let me see' });
    await ask(page, 'Hello?');
    await page.getByText('The model is thinking …').waitFor();
    model.say({ reasoning: ', and again.' }).end();
    await finished(page, 1);
    await page.getByText(/^Thought/).click();
    await page.getByText('Let me see, and again.').waitFor();
    expect(await answerText(page)).toBe('the end.');
  });

  it('when a tab is duplicated: both read the answer', async () => {
    const stage = await Stage.open(pages, {});
    await stage.reading();
    const copy = await stage.duplicate();
    await copy.getByText('This tab is a copy of another one').waitFor();
    await expect.poll(() => answerText(copy)).toBe('First words, ');
    stage.model.end();
    for (const each of [stage.page, copy]) await whole(each);
    expect(stage.model.asked).toBe(1);
    check(stage.said(copy), {
      says: [/^This tab is a copy of another one/],
      never: [/loaded again/, /session was lost/, /missing/, /shuts down/],
    });
  });

  it('when an answer is stopped that two tabs read: neither says that nothing is lost', async () => {
    const stage = await Stage.open(pages, {});
    await stage.reading();
    const copy = await stage.duplicate();
    await expect.poll(() => answerText(copy)).toBe('First words, ');
    await stage.page.getByRole('button', { name: 'Stop' }).click();
    for (const each of [stage.page, copy]) {
      await each.locator('.answer[data-state="stopped"]').waitFor();
      await each.locator('#pieces-title', { hasText: 'Not checked' }).waitFor();
      await each
        .locator('#pieces-told', { hasText: /no break in mid-answer; 1\sanswer stopped\.$/ })
        .waitFor();
    }
  });

  it('when a tab is duplicated whose answer cannot be followed: it says where the rest is, and not to ask again', async () => {
    const { authenticate } = CHAT_OPTIONS;
    const stage = await Stage.open(pages, { serve: ({ onRequest }) => ({ authenticate, onRequest }) });
    await stage.reading();
    await stage.page.getByLabel('Your message').fill('And then?');
    await stage.page.keyboard.press('Enter');
    const copy = await stage.duplicate();
    await copy.locator('.answer[data-state="elsewhere"]').waitFor();
    expect(await copy.getByRole('button', { name: 'Ask again' }).isVisible()).toBe(false);
    stage.model.end();
    await finished(stage.page, 2);
    // The waiting message was sent by the tab in which it was written, once.
    expect(await copy.getByLabel('Your message').inputValue()).toBe('And then?');
    expect(stage.model.asked).toBe(2);
    check(stage.said(copy), {
      says: ['The rest of this answer arrives in the tab that has asked.'],
      never: [/loaded again/, /session was lost/, /missing/, /is sent as soon/],
    });
    // Both show the same chat, so the copy has all of it in the end.
    for (const when of ['at once', 'loaded again']) {
      await expect.poll(() => answerTexts(copy)).toEqual([WHOLE, WHOLE]);
      if (when === 'at once') await copy.reload();
    }
    expect(stage.model.asked).toBe(2);
  });

  it('when parlance serve --data is killed: nothing is missing only if the answer is whole', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'parlance-sentences-'));
    const port = await freePort();
    const serve = () => startServing(['--port', port, '--data', folder]);
    let serving: Serving = await serve();
    try {
      const { page } = await pages.visit(`http://127.0.0.1:${port}/`);
      await state(page, 'connected');
      await ask(page, 'How does an answer survive a lost connection?');
      await expect.poll(async () => (await answerText(page)).length).toBeGreaterThan(50);
      await serving.stop('SIGKILL');
      await state(page, 'suspended');
      expect(await page.locator('#notice-text').textContent()).toContain('If the server is up');
      serving = await serve();
      const answer = page.locator('.answer');
      await expect.poll(() => answer.getAttribute('data-state')).toMatch(/^(done|failed|interrupted)$/);
      const isWhole = (await answer.getAttribute('data-state')) === 'done';
      const marks = (await page.locator('.mark').allTextContents()).join('\n');
      expect(marks.includes('nothing missing'), marks).toBe(isWhole);
      // An answer that is not whole says why.
      expect(await answer.locator('.note').isVisible()).toBe(!isWhole);
    } finally {
      await serving.stop('SIGKILL');
      await rm(folder, { recursive: true, force: true });
    }
  });
});

function check(said: readonly string[], { says, never }: Pick<Row, 'says' | 'never'>): void {
  const fits = (pattern: string | RegExp) => (text: string) =>
    typeof pattern === 'string' ? text === pattern : pattern.test(text);
  const missing = says.filter((pattern) => !said.some(fits(pattern)));
  const wrong = never.flatMap((pattern) => said.filter(fits(pattern)));
  expect({ missing, wrong }, said.join('\n')).toEqual({ missing: [], wrong: [] });
}

async function whole(page: Page): Promise<void> {
  await finished(page, 1);
  expect(await answerText(page)).toBe(WHOLE);
}

/** Until the client has noticed that its connection is dead. */
async function untilLost(page: Page): Promise<void> {
  await page.evaluate(() => {
    const seen: string[] = [];
    Object.assign(window, { states: seen });
    new MutationObserver(() => seen.push(document.body.dataset['state'] ?? '')).observe(document.body, {
      attributes: true,
    });
  });
  const isLost = () =>
    page.evaluate(() => (window as unknown as { states: string[] }).states.includes('suspended'));
  while (!(await isLost())) await page.clock.runFor(5_000);
}
