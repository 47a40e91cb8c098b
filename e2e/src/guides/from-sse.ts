import { freePort } from '../kit/cli-process.js';
import { createCuttingProxy } from '../kit/cutting-proxy.js';
import type { Guide } from './guide.js';

const WHOLE = 'You asked: why is the sky blue? '.repeat(5);

export const fromSse: Guide = async ({ pasted, folder }) => {
  for (const program of ['before', 'after']) {
    const port = await freePort();
    const server = pasted.start(`node ${program}/server.mjs`, { folder, env: { PORT: port } });
    await server.printed('listening');
    await using proxy = await createCuttingProxy(Number(port));
    for (const isCut of [false, true]) {
      const env = { SERVER: `http://127.0.0.1:${proxy.port}` };
      const client = pasted.start(`node ${program}/client.mjs`, { folder, env });
      await client.printed('sky');
      if (isCut) proxy.cut();
      const isWhole = (await client.ended) === 0 && client.text() === WHOLE;
      if (isWhole !== (program === 'after' || !isCut))
        throw client.failure(isWhole ? 'has lost nothing' : 'has not read the whole answer');
    }
    await server.kill();
  }
};
