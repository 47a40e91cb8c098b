import { createServer } from '@parlance/server';
import { createOpenAIGateway } from '@parlance/server/openai';
import { offer } from '../../../scripts/child-process.js';
import { UNLIMITED } from '../unlimited.js';

/** The gateway, in a process of its own. */

const [baseUrl, resumeWindowMs] = process.argv.slice(2) as [string, string];
const server = createServer({
  limits: UNLIMITED,
  timers: { resumeWindowMs: Number(resumeWindowMs) },
  onRequest: createOpenAIGateway({ baseUrl, apiKey: 'sk-bench-0123456789' }),
});
const { url } = await server.listen();

const commands = { url: () => url };
export type GatewayCommands = typeof commands;

offer(commands);
