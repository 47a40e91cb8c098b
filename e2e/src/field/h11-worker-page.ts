import { type ClientSession, connect } from '@parlance/client';

/** A page whose session is in a worker of its own, so that a busy page delays nothing. The worker runs this file as well. */

/** One instruction of the test. `connect` takes JSON: the options and `url`. */
type Ask = (name: 'connect' | 'request' | 'state' | 'online', text: string) => Promise<string>;

export interface WorkerPage {
  readonly ask: Ask;
}

if ('document' in globalThis) {
  const worker = new Worker(import.meta.url, { type: 'module' });
  const ask: Ask = (name, text) =>
    new Promise((resolve) => {
      worker.addEventListener('message', ({ data }) => resolve(data), { once: true });
      worker.postMessage([name, text]);
    });
  Object.assign(globalThis, { ask } satisfies WorkerPage);
} else {
  let session: ClientSession | undefined;
  const answers: Record<Parameters<Ask>[0], (text: string) => Promise<string>> = {
    async connect(options) {
      const { url, ...rest } = JSON.parse(options);
      session = await connect(url, rest);
      return session.id;
    },
    request: async (text) => (await session?.request(text))?.text ?? '',
    state: async () => session?.state ?? 'none',
    async online() {
      globalThis.dispatchEvent(new Event('online'));
      return 'dispatched';
    },
  };
  globalThis.addEventListener('message', async ({ data: [name, text] }: MessageEvent) => {
    postMessage(await answers[name as 'state'](text).catch((error: Error) => `failed: ${error.message}`));
  });
}
