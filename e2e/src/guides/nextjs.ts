import { randomBytes } from 'node:crypto';
import { freePort } from '../kit/cli-process.js';
import { startOpenAIUpstream } from '../kit/openai-upstream.js';
import { type Guide, opened } from './guide.js';

export const nextjs: Guide = async ({ pasted, browser }) => {
  await using upstream = await startOpenAIUpstream();
  const port = await freePort();
  // This answer ends only if it is stopped.
  const env = {
    OPENAI_BASE_URL: upstream.baseUrl,
    OPENAI_API_KEY: 'key',
    MODEL: 'endless',
    PORT: port,
    JWT_SECRET: randomBytes(32).toString('hex'),
  };
  let questions = 0;
  const chat = async (mode: string) => {
    const server = pasted.start('node server.mjs', { env: { ...env, NODE_ENV: mode } });
    await server.printed('listening');
    await opened(browser, `http://127.0.0.1:${port}/`, async (page) => {
      await page.locator('input[name=name]').fill('ann');
      await page.getByText('Log in').click();
      await page.getByPlaceholder('Ask, ann').fill('Why?');
      await page.keyboard.press('Enter');
      const answer = page.locator('p.assistant');
      await answer.getByText('100 101 102').waitFor();
      await page.reload();
      await answer.getByText('100 101 102').waitFor();
      await page.getByText('Stop').click();
      await page.getByText('Stop').waitFor({ state: 'detached' });
    });
    while (upstream.openExchanges > 0) await new Promise((resolve) => setTimeout(resolve, 20));
    const { length } = upstream.requests;
    if (length !== ++questions) throw new Error(`the model was asked ${length} times`);
    await server.kill();
  };
  await chat('development');
  await pasted.run('next build', [], { env });
  await chat('production');
};
