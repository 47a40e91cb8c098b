import { createTestServer, type TestServer } from '@parlance/server/testing';
import { afterEach, describe, expect, it } from 'vitest';

/** More requests at a time than the peer allows: those beyond wait for their turn. */

let test: TestServer | undefined;
afterEach(() => test?.close());

const MAX = 4;
const COUNT = 3 * MAX + 1;
const all = Array.from({ length: COUNT }, (_, at) => at);

/** A server whose handlers take a second, and count how many of them run at a time. */
async function serve(limits = {}): Promise<{
  test: TestServer;
  order: string[];
  tensors: number[];
  most: () => number;
}> {
  const order: string[] = [];
  const tensors: number[] = [];
  let [now, most] = [0, 0];
  const work = async (text: string): Promise<string> => {
    order.push(text);
    most = Math.max(most, ++now);
    await new Promise((resolve) => setTimeout(resolve, 1_000));
    now--;
    return `re: ${text}`;
  };
  test = await createTestServer({
    limits: { maxStreams: MAX, ...limits },
    async onSession(session) {
      for await (const { tensor } of session) tensors.push(tensor?.data?.length ?? 0);
    },
    onRequest: ({ text }) => work(text),
    onFetch: async (request) => new Response(await work(await request.text())),
  });
  return { test, order, tensors, most: () => most };
}

describe('requests above the limit of the peer', () => {
  it('are answered in the order of their calls, whatever they are made with', async () => {
    const { test, order, most } = await serve();
    const session = await test.connect();
    const read = async (text: string) => {
      let whole = '';
      for await (const part of session.stream(text)) whole += part.text;
      return whole;
    };
    const answers = all.map((at) => {
      if (at % 3 === 0) return session.request(`${at}`).then(({ text }) => text);
      if (at % 3 === 1) return read(`${at}`);
      return session.request(`${at}`, { retryUnsent: true }).then(({ text }) => text);
    });
    await test.clock.advance(30_000);
    expect(await Promise.all(answers)).toEqual(all.map((at) => `re: ${at}`));
    expect([...order].sort()).toEqual(all.map(String).sort());
    expect(most()).toBe(MAX);
  });

  it('keep their order', async () => {
    const { test, order } = await serve();
    const session = await test.connect();
    const answers = all.map((at) => session.request(`${at}`));
    await test.clock.advance(30_000);
    await Promise.all(answers);
    expect(order).toEqual(all.map(String));
  });

  it('of fetch, and tensors, wait as well', async () => {
    const { test, tensors, most } = await serve();
    const session = await test.connect();
    const answers = all.map((at) =>
      session.fetch('/', { method: 'POST', body: `${at}` }).then((response) => response.text()),
    );
    const sizes = [4, 4_000_000];
    const sent = sizes.map((size) =>
      session.sendTensor({
        dtype: 'int8',
        payloadType: 'hidden_state',
        shape: [size],
        data: new Uint8Array(size).fill(7),
      }),
    );
    await test.clock.advance(30_000);
    expect(await Promise.all(answers)).toEqual(all.map((at) => `re: ${at}`));
    expect(most()).toBe(MAX);
    await Promise.all(sent);
    expect(tensors).toEqual(sizes);
  });

  it('of a server wait for the limit of its client', async () => {
    const { test } = await serve();
    let [now, most] = [0, 0];
    await test.connect({
      limits: { maxStreams: 2 },
      onRequest: async ({ text }) => {
        most = Math.max(most, ++now);
        await new Promise((resolve) => setTimeout(resolve, 100));
        now--;
        return text;
      },
    });
    const [served] = [...test.server.sessions.values()];
    const answers = all.map((at) => served?.request(`${at}`).then(({ text }) => text));
    await test.clock.advance(30_000);
    expect(await Promise.all(answers)).toEqual(all.map(String));
    expect(most).toBe(2);
  });

  it('end with their time, which names the limit, and with their signal, and leave the queue', async () => {
    const { test, order } = await serve();
    const session = await test.connect();
    const first = all.slice(0, MAX).map((at) => session.request(`${at}`));
    const abort = new AbortController();
    const late = session.request('late', { timeoutMs: 500 }).catch((error: unknown) => error);
    const aborted = session.request('aborted', { signal: abort.signal }).catch((error: unknown) => error);
    const left = session.stream('left');
    const reading = left[Symbol.asyncIterator]().next();
    const last = session.request('last');
    abort.abort(new Error('enough'));
    left.cancel();
    await test.clock.advance(600);
    expect(await late).toMatchObject({
      code: 'timeout',
      message: `no reply within 500 ms; all ${MAX} requests that the peer allows at a time (maxStreams) were open`,
    });
    expect(await aborted).toMatchObject({ message: 'enough' });
    expect((await reading).done).toBe(true);
    await test.clock.advance(30_000);
    expect((await last).text).toBe('re: last');
    await Promise.all(first);
    expect(order).toEqual([...all.slice(0, MAX).map(String), 'last']);
  });

  it('fail if more bytes wait than a session may hold, and not before', async () => {
    const { test } = await serve();
    const session = await test.connect({ limits: { sessionMemory: 3 * 1_024 } });
    const options = { algorithm: 'NONE' } as const;
    const open = all.slice(0, MAX).map((at) => session.request(`${at}`));
    // Each counts 512 bytes more.
    const fits = [1, 2, 3].map(() => session.request('x'.repeat(512), options));
    await expect(session.request('', options)).rejects.toMatchObject({
      code: 'too_many_streams',
      message: expect.stringMatching(/^all 4 requests .* \(maxStreams\) are open, .* \(sessionMemory\)$/),
    });
    await test.clock.advance(30_000);
    await Promise.all([...open, ...fits]);
    const again = session.request('x');
    await test.clock.advance(2_000);
    expect((await again).text).toBe('re: x');
  });

  it('are lost with their session, and end with it', async () => {
    const { test, order } = await serve();
    const session = await test.connect();
    const answers = all.map((at) => session.request(`${at}`).catch((error: { code: string }) => error.code));
    await test.clock.advance(10);
    const closed = session.close();
    await test.clock.advance(30_000);
    await closed;
    expect(new Set(await Promise.all(answers))).toEqual(new Set(['session_closed']));
    expect(order).toHaveLength(MAX);
  });
});
