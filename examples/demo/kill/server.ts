import { setTimeout as sleep } from 'node:timers/promises';
import { createServer, durable } from '@parlance/server';
import { sqlite } from '@parlance/server/sqlite';
import { offer } from '../../../scripts/child-process.js';
import type { ChatRequest } from '../chat-completion.js';
import { answerTo } from '../responder.js';

/** A server whose sessions are in a file: it answers word by word, and continues the answer of the process before it. */

/** The pace of a model. */
const WORD_MS = 10;

const [file = '', port = '0'] = process.argv.slice(2);

const server = createServer({
  engine: sqlite(file),
  features: [durable()],
  async *onRequest(request, { yielded, ifProcessDies }) {
    ifProcessDies('again');
    const words = answerTo(request.json<ChatRequest>()).match(/\S+\s*|\s+/g) ?? [];
    for (const word of words.slice(yielded.length)) {
      yield word;
      await sleep(WORD_MS);
    }
  },
});

const { port: opened } = await server.listen({ port: Number(port) });

const commands = { port: () => opened };
export type KillCommands = typeof commands;

offer(commands);
