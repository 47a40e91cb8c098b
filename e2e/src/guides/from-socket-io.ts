import { freePort } from '../kit/cli-process.js';
import type { Guide } from './guide.js';

export const fromSocketIo: Guide = async ({ pasted, folder }) => {
  for (const program of ['before', 'after']) {
    const port = await freePort();
    const server = pasted.start(`node ${program}/server.mjs`, { folder, env: { PORT: port } });
    await server.printed('listening');
    const env = { SERVER: `http://127.0.0.1:${port}` };
    const text = await pasted.run(`node ${program}/client.mjs`, [], { folder, env });
    if (text !== 'ann: hello\n') throw new Error(`the client of ${program} printed ${text}`);
    await server.kill();
  }
};
