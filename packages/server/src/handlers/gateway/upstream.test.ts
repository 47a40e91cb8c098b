import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, expect, it } from 'vitest';
import { createSender, type Send, sendWith } from './send.js';
import { callUpstream, type UpstreamOptions, type UpstreamRequest } from './upstream.js';

const HOUR_MS = 3_600_000;

const call = (
  send: Send,
  request: Partial<UpstreamRequest> = {},
  options: Partial<UpstreamOptions> = {},
): ReturnType<typeof callUpstream> =>
  callUpstream(
    {
      ...{ url: new URL('http://up/v1'), method: 'POST', headers: new Map(), body: undefined },
      signal: new AbortController().signal,
      ...request,
    },
    {
      ...{ send, maxRetries: 0, maxRetryDelayMs: 0, responseTimeoutMs: HOUR_MS, idleTimeoutMs: HOUR_MS },
      ...options,
    },
  );

async function read(chunks: AsyncIterable<Uint8Array>): Promise<string> {
  let text = '';
  for await (const chunk of chunks) text += Buffer.from(chunk);
  return text;
}

describe.each<[string, (url: URL) => Send]>([
  ['node:http', (url) => createSender(url).send],
  ['fetch', () => sendWith(fetch)],
])('an answer with %s', (_name, create) => {
  it.each(['keep-alive', 'close'])('ends the body that is being sent (%s)', async (connection) => {
    const server = createServer((_request, response) => {
      response.writeHead(200, { connection, 'content-length': 6 }).end('enough');
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const url = new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`);
    let goOn = () => {};
    const hasBegun = new Promise<void>((resolve) => {
      goOn = resolve;
    });
    let isStopped = false;
    async function* endless(): AsyncGenerator<Uint8Array> {
      try {
        for (;;) {
          yield new Uint8Array(1_000);
          await hasBegun;
          await new Promise(setImmediate);
        }
      } finally {
        isStopped = true;
      }
    }
    const response = await call(create(url), { url, body: endless });
    goOn();
    expect(await read(response.chunks)).toBe('enough');
    response.close();
    await expect.poll(() => isStopped).toBe(true);
    server.closeAllConnections();
    server.close();
  });
});

describe('a fetch of the application', () => {
  /** A body of which one chunk comes. @returns whether its producer was told that it is read no further. */
  function silentBody() {
    let signal: AbortSignal | undefined;
    return {
      isOver: () => signal?.aborted === true,
      async *body(given: AbortSignal): AsyncGenerator<Uint8Array> {
        signal = given;
        yield new Uint8Array(1);
        await new Promise((_, reject) => given.addEventListener('abort', () => reject(given.reason)));
      },
    };
  }
  const take = async (init: RequestInit = {}) => {
    const reader = (init.body as ReadableStream<Uint8Array>).getReader();
    await reader.read();
    return reader;
  };
  const never = new Promise<never>(() => {});
  /** A response that never continues, and heeds no signal. */
  function silent(chunk?: string) {
    let isCancelled = false;
    const stream = new ReadableStream({
      pull(controller) {
        if (chunk === undefined) return never;
        controller.enqueue(Buffer.from(chunk));
        chunk = undefined;
        return undefined;
      },
      cancel() {
        isCancelled = true;
      },
    });
    return { response: new Response(stream), isCancelled: () => isCancelled };
  }

  it('may answer and leave the rest of a body', async () => {
    const { body, isOver } = silentBody();
    const send = sendWith(async (_url, init) => {
      await take(init);
      return new Response('enough');
    });
    const response = await call(send, { body });
    expect(await read(response.chunks)).toBe('enough');
    expect(isOver()).toBe(false);
    response.close();
    expect(isOver()).toBe(true);
  });

  it('may cancel a body of which a chunk is awaited', async () => {
    const { body, isOver } = silentBody();
    const send = sendWith(async (_url, init) => {
      const reader = await take(init);
      void reader.read();
      await new Promise(setImmediate);
      await reader.cancel();
      return new Response('enough');
    });
    const response = await call(send, { body });
    expect(await read(response.chunks)).toBe('enough');
    response.close();
    expect(isOver()).toBe(true);
  });

  it('may reject', async () => {
    const { body, isOver } = silentBody();
    const send = sendWith(async (_url, init) => {
      await take(init);
      throw new Error('no');
    });
    await expect(call(send, { body })).rejects.toMatchObject({ code: 'upstream_interrupted' });
    expect(isOver()).toBe(true);
  });

  it('ends in time if it never answers', async () => {
    const { body, isOver } = silentBody();
    const send = sendWith(async (_url, init) => {
      await take(init);
      return await never;
    });
    const asked = call(send, { body }, { responseTimeoutMs: 20 });
    await expect(asked).rejects.toMatchObject({ code: 'upstream_timeout' });
    expect(isOver()).toBe(true);
  });

  it('ends with a cancel if it never answers, and an answer that comes late is not read', async () => {
    const { response, isCancelled } = silent();
    let answer: (late: Response) => void = () => {};
    const send = sendWith(
      () =>
        new Promise((resolve) => {
          answer = resolve;
        }),
    );
    const controller = new AbortController();
    const asked = call(send, { signal: controller.signal });
    controller.abort(new Error('enough'));
    await expect(asked).rejects.toThrow('enough');
    answer(response);
    await expect.poll(isCancelled).toBe(true);
  });

  it('ends in time, and with a cancel, if its answer does not continue', async () => {
    for (const how of ['time', 'cancel'] as const) {
      const { response } = silent('begun');
      const controller = new AbortController();
      const { chunks } = await call(
        sendWith(async () => response),
        { signal: controller.signal },
        how === 'time' ? { idleTimeoutMs: 20 } : {},
      );
      const reading = chunks[Symbol.asyncIterator]();
      expect(String(Buffer.from((await reading.next()).value))).toBe('begun');
      const next = reading.next();
      if (how === 'cancel') controller.abort(new Error('enough'));
      await expect(next).rejects.toThrow(how === 'time' ? 'silent for 20 ms' : 'enough');
    }
  });

  it('sends no more than was read of its answer', async () => {
    const { response, isCancelled } = silent('begun');
    const begun = await call(sendWith(async () => response));
    for await (const _chunk of begun.chunks) break;
    begun.close();
    expect(isCancelled()).toBe(true);
  });
});
