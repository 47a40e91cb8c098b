import { connect } from '@parlance/client';
import { file } from '@parlance/client/file';
import { offer } from '../../../scripts/child-process.js';

/** A worker whose session is in a file: it asks for numbers, and tells each one that it has. */

const { url, path } = JSON.parse(process.argv[2] as string) as {
  readonly url: string;
  readonly path: string;
};

let session: Awaited<ReturnType<typeof connect>> | undefined;
const heard: string[] = [];
const resets: string[] = [];

const commands = {
  async open() {
    const opened = await connect(url, { store: file(path), waitForServer: true });
    session = opened;
    opened.on('reset', ({ reason }) => void resets.push(reason));
    void (async () => {
      for await (const { text } of opened) heard.push(text);
    })().catch(() => {});
    return { id: opened.id, isRebuilt: opened.isRebuilt };
  },
  count: () => heard.length,
  heard: () => ({ heard, resets }),
  say: async (text: string) => await session?.send(text),
};
export type FileWorkerCommands = typeof commands;

offer(commands);
