import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { Readable } from 'node:stream';
import { json } from 'node:stream/consumers';
import { Redis } from 'ioredis';
import { createResumableStreamContext } from 'resumable-stream/ioredis';
import { answer } from '../model.mjs';

const streams = createResumableStreamContext({ waitUntil: null });
const chats = new Redis(process.env.REDIS_URL);
const running = new Map();

const event = (data) => `data: ${JSON.stringify(data)}\n\n`;

async function* events(chat, question, controller) {
  const words = [];
  try {
    for await (const word of answer(question, controller)) {
      words.push(word);
      yield event({ word });
    }
    await chats.set(`answer:${chat}`, JSON.stringify(words));
    yield event({ done: true });
  } catch (error) {
    yield event({ error: error.message });
  } finally {
    await chats.del(`active:${chat}`);
  }
}

function send(response, stream) {
  response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' });
  const body = Readable.fromWeb(stream);
  response.on('error', () => {});
  // The producer completes the stream, even if this reader is gone.
  body.on('data', (chunk) => response.writable && response.write(chunk));
  body.on('end', () => response.end());
  body.on('error', () => response.destroy());
}

createServer(async (request, response) => {
  try {
    const [, chat, action] = request.url.split('/');
    const active = await chats.get(`active:${chat}`);
    if (request.method === 'POST' && action === 'stop') {
      running.get(active)?.abort();
      await chats.del(`active:${chat}`);
      return response.writeHead(204).end();
    }
    if (request.method === 'POST') {
      const { question } = await json(request);
      const id = randomUUID();
      const controller = new AbortController();
      running.set(id, controller);
      await chats.set(`active:${chat}`, id);
      await chats.del(`answer:${chat}`);
      const begin = () => ReadableStream.from(events(chat, question, controller));
      return send(response, await streams.createNewResumableStream(id, begin));
    }
    if (action === undefined) return response.end((await chats.get(`answer:${chat}`)) ?? 'null');
    const stream = active === null ? undefined : await streams.resumeExistingStream(active);
    if (!stream) return response.writeHead(204).end();
    send(response, stream);
  } catch (error) {
    console.error(error);
    response.writeHead(500).end();
  }
}).listen(process.env.PORT);
