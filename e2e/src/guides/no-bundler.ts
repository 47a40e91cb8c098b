import { cpSync } from 'node:fs';
import { join } from 'node:path';
import { freePort } from '../kit/cli-process.js';
import { type Guide, opened } from './guide.js';

export const noBundler: Guide = async ({ pasted, browser, folder }) => {
  // The server of the guide serves the packages that are beside it.
  for (const file of ['index.html', 'server.mjs'])
    cpSync(join(pasted.folder, folder, file), join(pasted.folder, file));
  const port = await freePort();
  const server = pasted.start('node server.mjs', { env: { PORT: port } });
  await server.printed('listening');
  await opened(browser, `http://127.0.0.1:${port}/`, (page) =>
    page.getByText('You asked: why is the sky blue?').waitFor(),
  );
  await server.kill();
};
