import { createServer, type Socket } from 'node:net';
import { expect, it } from 'vitest';
import { measureFetch } from '../../packages/ui/src/plain-http.js';

/** The chat page compares the session to the real size of HTTP. */

const RESPONSE =
  'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nx-request-id: req_1\r\n\r\n' +
  'data: {"a":"ä"}\n\n'.repeat(20);

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
  const size = { sent: 0, received: 0 };
  const given = { 'content-type': 'application/json', authorization: 'Bearer unused', 'x-other': 'y' };
  const response = await measureFetch(fetch, size)(`http://127.0.0.1:${port}/v1/chat/completions?a=b`, {
    method: 'POST',
    headers: given,
    body: '{"content":"Grüße, 世界","end":"end"}',
  });
  expect(response.headers.get('x-request-id')).toBe('req_1');
  expect(await response.text()).toContain('"ä"');
  server.close();

  const known = ['host', 'content-length', ...Object.keys(given)];
  const [head = '', body = ''] = asked.split('\r\n\r\n');
  const [start, ...lines] = head.split('\r\n');
  const said = lines.filter((line) => known.includes(line.slice(0, line.indexOf(':')).toLowerCase()));
  expect(said).toHaveLength(known.length);
  expect(size.sent).toBe([start, ...said, '', ''].join('\r\n').length + body.length);
  expect(size.received).toBe(Buffer.byteLength(RESPONSE));
});
