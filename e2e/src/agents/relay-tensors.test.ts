import type { Session } from '@parlance/client';
import type { ProtocolError } from '@parlance/protocol';
import { agents } from '@parlance/server';
import { afterEach, describe, expect, it } from 'vitest';
import { createCuttingProxy } from '../kit/cutting-proxy.js';
import { failure } from '../kit/peers.js';
import { type AgentsBench, createAgents, nextMessage } from './agents.js';

/** Tensors that pass a server piece by piece, while something happens to one of the parties. */

const benches = createAgents();
afterEach(() => benches[Symbol.asyncDispose]());
const { serve, closeLast } = benches;

const PIECE = 64 * 1024;
const PIECES = 64;
const pieceOf = (number: number) => new Uint8Array(PIECE).fill(number);
const WHOLE = Buffer.concat(Array.from({ length: PIECES }, (_, i) => pieceOf(i)));

/** A tensor that is generated while it is sent, as far as credit allows. */
function generated() {
  let until = Infinity;
  let given = 0;
  let goOn = () => {};
  return {
    get given() {
      return given;
    },
    stopAt(count: number) {
      until = count;
    },
    release() {
      until = Infinity;
      goOn();
    },
    tensor: {
      shape: [(PIECE * PIECES) / 4],
      dtype: 'float32',
      payloadType: 'hidden_state',
      data: (async function* () {
        for (; given < PIECES; given++) {
          if (given >= until) await new Promise<void>((resolve) => (goOn = resolve));
          yield pieceOf(given);
        }
      })(),
    } as const,
  };
}
const WHOLE_TENSOR = {
  shape: [WHOLE.length / 4],
  dtype: 'float32',
  payloadType: 'hidden_state',
  data: WHOLE,
} as const;

/** Sends half of a tensor from `planner` to `worker`, which reads it as it arrives. */
async function halfWay(bench: AgentsBench, port?: number) {
  const planner = await bench.agent('planner');
  const worker = await bench.agent('worker', { transfers: 'stream' }, port);
  const source = generated();
  source.stopAt(PIECES / 2);
  const sending = planner.sendTensor(source.tensor, { to: 'worker' });
  const settled = sending.then(
    () => undefined,
    (error: unknown) => error as ProtocolError,
  );
  const { tensor } = await nextMessage(worker);
  if (tensor?.chunks === undefined) throw new Error('the message is not a streamed tensor');
  const chunks = tensor.chunks[Symbol.asyncIterator]();
  const parts: Uint8Array[] = [];
  const read = async () => {
    const { value, done } = await chunks.next();
    if (done !== true) parts.push(value);
    return done !== true;
  };
  for (let length = 0; length < WHOLE.length / 4; length += parts.at(-1)?.length ?? 0) await read();
  const readAll = async () => {
    while (await read());
    return Buffer.concat(parts);
  };
  return { planner, worker, source, settled, readAll };
}

/** After a failed transfer, another one still works. */
async function expectAnother(from: Session, to: Session, name: string): Promise<void> {
  const sending = from.sendTensor(WHOLE_TENSOR, { to: name });
  const { tensor } = await nextMessage(to);
  const parts: Uint8Array[] = [];
  if (tensor?.chunks === undefined) parts.push(tensor?.data as Uint8Array);
  else for await (const part of tensor.chunks) parts.push(part);
  await sending;
  expect(Buffer.compare(Buffer.concat(parts), WHOLE)).toBe(0);
}

describe('a tensor on its way to another agent', () => {
  it('ends at all three if its sender aborts while all of it waits to be read', async () => {
    const bench = await serve();
    const planner = await bench.agent('planner');
    const worker = await bench.agent('worker', { transfers: 'stream' });
    const controller = new AbortController();
    const small = { ...WHOLE_TENSOR, shape: [4], data: WHOLE.subarray(0, 16) };
    const sent = planner.sendTensor(small, { to: 'worker', signal: controller.signal });
    await expect.poll(() => worker.stats().openStreams).toBe(1);
    await expect.poll(() => planner.stats().queuedBytes).toBe(0);
    controller.abort(new Error('changed my mind'));
    expect(await failure(sent)).toEqual(new Error('changed my mind'));
    await expect.poll(() => planner.stats().openStreams + worker.stats().openStreams).toBe(0);
  });

  it('fails with peer_gone if its target leaves half-way', async () => {
    const bench = await serve();
    const { planner, worker, source, settled } = await halfWay(bench);
    void worker.close();
    expect(await settled).toMatchObject({ code: 'peer_gone', side: 'remote' });
    source.release();
    await expectAnother(planner, await bench.agent('worker'), 'worker');
  });

  it('ends for its reader if its sender leaves half-way', async () => {
    const bench = await serve();
    const { planner, worker, readAll } = await halfWay(bench);
    await planner.close();
    expect(await failure(readAll())).toMatchObject({ code: 'cancelled', side: 'remote' });
    expect(worker.state).toBe('established');
    await expectAnother(await bench.agent('planner'), worker, 'worker');
  });

  it('is refused by the policy before much of it was sent', async () => {
    const bench = await serve({ features: [agents({ authorize: ({ kind }) => kind !== 'tensor' })] });
    const planner = await bench.agent('planner');
    await bench.agent('worker');
    const source = generated();
    // By then it has sent no more than its first window allows.
    expect(await failure(planner.sendTensor(source.tensor, { to: 'worker' }))).toMatchObject({
      code: 'forbidden',
    });
    expect(source.given).toBeLessThan(PIECES / 8);
    expect(bench.server.relayStats()).toMatchObject({ forwarded: 0, refused: 1 });
  });

  it('waits for a target whose connection is lost, within the windows, and continues', async () => {
    const bench = await serve();
    const proxy = await createCuttingProxy(bench.port);
    closeLast(proxy);
    const { source, settled, readAll, worker } = await halfWay(bench, proxy.port);
    proxy.refuse(true);
    proxy.cut();
    await expect.poll(() => worker.state).toBe('suspended');
    source.release();
    await new Promise((resolve) => setTimeout(resolve, 100));
    expect(source.given).toBeLessThan(PIECES);
    proxy.refuse(false);
    expect(Buffer.compare(await readAll(), WHOLE)).toBe(0);
    expect(await settled).toBeUndefined();
  });

  it('continues if its sender loses its connection', async () => {
    const bench = await serve();
    const proxy = await createCuttingProxy(bench.port);
    closeLast(proxy);
    const planner = await bench.agent('planner', {}, proxy.port);
    const worker = await bench.agent('worker');
    const cuts = setInterval(() => proxy.cut(), 15);
    const sending = planner.sendTensor(generated().tensor, { to: 'worker' });
    const { tensor } = await nextMessage(worker);
    clearInterval(cuts);
    await sending;
    expect(Buffer.compare(Buffer.from(tensor?.data ?? []), WHOLE)).toBe(0);
  });

  it('fails if another session takes over the ID of its target, which gets the next one', async () => {
    const bench = await serve();
    const { planner, settled, readAll } = await halfWay(bench);
    const newer = await bench.agent('worker');
    expect(await settled).toMatchObject({ code: 'peer_gone', side: 'remote' });
    expect(await failure(readAll())).toMatchObject({ code: 'taken_over' });
    await expectAnother(planner, newer, 'worker');
  });

  it('ends if another session takes over the ID of its sender', async () => {
    const bench = await serve();
    const { worker, settled, readAll } = await halfWay(bench);
    const newer = await bench.agent('planner');
    expect(await settled).toMatchObject({ code: 'taken_over' });
    expect(await failure(readAll())).toMatchObject({ code: 'cancelled', side: 'remote' });
    await expectAnother(newer, worker, 'worker');
  });
});
