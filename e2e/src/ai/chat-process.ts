import { offer } from '../../../scripts/child-process.js';
import { type AI, type ChatApp, startChatApp } from './chat-app.js';
import { moduleOf } from './node-22.js';

/** Chats with version 7 of the AI SDK, in a process of their own. Each has the API of the default transport as its name. */

const ai: AI = await import(moduleOf('ai', 'dist/index.js'));
const apps = new Map<string, ChatApp>();

const commands = {
  /** @param origins of the pages. */
  async start(origins: readonly string[]) {
    const app = await startChatApp(ai, origins);
    apps.set(app.api, app);
    return { url: app.url, socket: app.socket, api: app.api };
  },
  state: (api: string) => apps.get(api)?.state(),
  async stop(api: string) {
    await apps.get(api)?.[Symbol.asyncDispose]();
    apps.delete(api);
  },
};
export type ChatCommands = typeof commands;
offer(commands);
