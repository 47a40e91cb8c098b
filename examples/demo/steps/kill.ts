import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect } from '@parlance/client';
import WebSocket from 'ws';
import { number } from '../../../packages/ui/src/shared/format.js';
import { type Child, startChild } from '../../../scripts/child-process.js';
import type { ChatRequest } from '../chat-completion.js';
import type { KillCommands } from '../kill/server.js';
import type { Report } from '../report.js';
import { answerTo } from '../responder.js';

/** Words after which the server is killed. */
const KILLS: readonly number[] = [20, 40];
const QUESTION: ChatRequest = {
  model: 'toy',
  messages: [{ role: 'user', content: 'Write a debounce function in TypeScript.' }],
  stream: true,
};

/** Kills the server in mid-answer, twice. Its sessions are in a file, from which the next process continues. */
export async function showKill(report: Report): Promise<void> {
  report.section('A server killed in mid-answer');
  const folder = mkdtempSync(join(tmpdir(), 'parlance-demo-'));
  let port = 0;
  const start = async (): Promise<Child<KillCommands>> => {
    const child = startChild<KillCommands>(
      new URL('../kill/server.ts', import.meta.url),
      [join(folder, 'parlance.db'), String(port)],
      ['--import', 'tsx', '--conditions=@parlance/source'],
    );
    port = await child.call('port');
    return child;
  };
  let server = await start();
  try {
    report.line(`The server is process ${server.pid}. It keeps its sessions in a SQLite file.`);
    const session = await connect(`ws://127.0.0.1:${port}/session`, {
      WebSocket,
      reconnect: { minDelayMs: 5, maxDelayMs: 100, connectWithinMs: 60_000 },
    });
    const { id } = session;
    const resets: string[] = [];
    session.on('reset', ({ reason }) => resets.push(reason));
    let [text, words] = ['', 0];
    for await (const part of session.stream(QUESTION)) {
      text += part.text;
      if (!KILLS.includes(++words)) continue;
      await server.kill();
      report.line(`After ${words} words: kill -9 ${server.pid}, then started again by the same command.`);
      server = await start();
    }
    report.check(
      'the answer is complete: nothing is missing, and nothing came twice',
      text === answerTo(QUESTION),
      `${number(words)} words`,
    );
    report.check('the session is the same one', session.id === id && resets.length === 0, resets.join(', '));
    await session.close();
  } finally {
    await server.kill();
    rmSync(folder, { recursive: true, force: true });
  }
}
