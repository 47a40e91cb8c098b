import type { Session } from '@parlance/client';
import type { ErrorContext, ServerOptions } from '@parlance/server';
import { createTestServer, type TestServer } from '@parlance/server/testing';
import { afterEach, describe, expect, it } from 'vitest';

/** The server reports no error if a client leaves, but it reports what the application's own code does wrong after that. */

class APIUserAbortError extends Error {}

let test: TestServer | undefined;
afterEach(() => test?.close());

async function serve(options: ServerOptions) {
  const reported: string[] = [];
  const onError = (error: unknown, { event }: ErrorContext) => reported.push(`${event}: ${error}`);
  test = await createTestServer({ ...options, onError });
  return { reported, clock: test.clock, session: await test.connect() };
}

const nextPart = (session: Session, text: string) => session.stream(text)[Symbol.asyncIterator]().next();

describe('a reader of the server', () => {
  it('that still answers while its client closes the session is not at fault', async () => {
    let answer = (): void => {};
    const answering = new Promise<void>((resolve) => {
      answer = resolve;
    });
    let sent: Promise<void> | undefined;
    const { reported, clock, session } = await serve({
      onSession: async (session) => {
        for await (const message of session) {
          await answering;
          sent = session.send(`you said: ${message.text}`);
          await sent;
        }
      },
    });
    await session.send('hello');
    await clock.advance(100);
    const closing = session.close();
    await Promise.resolve();
    answer();
    await closing;
    await clock.advance(1_000);
    expect(sent).toBeDefined();
    expect(reported).toEqual([]);
  });

  it('whose own code fails when its session is over is heard', async () => {
    const { reported, clock, session } = await serve({
      onSession: async (session) => {
        for await (const _message of session);
        throw new TypeError('cannot store the end of the session');
      },
    });
    await session.close();
    await clock.advance(1_000);
    expect(reported).toEqual(['session.failed: TypeError: cannot store the end of the session']);
  });
});

describe('a request handler', () => {
  const thrown: Record<string, (signal: AbortSignal) => unknown> = {
    'the reason of its signal': (signal) => signal.reason,
    'an error with that cause': ({ reason }) => new Error('the query was stopped', { cause: reason }),
    'the AbortError of the platform': () => new DOMException('This operation was aborted', 'AbortError'),
    'the abort of a client library': () => new APIUserAbortError('Request was aborted.'),
  };
  it.each(Object.keys(thrown))('that stops with %s is not at fault', async (name) => {
    const { reported, clock, session } = await serve({
      async *onRequest(_request, { signal }) {
        yield 'a part';
        await new Promise((resolve) => signal.addEventListener('abort', resolve));
        throw thrown[name]?.(signal);
      },
    });
    await nextPart(session, 'x');
    await session.close();
    await clock.advance(1_000);
    expect(reported).toEqual([]);
  });

  it.each(['leaves', 'closes the session'])('that fails as its requester %s is heard', async (how) => {
    const { reported, clock, session } = await serve({
      async *onRequest(_request, { signal }) {
        try {
          yield 'a part';
          await new Promise((resolve) => signal.addEventListener('abort', resolve));
        } finally {
          // biome-ignore lint/correctness/noUnsafeFinally: it is the mistake that is made here
          throw new TypeError('cannot store what was said');
        }
      },
    });
    const reply = session.stream('x');
    for await (const _part of reply) {
      if (how === 'leaves') break;
      await session.close();
      break;
    }
    await clock.advance(1_000);
    expect(reported).toEqual(['request.failed: TypeError: cannot store what was said']);
  });
});

it('a fetch handler that fails after its requester has left is heard, unless it heeds the signal', async () => {
  const { reported, clock, session } = await serve({
    onFetch: async ({ signal, url }) => {
      await new Promise((resolve) => signal.addEventListener('abort', resolve));
      if (url.endsWith('/heeds')) throw signal.reason;
      throw new TypeError('cannot store what was asked');
    },
  });
  for (const path of ['/heeds', '/fails']) {
    const abort = new AbortController();
    const fetched = session.fetch(path, { signal: abort.signal });
    await clock.advance(100);
    abort.abort();
    await expect(fetched).rejects.toMatchObject({ name: 'AbortError' });
    await clock.advance(100);
  }
  expect(reported).toEqual(['request.failed: TypeError: cannot store what was asked']);
});
