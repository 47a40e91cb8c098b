import type { Child } from '../../../scripts/child-process.js';
import type { ChatApp, ChatAppState } from './chat-app.js';
import type { ChatCommands } from './chat-process.js';
import { startUnderNode22 } from './node-22.js';

/** The chats of version 7, as their tests see them: the tests of a file share a process, and each has a chat of its own. */
export class ChatFork {
  #child: Child<ChatCommands> | undefined;

  async start(origin: string): Promise<ChatApp> {
    this.#child ??= startUnderNode22<ChatCommands>('ai/chat-process');
    const child = this.#child;
    const { url, socket, api } = await child.call('start', [origin]);
    return {
      ...{ url, socket, api },
      // It was started, so it has one.
      state: async () => (await child.call('state', api)) as ChatAppState,
      [Symbol.asyncDispose]: () => child.call('stop', api),
    };
  }

  async stop(): Promise<void> {
    await this.#child?.kill();
  }
}
