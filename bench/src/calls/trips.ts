import { setImmediate as tick } from 'node:timers/promises';
import { createServer, durable, memoryCluster, type RequestHandler } from '@parlance/server';
import { startChild } from '../../../scripts/child-process.js';
import { compare, type Row } from '../row.js';
import type { CallsClientCommands } from './client.js';
import { type Counter, STEP_NAMES, type Steps, stepsOf } from './counter.js';
import { TICKS, type Trip } from './ticks.js';

/** How often an endpoint does its steps for one exchange, at each end. */

const WARM_UP = 20;

export async function* countTrips(counter: Counter, times: number): AsyncGenerator<Row> {
  const client = startChild<CallsClientCommands>(new URL('./client.ts', import.meta.url), []);
  try {
    for (const [trip, ticks] of Object.entries(TICKS) as [Trip, number][]) {
      const server = serve(trip);
      try {
        const { url } = await server.listen({ port: 0 });
        await client.call('open', url);
        await client.call('run', { trip, times: WARM_UP });
        await counter.take();
        const atClient = await client.call('run', { trip, times });
        const atServer = stepsOf(await counter.take());
        await client.call('close');
        yield* rowsOf(`${trip}, at the server`, atServer, times, ticks);
        yield* rowsOf(`${trip}, at the client`, atClient, times, ticks);
      } finally {
        await server.close();
      }
    }
  } finally {
    client.stop();
  }
}

function* rowsOf(where: string, steps: Steps, times: number, ticks: number): Generator<Row> {
  const baseline = { name: 'ticks', value: ticks };
  for (const step of STEP_NAMES)
    yield compare(`${where}: ${step}`, '', 'lower', steps[step] / times, baseline);
}

function serve(trip: Trip) {
  const isDurable = trip === 'a durable message each way, committed';
  return createServer({
    engine: isDurable ? memoryCluster() : undefined,
    limits: { messagesPerMinute: Infinity },
    features: isDurable ? [durable(true, { allowVolatileEngine: true })] : [],
    async onSession(session) {
      for await (const { text } of session) {
        if (isDurable) await session.commit({ data: text, send: [text] });
        else await session.send(text);
      }
    },
    onRequest: answers[trip],
  });
}

const answers: { readonly [Each in Trip]?: RequestHandler } = {
  'a request, answered at once': ({ text }) => text,
  async *'a request, two parts at once'({ text }) {
    yield text;
    yield text;
  },
  async 'a request, answered by an async function'({ text }) {
    await undefined;
    return text;
  },
  async 'a request, answered a tick later'({ text }) {
    await tick();
    return text;
  },
  async *'a request, two parts, a tick before each'({ text }) {
    await tick();
    yield text;
    await tick();
    yield text;
  },
};
