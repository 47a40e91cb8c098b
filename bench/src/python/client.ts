import { connect, type Session } from '@parlance/client';
import { WebSocket } from 'ws';
import { offer } from '../../../scripts/child-process.js';
import { cpuTime } from '../process/cpu.js';
import { CHUNKS, type Cost, DEPTH, QUESTION, STREAMS, type Work } from './work.js';

/** The client in JavaScript, in a process of its own. */

let session: Session;

async function ask(count: number): Promise<void> {
  for (let i = 0; i < count; i++) {
    const reply = await session.request(QUESTION);
    if (reply.json<typeof QUESTION>().role !== QUESTION.role) throw new Error(reply.text);
  }
}

async function read(count: number): Promise<void> {
  for (let read = 0; read < count; ) {
    for await (const part of session.stream({ chunks: CHUNKS })) read += part.json<{ index: number }>().index;
  }
}

const commands = {
  async open(url: string): Promise<void> {
    session = await connect(url, { WebSocket });
  },
  async run({ name, count }: Work): Promise<Cost> {
    const [start, cpu] = [performance.now(), cpuTime()];
    const [many, one] = name === 'requests' ? ([DEPTH, ask] as const) : ([STREAMS, read] as const);
    await Promise.all(Array.from({ length: many }, () => one(count / many)));
    return { seconds: (performance.now() - start) / 1_000, cpuUs: cpuTime() - cpu };
  },
  close: () => session.close(),
};
export type ClientCommands = typeof commands;

offer(commands);
