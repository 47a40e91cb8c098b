import { setTimeout as sleep } from 'node:timers/promises';
import { cluster, createServer, durable, type ServerSession } from '@parlance/server';
import { redis } from '@parlance/server/redis';
import { offer } from '../../../scripts/child-process.js';
import type { ChatRequest } from '../chat-completion.js';
import { answerTo } from '../responder.js';

/** One of the nodes: it answers word by word, and continues the answer of a node that is gone. */

export interface NodeSetup {
  /** Of Redis. */
  readonly redis: string;
  readonly secret: string;
}

/** The pace of a model. */
const WORD_MS = 40;

const { redis: url, secret } = JSON.parse(process.argv[2] as string) as NodeSetup;
let isMember = false;

const server = createServer<{ readonly count: number }>({
  engine: redis({ url }),
  features: [cluster({ secret }), durable()],
  logger: { debug() {}, info: note, warn() {}, error() {} },
  onSession: countMessages,
  async *onRequest(request, { yielded, ifProcessDies }) {
    ifProcessDies('again');
    const words = wordsOf(answerTo(request.json<ChatRequest>()));
    for (const word of words.slice(yielded.length)) {
      yield word;
      await sleep(WORD_MS);
    }
  },
});

function note({ event }: Readonly<Record<string, unknown>>): void {
  if (event === 'node.member') isMember = true;
}

/** Says how many messages there were: state, answer and "handled" are recorded in one step. */
async function countMessages(session: ServerSession<{ readonly count: number }>): Promise<void> {
  let { count } = session.data ?? { count: 0 };
  for await (const _message of session) {
    count++;
    await session.commit({ data: { count }, send: [String(count)] });
  }
}

function wordsOf(text: string): readonly string[] {
  return text.match(/\S+\s*|\s+/g) ?? [];
}

const { port } = await server.listen({ port: 0 });

const commands = {
  port: () => port,
  isMember: () => isMember,
  has: (sessionId: string) => server.sessions.has(sessionId),
};
export type NodeCommands = typeof commands;

offer(commands);
