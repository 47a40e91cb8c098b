import { connect, type Session } from '@parlance/client';
import WebSocket from 'ws';
import { redisMissing } from '../../../packages/server/src/engine/testing/redis-server.js';
import { duration, number } from '../../../packages/ui/src/shared/format.js';
import type { ChatRequest } from '../chat-completion.js';
import type { Report } from '../report.js';
import { answerTo } from '../responder.js';
import { type Nodes, startNodes } from './nodes.js';

/** `npm run demo -- --cluster`: a node is killed in mid-answer, and the answer continues. */

const NODES = 3;
/** Words after which a node is killed. */
const KILLS: readonly number[] = [25, 50];
const QUESTION: ChatRequest = {
  model: 'toy',
  messages: [{ role: 'user', content: 'Write a debounce function in TypeScript.' }],
  stream: true,
};
const LINE = 76;

export async function showCluster(report: Report): Promise<void> {
  if (redisMissing !== undefined) {
    report.line(
      'This needs redis-server (Debian, Ubuntu: apt-get install redis-server; macOS: brew install redis).',
    );
    return;
  }
  await using nodes = await startNodes(NODES, report.line);
  report.line(
    `They are the processes ${nodes.pids.join(', ')}. A balancer gives each connection to any of them.`,
  );
  const session = await connect(nodes.url, { WebSocket, reconnect: { minDelayMs: 5, maxDelayMs: 200 } });
  const { id } = session;
  const resets: string[] = [];
  session.on('reset', ({ reason }) => resets.push(reason));
  report.section('An answer that two nodes do not live to finish');
  report.line(
    `The session is at ${await nodes.ownerOf(id)}. It counts messages: ${await countTo(session, 3)}.`,
  );
  const { text, gaps, killed } = await readAnswer(session, nodes, report);
  report.check(
    'the answer is complete: nothing is missing, and nothing came twice',
    text === answerTo(QUESTION),
    `${number(text.length)} characters`,
  );
  report.check(
    'the session is the same one, at the node that is left',
    session.id === id && resets.length === 0 && !killed.includes((await nodes.ownerOf(id)) ?? 0),
    resets.join(', '),
  );
  report.check('it continues to count', (await countTo(session, 1)) === '4');
  report.line(`From the kill to the next word: ${gaps.map((ms) => duration(ms)).join(' and ')}.`);
  await session.close();
}

/** Sends messages, and returns what the server has counted. */
async function countTo(session: Session, messages: number): Promise<string> {
  for (let i = 0; i < messages; i++) await session.send('count');
  let answers = 0;
  for await (const { text } of session) if (++answers === messages) return text;
  return '';
}

async function readAnswer(session: Session, nodes: Nodes, report: Report) {
  const gaps: number[] = [];
  const killed: number[] = [];
  let [text, line, words, killedAt] = ['', '', 0, 0];
  const print = () => {
    if (line.trim() !== '') report.line(`  ${line.trimEnd()}`);
    line = '';
  };
  for await (const part of session.stream(QUESTION)) {
    if (killedAt > 0) gaps.push(performance.now() - killedAt);
    killedAt = 0;
    text += part.text;
    for (const piece of part.text.split(/(?<=\n)/)) {
      line += piece;
      if (piece.endsWith('\n') || line.length >= LINE) print();
    }
    if (!KILLS.includes(++words)) continue;
    print();
    killedAt = performance.now();
    const pid = await nodes.killOwner(session.id);
    killed.push(pid);
    report.line(`— kill -9 ${pid} —`);
  }
  print();
  return { text, gaps, killed };
}
