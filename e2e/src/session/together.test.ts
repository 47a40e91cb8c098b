import { connect } from '@parlance/client';
import { createServer } from '@parlance/server';
import { expect, it } from 'vitest';
import WebSocket from 'ws';

/** Milliseconds of work per request: longer than what one client may take of a tick of the event loop. */
const WORK_MS = 25;
/** Messages that may take effect together. */
const MAX_TOGETHER = 8;

it('messages that arrive together are handled in order, and share a tick of the event loop in small groups', async () => {
  const handled: string[] = [];
  const turns: number[] = [];
  let isSameTurn = false;
  const server = createServer({
    wire: 'net',
    onRequest: ({ text }) => {
      if (!isSameTurn) {
        isSameTurn = true;
        turns.push(0);
        setImmediate(() => {
          isSameTurn = false;
        });
      }
      turns.push((turns.pop() ?? 0) + 1);
      handled.push(text);
      const start = performance.now();
      while (performance.now() - start < WORK_MS);
      return text;
    },
  });
  const { port } = await server.listen();
  const client = await connect(`ws://127.0.0.1:${port}/session`, { WebSocket });
  try {
    // The first one loads code; the others are written before the server, which has the same loop, reads any of them.
    await client.request('first');
    handled.length = turns.length = 0;
    const sent = Array.from({ length: 3 * MAX_TOGETHER + 1 }, (_, at) => `${at}`);
    const replies = await Promise.all(sent.map((text) => client.request(text)));
    expect(replies.map(({ text }) => text)).toEqual(sent);
    expect(handled).toEqual(sent);
    expect(Math.max(...turns)).toBeLessThanOrEqual(MAX_TOGETHER);
  } finally {
    await client.close();
    await server.close();
  }
});
