import { offer } from '../../../scripts/child-process.js';
import { type AI, startChatApp } from './chat-app.js';
import { moduleOf } from './node-22.js';

/** The chat with version 7 of the AI SDK, in a process of its own; the arguments are the origins of the pages. */

const ai: AI = await import(moduleOf('ai', 'dist/index.js'));
const app = await startChatApp(ai, process.argv.slice(2));

const commands = {
  start: () => ({ url: app.url, api: app.api }),
  state: () => app.state(),
};
export type ChatCommands = typeof commands;
offer(commands);
