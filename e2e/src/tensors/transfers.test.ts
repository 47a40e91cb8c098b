import { createHash, type Hash } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { type ClientOptions, connect, type Session } from '@parlance/client';
import type { ModelIdentity, StreamedTensor, TensorInput, TransferMode } from '@parlance/protocol';
import { createServer, type ServerOptions, scan, tensors } from '@parlance/server';
import { afterEach, describe, expect, it } from 'vitest';
import WebSocket from 'ws';
import { type CuttingProxy, createCuttingProxy } from '../kit/cutting-proxy.js';

/** Tensors of more than one frame, over real sockets. */

const open: AsyncDisposable[] = [];
afterEach(async () => {
  for (const each of open.splice(0).reverse()) await each[Symbol.asyncDispose]();
});

const MIB = 1024 * 1024;

interface Ends {
  readonly client: Session;
  readonly server: Session;
  readonly proxy: CuttingProxy;
}

/** A session through a proxy, and both of its ends. */
async function setUp(server: ServerOptions = {}, client: ClientOptions = {}): Promise<Ends> {
  let accept: (session: Session) => void;
  const accepted = new Promise<Session>((resolve) => {
    accept = resolve;
  });
  const unlimited = { messagesPerMinute: Infinity, bytesPerSecond: Infinity };
  const listening = createServer({
    onRequest: (request) => request.text,
    ...server,
    limits: { ...unlimited, ...server.limits },
    onSession: (session) => accept(session),
  });
  open.push(listening);
  const { port } = await listening.listen();
  const proxy = await createCuttingProxy(port);
  open.push(proxy);
  const session = await connect(`ws://127.0.0.1:${proxy.port}/session`, {
    WebSocket,
    reconnect: { minDelayMs: 5, maxDelayMs: 50 },
    ...client,
    limits: { ...unlimited, ...client.limits },
  });
  open.push(session);
  return { client: session, server: await accepted, proxy };
}

/** Bytes without nearby repetitions, in chunks, from one buffer that is reused. */
function* generate(size: number, chunkSize: number): Generator<Uint8Array> {
  const chunk = new Uint8Array(chunkSize);
  for (let at = 0; at < size; at += chunkSize) {
    const length = Math.min(chunkSize, size - at);
    for (let i = 0; i < length; i++) chunk[i] = Math.imul(at + i, 0x9e3779b1) >>> 24;
    yield chunk.subarray(0, length);
    chunk.fill(0);
  }
}
const digest = (hash: Hash) => hash.digest('hex');
const hashOf = (size: number) => {
  const hash = createHash('sha256');
  for (const chunk of generate(size, 1000)) hash.update(chunk);
  return digest(hash);
};
const bytesTensor = (data: TensorInput['data'], size: number): TensorInput => ({
  data,
  shape: [size],
  dtype: 'int8',
  payloadType: 'hidden_state',
});
const nextTensor = async (session: Session) => {
  for await (const { tensor } of session) if (tensor !== undefined) return tensor;
  throw new Error('the session ended without a tensor');
};
const nextStream = async (session: Session) => (await nextTensor(session)) as StreamedTensor;
const hashOfTensor = async (session: Session) => {
  const tensor = await nextTensor(session);
  const hash = createHash('sha256');
  if (tensor.data !== undefined) return digest(hash.update(tensor.data));
  for await (const chunk of tensor.chunks) hash.update(chunk);
  return digest(hash);
};
const failure = async (promise: Promise<unknown>) =>
  await promise.then(
    () => undefined,
    (error: unknown) => error,
  );
describe('a tensor', () => {
  const SIZE = 1_500_001;
  const sources: Record<string, () => TensorInput['data']> = {
    'a view': () => generate(SIZE, SIZE).next().value as Uint8Array,
    'large chunks': () => generate(SIZE, 700_000),
    'small chunks': () => generate(SIZE, 1234),
    'an asynchronous source': async function* () {
      for (const chunk of generate(SIZE, 100_000)) {
        await pause(1);
        yield chunk;
      }
    },
  };

  for (const mode of ['assemble', 'stream'] satisfies TransferMode[]) {
    for (const from of ['client', 'server'] as const) {
      it.each(Object.keys(sources))(`arrives from the ${from} out of %s (${mode})`, async (source) => {
        const ends = await setUp({ features: [tensors({ transfers: mode })] }, { transfers: mode });
        const to = from === 'client' ? 'server' : 'client';
        const arrived = hashOfTensor(ends[to]);
        const progress: number[] = [];
        await ends[from].sendTensor(bytesTensor(sources[source]?.() ?? [], SIZE), {
          onProgress(bytes, total) {
            expect(total).toBe(SIZE);
            progress.push(bytes);
          },
        });
        expect(await arrived).toBe(hashOf(SIZE));
        expect(progress.at(-1)).toBe(SIZE);
        expect(progress).toEqual(progress.toSorted((a, b) => a - b));
        expect(progress.length).toBeGreaterThan(3);
        expect(ends[from].stats().openStreams).toBe(0);
      });
    }
  }

  it('of one frame is checked before it is sent, and reports its progress once', async () => {
    const { client, server } = await setUp();
    const progress: number[][] = [];
    const data = Float32Array.of(1, 2, 3);
    const tensor = { data, shape: [3], dtype: 'float32', payloadType: 'hidden_state' } as const;
    await client.sendTensor(tensor, { onProgress: (...figures) => progress.push(figures) });
    expect(progress).toEqual([[12, 12]]);
    expect(await nextTensor(server)).toMatchObject({ shape: [3], metadata: { avpMapId: '' } });
    await expect(client.sendTensor({ ...tensor, shape: [4] })).rejects.toMatchObject({ code: 'bad_tensor' });
    await expect(
      client.sendTensor({ ...tensor, shape: [100_000], data: new Uint8Array(399_999) }),
    ).rejects.toMatchObject({ code: 'bad_tensor' });
    expect(client.stats().sent.byAlgorithm.AVP?.messages).toBe(1);
  });

  it('is refused without the link, before any of it is sent', async () => {
    const { client } = await setUp({}, { extensions: { link: false } });
    await expect(client.sendTensor(bytesTensor(new Uint8Array(9), 9))).rejects.toMatchObject({
      code: 'unsupported',
    });
  });

  it.each(['client', 'server'] as const)(
    'over the limit of the %s is refused, and not sent',
    async (small) => {
      const limits = { limits: { maxTransferSize: 100_000 } };
      const ends = await setUp(small === 'server' ? limits : {}, small === 'client' ? limits : {});
      const from = ends[small === 'client' ? 'server' : 'client'];
      const before = from.stats().sent.wireBytes;
      let asked = false;
      const source = function* () {
        asked = true;
        yield new Uint8Array(100_001);
      };
      await expect(from.sendTensor(bytesTensor(source(), 100_001))).rejects.toMatchObject({
        code: 'transfer_too_large',
        side: 'local',
      });
      expect([from.stats().sent.wireBytes - before, asked]).toEqual([0, false]);
      const arrived = nextTensor(ends[small]);
      await from.sendTensor(bytesTensor(new Uint8Array(100_000), 100_000));
      expect((await arrived).shape).toEqual([100_000]);
    },
  );

  it('gets through if there is almost no room for messages', async () => {
    const limits = { limits: { maxMessageSize: 1024, maxHandshakeSize: 8192 } };
    const ends = await setUp(limits, limits);
    for (const [from, to] of [
      [ends.client, ends.server],
      [ends.server, ends.client],
    ] as const) {
      const arrived = hashOfTensor(to);
      await from.sendTensor(bytesTensor(generate(SIZE, 300_000), SIZE));
      expect(await arrived).toBe(hashOf(SIZE));
    }
  });
});

describe('a receiver that does not read', () => {
  it('holds back its sender, and nothing else in the session', async () => {
    const { client, server } = await setUp({ features: [tensors({ transfers: 'stream' })] });
    let given = 0;
    const source = function* () {
      for (const chunk of generate(8 * MIB, 100_000)) {
        given += chunk.length;
        yield chunk;
      }
    };
    const sent = client.sendTensor(bytesTensor(source(), 8 * MIB));
    const tensor = await nextStream(server);
    await expect.poll(() => client.stats().blockedOnCredit).toBe(true);
    await pause(50);
    // The chunks that its credit allows, those that wait to be written, and the last one.
    expect(given).toBeLessThan(MIB + 256 * 1024 + 100_000);
    for (let i = 0; i < 20; i++) expect((await client.request(`ping ${i}`)).text).toBe(`ping ${i}`);
    await server.send('hello');
    for await (const message of client) {
      expect(message.text).toBe('hello');
      break;
    }
    const hash = createHash('sha256');
    for await (const chunk of tensor.chunks) hash.update(chunk);
    await sent;
    expect(digest(hash)).toBe(hashOf(8 * MIB));
  });

  it('is sent two tensors at the same time, which are read in any order', async () => {
    const { client, server } = await setUp({ features: [tensors({ transfers: 'stream' })] });
    const sent = [1, 2].map((n) => client.sendTensor(bytesTensor(generate(n * MIB, 100_000), n * MIB)));
    const first = await nextStream(server);
    const second = await nextStream(server);
    for (const tensor of [second, first]) {
      const hash = createHash('sha256');
      for await (const chunk of tensor.chunks) hash.update(chunk);
      expect(digest(hash)).toBe(hashOf(tensor.byteLength));
    }
    await Promise.all(sent);
  });
});

describe('a transfer that fails half-way', () => {
  const HALF = 3 * MIB;
  /** A source that records whether its iterator was closed. */
  const watched = (chunks: () => Iterable<Uint8Array>) => {
    const source = { left: false, data: undefined as unknown as AsyncIterable<Uint8Array> };
    source.data = (async function* () {
      try {
        for (const chunk of chunks()) {
          await pause(0);
          yield chunk;
        }
      } finally {
        source.left = true;
      }
    })();
    return source;
  };
  const readsUntilItFails = async (session: Session) => {
    const tensor = await nextStream(session);
    let length = 0;
    try {
      for await (const chunk of tensor.chunks) length += chunk.length;
      return { length, error: undefined };
    } catch (error) {
      return { length, error };
    }
  };
  const stillWorks = async ({ client, server }: Ends) => {
    expect((await client.request('still here')).text).toBe('still here');
    await expect.poll(() => client.stats().openStreams + server.stats().openStreams).toBe(0);
  };

  it('because its sender aborts', async () => {
    const ends = await setUp({ features: [tensors({ transfers: 'stream' })] });
    const controller = new AbortController();
    const source = watched(() => generate(HALF, 100_000));
    const outcome = failure(
      ends.client.sendTensor(bytesTensor(source.data, HALF), {
        signal: controller.signal,
        onProgress(bytes) {
          if (bytes > MIB) controller.abort(new Error('changed my mind'));
        },
      }),
    );
    const { length, error } = await readsUntilItFails(ends.server);
    expect(error).toMatchObject({ code: 'cancelled', side: 'remote' });
    expect(length).toBeLessThan(HALF);
    expect(await outcome).toEqual(new Error('changed my mind'));
    await expect.poll(() => source.left).toBe(true);
    await stillWorks(ends);
  });

  it.each([
    ['to be read', tensors({ transfers: 'stream' })],
    ['to be scanned', scan(() => new Promise<never>(() => {}))],
  ])('because its sender aborts, while all of it waits %s', async (_what, feature) => {
    const ends = await setUp({ features: [feature] });
    const controller = new AbortController();
    const sent = ends.client.sendTensor(bytesTensor(generate(100, 100), 100), { signal: controller.signal });
    await expect.poll(() => ends.server.stats().openStreams).toBe(1);
    await expect.poll(() => ends.client.stats().queuedBytes).toBe(0);
    controller.abort(new Error('changed my mind'));
    expect(await failure(sent)).toEqual(new Error('changed my mind'));
    await expect.poll(() => ends.client.stats().openStreams + ends.server.stats().openStreams).toBe(0);
  });

  it('because its sender aborts, while it is assembled', async () => {
    const ends = await setUp();
    const signal = AbortSignal.timeout(60);
    const slow = async function* () {
      for (const chunk of generate(HALF, 100_000)) {
        await pause(10);
        yield chunk;
      }
    };
    await expect(ends.client.sendTensor(bytesTensor(slow(), HALF), { signal })).rejects.toMatchObject({
      name: 'TimeoutError',
    });
    await stillWorks(ends);
    await ends.client.send('after it');
    for await (const message of ends.server) {
      expect(message.text).toBe('after it');
      break;
    }
  });

  it.each(['leaves the loop', 'cancels'])('because its receiver %s', async (way) => {
    const ends = await setUp({ features: [tensors({ transfers: 'stream' })] });
    const source = watched(() => generate(HALF, 100_000));
    const outcome = failure(ends.client.sendTensor(bytesTensor(source.data, HALF)));
    const tensor = await nextStream(ends.server);
    const reading = (async () => {
      for await (const _chunk of tensor.chunks) {
        if (way === 'leaves the loop') break;
        tensor.cancel();
      }
    })();
    // Reading on must not make a cancelled tensor look complete.
    const expected = way === 'cancels' ? { code: 'cancelled', side: 'local' } : {};
    expect((await failure(reading)) ?? {}).toMatchObject(expected);
    expect(await outcome).toMatchObject({ code: 'cancelled', side: 'remote' });
    await expect.poll(() => source.left).toBe(true);
    await stillWorks(ends);
  });

  it.each([
    ['throws', 'the source broke', (size: number) => sourceThatThrows(size)],
    ['yields more than was stated', 'bad_tensor', (size: number) => generate(size + 1, 100_000)],
    ['yields one more chunk than was stated', 'bad_tensor', (size: number) => oneMore(size)],
    ['yields less than was stated', 'bad_tensor', (size: number) => generate(size - 1, 100_000)],
    ['yields what is no bytes', 'invalid_argument', () => ['text'] as never],
  ] as const)('because its source %s', async (_what, expected, source) => {
    const ends = await setUp({ features: [tensors({ transfers: 'stream' })] });
    const outcome = failure(ends.client.sendTensor(bytesTensor(source(HALF), HALF)));
    const { error } = await readsUntilItFails(ends.server);
    expect(error).toMatchObject({ code: 'cancelled', side: 'remote' });
    const { code, message } = (await outcome) as { code?: string; message: string };
    expect(code ?? message).toBe(expected);
    await stillWorks(ends);
  });

  it('because the progress listener throws', async () => {
    const ends = await setUp({ features: [tensors({ transfers: 'stream' })] });
    const onProgress = () => {
      throw new Error('no bar to draw');
    };
    const outcome = failure(
      ends.client.sendTensor(bytesTensor(generate(HALF, 100_000), HALF), { onProgress }),
    );
    expect((await readsUntilItFails(ends.server)).error).toMatchObject({ code: 'cancelled' });
    expect(await outcome).toEqual(new Error('no bar to draw'));
    await stillWorks(ends);
  });

  it.each(['client', 'server'] as const)('because the %s closes the session', async (closer) => {
    const ends = await setUp({ features: [tensors({ transfers: 'stream' })] }, { transfers: 'stream' });
    const [from, to] = closer === 'client' ? [ends.server, ends.client] : [ends.client, ends.server];
    const outcome = failure(from.sendTensor(bytesTensor(generate(HALF, 100_000), HALF)));
    const tensor = await nextStream(to);
    const closed = to.close();
    const reading = (async () => {
      for await (const _chunk of tensor.chunks);
    })();
    expect(await failure(reading)).toMatchObject({ code: 'session_closed' });
    expect(await outcome).toMatchObject({ code: 'session_closed' });
    expect(await closed).toEqual({ unacknowledged: 0 });
  });
});

function* sourceThatThrows(size: number): Generator<Uint8Array> {
  yield* generate(size / 2, 100_000);
  throw new Error('the source broke');
}

function* oneMore(size: number): Generator<Uint8Array> {
  yield* generate(size, 100_000);
  yield new Uint8Array(1);
}

describe('a lost connection', () => {
  const SIZE = 24 * MIB;
  const CUTS = 6;

  it.each(['client', 'server'] as const)(
    'interrupts a tensor from the %s and does not harm it',
    async (from) => {
      const ends = await setUp({ features: [tensors({ transfers: 'stream' })] }, { transfers: 'stream' });
      const { proxy } = ends;
      const to = from === 'client' ? ends.server : ends.client;
      const sentBytes = () => ends[from].stats().sent.wireBytes;
      const before = sentBytes();
      const arrived = hashOfTensor(to);
      let cuts = 0;
      await ends[from].sendTensor(bytesTensor(generate(SIZE, 300_000), SIZE), {
        onProgress(bytes) {
          if (cuts === CUTS || bytes < ((cuts + 1) * SIZE) / (CUTS + 1)) return;
          cuts++;
          if (from === 'server' && cuts % 2 === 0) proxy.cutAfter(100_000);
          else proxy.cut();
        },
      });
      expect(await arrived).toBe(hashOf(SIZE));
      expect(cuts).toBe(CUTS);
      expect(proxy.opened).toBeGreaterThan(CUTS - 2);
      // Data in flight is sent again, and the receiver's window bounds that.
      const again = sentBytes() - before - SIZE;
      expect(again / CUTS).toBeLessThan(4 * MIB);
    },
  );

  it('that is never replaced fails the transfers in flight at both ends', async () => {
    const ends = await setUp({ features: [tensors({ transfers: 'stream' })] }, { reconnect: false });
    const outcome = failure(ends.client.sendTensor(bytesTensor(generate(SIZE, 300_000), SIZE)));
    const tensor = await nextStream(ends.server);
    ends.proxy.cut();
    expect(await outcome).toMatchObject({ code: 'session_lost' });
    const reading = (async () => {
      for await (const _chunk of tensor.chunks);
    })();
    expect(await failure(reading)).toMatchObject({ name: 'ProtocolError' });
  });
});

describe('the models of the two ends', () => {
  const LLAMA: ModelIdentity = {
    modelFamily: 'llama',
    modelId: 'meta-llama/Llama-3-8B',
    modelHash: 'a'.repeat(64),
    hiddenDim: 4096,
    numLayers: 32,
    numKvHeads: 8,
    headDim: 128,
    tokenizerHash: 'c'.repeat(64),
  };
  const OTHER = { ...LLAMA, modelFamily: 'other', modelHash: 'b'.repeat(64) };
  const SMALL = bytesTensor(new Uint8Array(9), 9);

  it('that are the same exchange tensors unchanged', async () => {
    const { client, server } = await setUp(
      { features: [tensors({ avp: { identity: LLAMA } })] },
      { avp: { identity: LLAMA } },
    );
    for (const { negotiated } of [client, server]) {
      expect(negotiated.avp).toEqual({ mode: 'latent', mapId: '' });
    }
    await client.sendTensor(SMALL);
    expect((await nextTensor(server)).metadata).toMatchObject({ mode: 'latent', avpMapId: '' });
  });

  it('that share a tokenizer state the map by which a tensor is projected', async () => {
    const { client, server } = await setUp(
      { features: [tensors({ avp: { identity: LLAMA } })] },
      { avp: { identity: OTHER } },
    );
    const mapId = `vocab:${'c'.repeat(16)}`;
    for (const { negotiated } of [client, server]) {
      expect(negotiated.avp).toEqual({ mode: 'latent', mapId });
    }
    await client.sendTensor({ ...SMALL, metadata: { modelId: 'mine' } });
    expect((await nextTensor(server)).metadata).toMatchObject({ modelId: 'mine', avpMapId: mapId });
    await server.sendTensor(bytesTensor(generate(300_000, 1000), 300_000));
    expect((await nextTensor(client)).metadata).toMatchObject({ avpMapId: mapId });
    await client.sendTensor({ ...SMALL, metadata: { avpMapId: 'my_own' } });
    expect((await nextTensor(server)).metadata).toMatchObject({ avpMapId: 'my_own' });
  });

  it('that have nothing in common exchange text', async () => {
    const { client, server } = await setUp(
      { features: [tensors({ avp: { identity: LLAMA } })] },
      { avp: { identity: { ...OTHER, tokenizerHash: '' } }, agentId: 'alice' },
    );
    for (const { negotiated } of [client, server]) {
      expect(negotiated.avp).toEqual({ mode: 'json', mapId: '' });
    }
    await expect(client.sendTensor(SMALL)).rejects.toMatchObject({ code: 'unsupported' });
    const tensor = { ...SMALL, metadata: { extra: { topic: 'sky' } } };
    await client.sendTensor(tensor, { fallback: () => 'what I mean is blue' });
    await server.sendTensor(SMALL, { fallback: 'I see' });
    for await (const message of server) {
      expect(message.tensor).toBeUndefined();
      expect(message.json()).toEqual({
        avp_version: '0.6.2',
        session_id: client.id,
        source_agent_id: 'alice',
        target_agent_id: '',
        content: 'what I mean is blue',
        extra: { topic: 'sky' },
      });
      break;
    }
    for await (const message of client) {
      expect(message.json()).toMatchObject({ content: 'I see', target_agent_id: 'alice' });
      break;
    }
  });

  it('have no effect if one of them is not named', async () => {
    for (const [server, client] of [
      [{ identity: LLAMA }, {}],
      [undefined, { avp: { identity: LLAMA } }],
      [{ identity: LLAMA }, { avp: { identity: LLAMA }, extensions: { avp: false } }],
    ] as const) {
      const ends = await setUp({ features: [tensors({ avp: server })] }, client);
      expect([ends.client.negotiated.avp, ends.server.negotiated.avp]).toEqual([undefined, undefined]);
      await ends.client.sendTensor(SMALL);
      expect((await nextTensor(ends.server)).shape).toEqual([9]);
    }
  });

  it('are not named by an end that carries no tensors', async () => {
    const { client } = await setUp(
      { features: [tensors({ avp: { identity: LLAMA } })] },
      { avp: { identity: LLAMA }, subprotocol: 'm2m.v1.json' },
    );
    expect(client.negotiated.avp).toBeUndefined();
    await expect(client.sendTensor(SMALL)).rejects.toMatchObject({ code: 'unsupported' });
  });

  it('whose tokens cannot be looked up end the session, and not the server', async () => {
    const tokens = () => {
      throw new Error('no such file');
    };
    const { proxy, client } = await setUp({ features: [tensors({ avp: { identity: LLAMA, tokens } })] });
    const url = `ws://127.0.0.1:${proxy.port}/session`;
    const refused = connect(url, { WebSocket, avp: { identity: { ...OTHER, tokenizerHash: '' } } });
    await expect(refused).rejects.toMatchObject({ name: 'ProtocolError', closeCode: 4500 });
    expect((await client.request('still there?')).text).toBe('still there?');
  });
});
