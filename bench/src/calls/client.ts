import { connect, type Session } from '@parlance/client';
import { WebSocket } from 'ws';
import { offer } from '../../../scripts/child-process.js';
import { type Steps, startCounter, stepsOf } from './counter.js';
import type { Trip } from './ticks.js';

/** A client in a process of its own, which counts its own calls. */

const counter = await startCounter();
let session: Session;
let messages: AsyncIterator<unknown>;

const commands = {
  async open(url: string): Promise<void> {
    session = await connect(url, { WebSocket });
    messages = session[Symbol.asyncIterator]();
  },

  async run({ trip, times }: { readonly trip: Trip; readonly times: number }): Promise<Steps> {
    await counter.take();
    for (let count = 0; count < times; count++) await travel(trip);
    return stepsOf(await counter.take());
  },

  close: () => session.close(),
};
export type CallsClientCommands = typeof commands;

async function travel(trip: Trip): Promise<void> {
  if (trip === 'a message each way' || trip === 'a durable message each way, committed') {
    await session.send(trip);
    await messages.next();
    return;
  }
  for await (const _part of session.stream(trip)) {
  }
}

offer(commands);
