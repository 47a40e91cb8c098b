import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type Child, startChild } from '../../../scripts/child-process.js';
import { createPeers, failure } from '../kit/peers.js';
import { programOf } from '../kit/programs.js';
import type { FileWorkerCommands } from './file-worker.js';

/** Sessions of Node that survive their process, in a file. */

const peers = createPeers();
let folder = '';
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'parlance-worker-'));
});
const workers: Child<FileWorkerCommands>[] = [];
afterEach(async () => {
  for (const worker of workers.splice(0)) await worker.kill();
  await peers[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true, force: true });
});

function start(url: string, isQuiet = false): Child<FileWorkerCommands> {
  const { file, flags } = programOf('reloads/file-worker');
  const setup = JSON.stringify({ url, path: join(folder, 'session') });
  const worker = startChild<FileWorkerCommands>(file, [setup], flags, { isQuiet });
  workers.push(worker);
  return worker;
}

describe('a session in a file', () => {
  it('is taken up by the next process, each time that one is killed while it receives', async () => {
    const said: string[] = [];
    const { url, server } = await peers.serve({
      async onSession(session) {
        let stops = false;
        void (async () => {
          // At most 40 are under way.
          for (let i = 0; !stops; i++) {
            await session.send(`${i}`);
            if (i % 40 === 0) await Promise.all([session.flush(), pause(1)]);
          }
        })().catch(() => {});
        for await (const { text } of session) said.push(text);
        stops = true;
      },
    });
    let id: string | undefined;
    for (let kill = 0; kill < 6; kill++) {
      const worker = start(url);
      const opened = await worker.call('open');
      expect([opened.id, opened.isRebuilt]).toEqual([id ?? opened.id, kill > 0]);
      id = opened.id;
      await worker.call('say', `process ${kill}`);
      await expect.poll(() => worker.call('count')).toBeGreaterThan(100);
      const { heard, resets } = await worker.call('heard');
      expect(resets).toEqual([]);
      // None is missing within what a process hears, and none comes twice.
      const first = Number(heard[0]);
      expect(heard).toEqual(heard.map((_, i) => `${first + i}`));
      await worker.kill();
    }
    await expect.poll(() => said).toEqual(Array.from({ length: 6 }, (_, kill) => `process ${kill}`));
    expect([...server.sessions.keys()]).toEqual([id]);
    for (const session of server.sessions.values()) void session.close();
  });

  it('is not for two processes at once', async () => {
    const { url } = await peers.serve({ onRequest: () => '' });
    const [first, second] = [start(url), start(url)];
    await first.call('open');
    const error = await failure(second.call('open'));
    expect(error.message).toContain(`is used by process ${first.pid}; each process needs a file of its own`);
    await first.kill();
    expect((await second.call('open')).isRebuilt).toBe(true);
  });
});
