import { once } from 'node:events';
import { createServer, type Socket } from 'node:net';
import { constants, createGzip, gzipSync } from 'node:zlib';
import { expect, it } from 'vitest';
import { measureFetch, type PlainHttpSize } from '../../../packages/ui/src/chat/plain-http.js';

/** The chat page compares the session to the real size of HTTP. */

const createSize = (): PlainHttpSize => ({ sent: 0, received: 0, gzip: { sent: 0, received: 0 } });
/** A chunk as HTTP/1.1 frames it. */
const chunk = (text: string) => `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`;
const EVENTS = 'data: {"a":"ä"}\n\n'.repeat(20);
const HEAD =
  'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\nx-request-id: req_1\r\n\r\n';
const RESPONSE = `${HEAD}${chunk(EVENTS)}${chunk('')}`;

it('the size of plain HTTP is that of the bytes on its socket, except for the headers that the runtime adds', async () => {
  let asked = '';
  const server = createServer((socket: Socket) => {
    socket.on('data', (chunk) => {
      asked += chunk.toString('latin1');
      if (asked.includes('"end"')) socket.end(RESPONSE);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as { port: number };
  const size = createSize();
  const given = { 'content-type': 'application/json', authorization: 'Bearer unused', 'x-other': 'y' };
  const response = await measureFetch(fetch, size)(`http://127.0.0.1:${port}/v1/chat/completions?a=b`, {
    method: 'POST',
    headers: given,
    body: '{"content":"Grüße, 世界","end":"end"}',
  });
  expect(response.headers.get('x-request-id')).toBe('req_1');
  expect(await response.text()).toContain('"ä"');
  await size.settle?.();
  server.close();

  const known = ['host', 'content-length', ...Object.keys(given)];
  const [head = '', body = ''] = asked.split('\r\n\r\n');
  const [start, ...lines] = head.split('\r\n');
  const said = lines.filter((line) => known.includes(line.slice(0, line.indexOf(':')).toLowerCase()));
  expect(said).toHaveLength(known.length);
  expect(size.sent).toBe([start, ...said, '', ''].join('\r\n').length + body.length);
  expect(size.received).toBe(Buffer.byteLength(RESPONSE));

  // With gzip, the heads stay as they are but for one field, and the bodies are what a compressor makes of them.
  const field = 'content-encoding: gzip\r\n'.length;
  const sentHead = size.sent - Buffer.byteLength(body, 'latin1');
  expect(
    Math.abs(size.gzip.sent - sentHead - field - gzipSync(Buffer.from(body, 'latin1')).length),
  ).toBeLessThan(8);
  expect(Math.abs(size.gzip.received - HEAD.length - field - gzipSync(EVENTS).length)).toBeLessThan(32);
});

it('the size of a compressed stream is that of a compressor that is flushed after every event', async () => {
  const events = Array.from(
    { length: 50 },
    (_, i) => `data: {"delta":{"content":" word ${(i * 7919) % 97}"}}\n\n`,
  );
  const size = createSize();
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      for (const event of events) controller.enqueue(new TextEncoder().encode(event));
      controller.close();
    },
  });
  const response = await measureFetch(async () => new Response(body), size)('http://session/v1');
  expect(await response.text()).toBe(events.join(''));
  await size.settle?.();
  const gzip = createGzip({ level: 6 });
  const flushed: string[] = [''];
  gzip.on('data', (piece: Buffer) => flushed.push(flushed.pop() + 'x'.repeat(piece.length)));
  for (const event of events) {
    gzip.write(event);
    await new Promise<void>((resolve) => gzip.flush(constants.Z_SYNC_FLUSH, resolve));
    flushed.push('');
  }
  gzip.end();
  await once(gzip, 'end');
  const framed = (texts: readonly string[]) => [...texts, ''].map((text) => chunk(text)).join('').length;
  const expected = framed(flushed);
  const heads = size.received - framed(events) + 'content-encoding: gzip\r\n'.length;
  expect((size.gzip.received - heads) / expected).toBeCloseTo(1, 1);
});
