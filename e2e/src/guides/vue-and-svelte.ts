import { type Guide, OF_A_KILL, opened, withVite } from './guide.js';

export const vueAndSvelte: Guide = async ({ pasted, browser, folder }) => {
  const { url, vite, serve } = await withVite(pasted, folder);
  let server = await serve();
  await opened(
    browser,
    `${url}vue/`,
    (ann) =>
      opened(
        browser,
        `${url}svelte/`,
        async (ben) => {
          const pages = [ann, ben];
          const say = async (page: typeof ann, text: string) => {
            await page.locator('input:enabled').fill(text);
            await page.keyboard.press('Enter');
          };
          await ann.getByText('ben is here').waitFor();
          for (const page of pages) {
            await page.getByText('is established').waitFor();
            await say(page, ' ');
            await page.getByText('say something').waitFor();
            await say(page, 'hello');
            await page.getByText('sent to 2').waitFor();
          }
          for (const page of pages)
            for (const name of ['ann', 'ben']) await page.getByText(`${name}: hello`).waitFor();

          await server.kill('SIGKILL');
          for (const page of pages) await page.getByText('is established').waitFor({ state: 'detached' });
          server = await serve();
          for (const page of pages) await page.getByText('is established').waitFor();
          await say(ben, 'again');
          for (const page of pages) await page.getByText('ben: again').waitFor();

          // Each component closes its session when it leaves.
          for (const [leaver, name, other] of [
            [ann, 'ann', ben],
            [ben, 'ben', ann],
          ] as const) {
            await leaver.getByText('Leave').click();
            await other.getByText(`${name} has left`).waitFor();
            await leaver.getByText('Return').click();
            await leaver.getByText('is established').waitFor();
          }
        },
        OF_A_KILL,
      ),
    OF_A_KILL,
  );
  await vite.kill();
  await server.kill();
};
