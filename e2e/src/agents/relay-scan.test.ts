import { setTimeout as pause } from 'node:timers/promises';
import type { Message, Session } from '@parlance/client';
import { scan } from '@parlance/server';
import { afterEach, expect, it } from 'vitest';
import { failure } from '../kit/peers.js';
import { type AgentsBench, serveAgents } from './agents.js';

/** The traffic between agents that a server's scan sees. */

let bench: AgentsBench | undefined;
afterEach(async () => {
  await bench?.[Symbol.asyncDispose]();
  bench = undefined;
});

/** A server whose scan blocks texts that ask for it, and takes longest for the first ones. */
async function serve() {
  const seen: string[] = [];
  let wait = 20;
  bench = await serveAgents({
    features: [
      scan(async (message: Message, { session }) => {
        const { tensor } = message;
        const text = tensor === undefined ? message.text : `${tensor.payloadType}, ${tensor.shape}`;
        seen.push(`${session.agentId}: ${text}`);
        wait = Math.max(0, wait - 2);
        await pause(wait);
        return { safe: !text.includes('secret') };
      }),
    ],
  });
  return { agent: bench.agent, seen };
}

it('a scan sees replies in order, and holds back their end', async () => {
  const { agent, seen } = await serve();
  const planner = await agent('planner');
  await agent('worker', {
    async *onRequest() {
      for (let i = 0; i < 12; i++) yield String(i);
    },
  });
  const parts: string[] = [];
  for await (const part of planner.stream('count', { to: 'worker' })) parts.push(part.text);
  const expected = Array.from({ length: 12 }, (_, i) => String(i));
  expect(parts).toEqual(expected);
  expect(seen).toEqual(['planner: count', ...expected.map((text) => `worker: ${text}`)]);
});

it('a scan sees the text of token parts that split characters', async () => {
  const { agent, seen } = await serve();
  const { loadEncoding } = await import('@parlance/protocol');
  const text = 'Größe 👩‍👩‍👧';
  const ids = (await loadEncoding('CL100K_BASE')).encode(text);
  const planner = await agent('planner', { encodings: ['CL100K_BASE'] });
  await agent('worker', {
    encodings: ['CL100K_BASE'],
    async *onRequest() {
      for (const id of ids) yield { tokens: [id] };
    },
  });
  let got = '';
  for await (const part of planner.stream('go', { to: 'worker' })) got += part.text;
  expect(got).toBe(text);
  const said = seen
    .filter((line) => line.startsWith('worker: '))
    .map((line) => line.slice('worker: '.length));
  expect(said.join('')).toBe(text);
});

it('a scan ends the session of an agent whose answer is blocked, and notifies the requester', async () => {
  const { agent } = await serve();
  const planner = await agent('planner');
  const ended = (session: Session) => new Promise((resolve) => session.on('error', resolve));
  const talker = await agent('talker', {
    async *onRequest() {
      yield 'this much';
      yield 'a secret';
      await new Promise(() => {});
    },
  });
  const over = ended(talker);
  const parts: string[] = [];
  const reading = (async () => {
    for await (const part of planner.stream('tell', { to: 'talker' })) parts.push(part.text);
  })();
  expect(await failure(reading)).toMatchObject({ code: 'peer_gone' });
  expect(parts).toEqual(['this much']);
  expect(await over).toMatchObject({ code: 'rejected', reject: { code: 'SECURITY_POLICY' } });

  const single = await agent('single', { onRequest: () => 'a secret' });
  const gone = ended(single);
  expect(await failure(planner.request('tell', { to: 'single' }))).toMatchObject({ code: 'peer_gone' });
  expect(await gone).toMatchObject({ code: 'rejected' });
  expect(planner.state).toBe('established');
});

it('a scan sees the head of a tensor, which passes or is blocked', async () => {
  const { agent, seen } = await serve();
  const [planner, worker] = [await agent('planner'), await agent('worker')];
  const data = Float32Array.from({ length: 100_000 }, (_, i) => Math.sin(i));
  const tensor = { data, shape: [100_000], dtype: 'float32', payloadType: 'hidden_state' } as const;
  const sending = planner.sendTensor(tensor, { to: 'worker' });
  for await (const message of worker) {
    expect(Buffer.compare(Buffer.from(message.tensor?.data ?? []), Buffer.from(data.buffer))).toBe(0);
    break;
  }
  await sending;
  expect(seen).toEqual(['planner: hidden_state, 100000']);
});
