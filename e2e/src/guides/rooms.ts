import { type Guide, OF_A_KILL, opened, withVite } from './guide.js';

export const rooms: Guide = async ({ pasted, browser, folder }) => {
  const { url, vite, serve } = await withVite(pasted, folder);
  let server = await serve();
  await opened(
    browser,
    url,
    (ann) =>
      opened(
        browser,
        `${url}?name=ben`,
        async (ben) => {
          const pages = [ann, ben];
          const say = async (text: string) => {
            await ben.locator('input[name=say]').fill(text);
            await ben.keyboard.press('Enter');
          };
          for (const page of pages) await page.getByText('you are in the lobby').waitFor();
          await say('hello');
          for (const page of pages) await page.getByText('ben: hello').waitFor();

          await server.kill('SIGKILL');
          await ann.getByText('ann is online').waitFor({ state: 'detached' });
          server = await serve();
          for (const page of pages) await page.getByText('is online').waitFor();
          for (const page of pages) await page.getByText('you are in the lobby').waitFor();
          await say('again');
          for (const page of pages) await page.getByText('ben: again').waitFor();

          await ann.getByText('kitchen').first().click();
          await ann.getByText('you are in the kitchen').waitFor();
          await say('only here');
          await ben.getByText('ben: only here').waitFor();
          if ((await ann.getByText('only here').count()) > 0)
            throw new Error('ann reads the lobby in the kitchen');
        },
        OF_A_KILL,
      ),
    OF_A_KILL,
  );
  await vite.kill();
  await server.kill();
};
