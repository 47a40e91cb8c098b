import type { ChatApp } from './chat-app.js';
import type { ChatCommands } from './chat-process.js';
import { startUnderNode22 } from './node-22.js';

/** The chat of version 7, as its tests see it. */
export async function forkChatApp(origins: readonly string[]): Promise<ChatApp> {
  const child = startUnderNode22<ChatCommands>(new URL('./chat-process.ts', import.meta.url), origins);
  return {
    ...(await child.call('start')),
    state: () => child.call('state'),
    [Symbol.asyncDispose]: () => child.kill(),
  };
}
