import type { ClientOptions, Session } from '@parlance/client';
import type { ServerOptions } from '@parlance/server';
import { afterEach, describe, expect, it } from 'vitest';
import { type AgentsBench, createAgents, nextMessage } from '../agents/agents.js';
import { failure } from '../kit/peers.js';

/** An agent gets more requests at a time than it allows: the others wait for their turn, from each sender. */

const benches = createAgents();
afterEach(() => benches[Symbol.asyncDispose]());

const MAX = 2;
const plain = { algorithm: 'NONE', to: 'worker' } as const;

interface Worker {
  readonly bench: AgentsBench;
  readonly session: Session;
  /** The requests that its handler got. */
  readonly order: string[];
  /** The most that ran at a time. */
  most: number;
  /** Answers what it was asked first, or all that it was and will be. */
  answer(all?: boolean): void;
}

async function serveWorker(server: ServerOptions = {}, options: ClientOptions = {}): Promise<Worker> {
  const bench = await benches.serve(server);
  const open: (() => void)[] = [];
  let [now, isOpen] = [0, false];
  const worker: Omit<Worker, 'session'> = {
    bench,
    order: [],
    most: 0,
    answer(all = false) {
      isOpen = all;
      for (const resolve of all ? open.splice(0) : open.splice(0, 1)) resolve();
    },
  };
  const session = await bench.agent('worker', {
    limits: { maxStreams: MAX },
    onRequest: async ({ text }, { signal }) => {
      worker.order.push(text);
      worker.most = Math.max(worker.most, ++now);
      if (!isOpen)
        await new Promise<void>((resolve) => {
          open.push(resolve);
          signal.addEventListener('abort', () => resolve());
        });
      now--;
      return `re: ${text}`;
    },
    ...options,
  });
  return Object.assign(worker, { session });
}

/** Resolves when all that `session` has asked so far has reached its place, because a message behind it has arrived. */
async function asked(session: Session, { session: worker }: Worker): Promise<void> {
  await session.send('behind', plain);
  expect((await nextMessage(worker)).text).toBe('behind');
}

async function textOf(session: Session, text: string): Promise<string> {
  return (await session.request(text, plain)).text;
}

describe('requests to an agent above its limit', () => {
  it('wait, and are answered in the order of their calls', async () => {
    const worker = await serveWorker();
    const planner = await worker.bench.agent('planner');
    const names = Array.from({ length: 3 * MAX + 1 }, (_, at) => `${at}`);
    const answers = names.map((name) => textOf(planner, name));
    await asked(planner, worker);
    expect(worker.order).toEqual(names.slice(0, MAX));
    worker.answer(true);
    expect(await Promise.all(answers)).toEqual(names.map((name) => `re: ${name}`));
    expect([worker.order, worker.most]).toEqual([names, MAX]);
  });

  it('wait behind those of other agents and of the server', async () => {
    const worker = await serveWorker();
    const [one, two] = [await worker.bench.agent('one'), await worker.bench.agent('two')];
    const served = [...worker.bench.server.sessions.values()].find(({ agentId }) => agentId === 'worker');
    const answers = [textOf(one, 'a'), textOf(one, 'b'), textOf(one, 'c')];
    await asked(one, worker);
    answers.push(textOf(two, 'd'));
    await asked(two, worker);
    answers.push(served?.request('e').then(({ text }) => text) as Promise<string>);
    answers.push(textOf(one, 'f'));
    worker.answer(true);
    expect(await Promise.all(answers)).toEqual(['a', 'b', 'c', 'd', 'e', 'f'].map((name) => `re: ${name}`));
    expect(worker.order).toEqual(['a', 'b', 'c', 'd', 'e', 'f']);
  });

  it('stream their answers, and tensors wait as well, with all their pieces', async () => {
    const worker = await serveWorker();
    const planner = await worker.bench.agent('planner');
    const open = [textOf(planner, 'a'), textOf(planner, 'b')];
    await asked(planner, worker);
    const stream = planner.stream('c', plain);
    const sizes = [4, 4_000_000];
    const sent = sizes.map((size) =>
      planner.sendTensor(
        { dtype: 'int8', payloadType: 'hidden_state', shape: [size], data: new Uint8Array(size).fill(7) },
        { to: 'worker' },
      ),
    );
    await asked(planner, worker);
    worker.answer(true);
    await Promise.all(open);
    let text = '';
    for await (const part of stream) text += part.text;
    expect(text).toBe('re: c');
    for (const size of sizes) {
      const { tensor } = await nextMessage(worker.session);
      expect(Buffer.compare(tensor?.data as Uint8Array, Buffer.alloc(size, 7))).toBe(0);
    }
    await Promise.all(sent);
  });

  it('leave the queue with their signal, their time and their reader', async () => {
    const worker = await serveWorker();
    const planner = await worker.bench.agent('planner');
    const open = [textOf(planner, 'a'), textOf(planner, 'b')];
    const abort = new AbortController();
    const aborted = failure(planner.request('aborted', { ...plain, signal: abort.signal }));
    const late = failure(planner.request('late', { ...plain, timeoutMs: 50 }));
    const left = planner.stream('left', plain);
    const tensor = failure(
      planner.sendTensor(
        { dtype: 'int8', payloadType: 'hidden_state', shape: [9], data: new Uint8Array(9) },
        { to: 'worker', signal: abort.signal },
      ),
    );
    await asked(planner, worker);
    abort.abort(new Error('enough'));
    left.cancel();
    expect(await Promise.all([aborted, late, tensor])).toMatchObject([
      { message: 'enough' },
      { code: 'timeout' },
      { message: 'enough' },
    ]);
    await asked(planner, worker);
    const last = textOf(planner, 'last');
    worker.answer(true);
    expect(await Promise.all([...open, last])).toEqual(['re: a', 're: b', 're: last']);
    expect(worker.order).toEqual(['a', 'b', 'last']);
    // Their slots are free again: a server has 128 for each session.
    const more = Array.from({ length: 200 }, (_, at) => textOf(planner, `${at}`));
    expect((await Promise.all(more)).at(-1)).toBe('re: 199');
  });

  it('fail with peer_gone if the agent leaves', async () => {
    const worker = await serveWorker();
    const planner = await worker.bench.agent('planner');
    const answers = ['a', 'b', 'c'].map((text) => failure(planner.request(text, plain)));
    await asked(planner, worker);
    await worker.session.close();
    const [, , waiting] = await Promise.all(answers);
    expect(waiting).toMatchObject({
      code: 'peer_gone',
      message: expect.stringContaining('it never had the request'),
    });
  });

  it('are over with the session that has sent them', async () => {
    const worker = await serveWorker();
    const [one, two] = [await worker.bench.agent('one'), await worker.bench.agent('two')];
    const gone = ['a', 'b', 'c'].map((text) => failure(one.request(text, plain)));
    await asked(one, worker);
    const answer = textOf(two, 'd');
    await asked(two, worker);
    await one.close();
    await expect.poll(() => worker.bench.server.sessions.size).toBe(2);
    expect(await Promise.all(gone)).toMatchObject(Array(3).fill({ code: 'session_closed' }));
    worker.answer(true);
    expect(await answer).toBe('re: d');
    expect(worker.order).toEqual(['a', 'b', 'd']);
  });

  it('fail if more bytes wait than the memory of a session, and not before', async () => {
    const sessionMemory = 64 * 1_024;
    const worker = await serveWorker({ limits: { sessionMemory } });
    const planner = await worker.bench.agent('planner');
    const open = [textOf(planner, 'a'), textOf(planner, 'b')];
    await asked(planner, worker);
    // Each counts 512 bytes more.
    const fits = Array.from({ length: 4 }, (_, at) =>
      textOf(planner, `${at}`.repeat(sessionMemory / 4 - 512)),
    );
    expect(await failure(planner.request('one more', plain))).toMatchObject({
      code: 'too_many_streams',
      message: expect.stringMatching(/^all 2 requests .* \(maxStreams\) are open, .* \(sessionMemory\)$/),
    });
    worker.answer(true);
    expect((await Promise.all([...open, ...fits])).length).toBe(6);
    expect(await textOf(planner, 'again')).toBe('re: again');
  });
});
