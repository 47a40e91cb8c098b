import { freePort } from '../kit/cli-process.js';
import type { Guide } from './guide.js';

const EXPECTED = [
  "worker-1 { skill: 'sums' } latent",
  'planner asked: how many?',
  "worker-1 received { dtype: 'float32', length: 2048, sum: 262016 }",
];

export const agents: Guide = async ({ pasted, folder }) => {
  const port = await freePort();
  const server = pasted.start('node server.mjs', { folder, env: { PORT: port } });
  await server.printed('listening');
  const place = { folder, env: { SERVER: `ws://127.0.0.1:${port}` } };
  // It waits for the worker.
  const early = pasted.run('node planner.mjs', EXPECTED, place);
  const worker = pasted.start('node worker.mjs', place);
  await early;
  await pasted.run('node planner.mjs', EXPECTED, place);
  await worker.kill();
  await server.kill();
};
