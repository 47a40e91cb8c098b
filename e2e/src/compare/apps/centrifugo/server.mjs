import { createServer } from 'node:http';
import { json } from 'node:stream/consumers';
import { setTimeout as pause } from 'node:timers/promises';
import { answer } from '../model.mjs';

const RETRY_MS = 200;
const running = new Map();

async function publish(channel, number, data) {
  const headers = { 'content-type': 'application/json', 'x-api-key': 'secret' };
  const body = JSON.stringify({ channel, data, idempotency_key: `${channel}-${number}` });
  for (;;) {
    try {
      const response = await fetch(`${process.env.CENTRIFUGO}/api/publish`, {
        method: 'POST',
        headers,
        body,
      });
      if (response.ok && (await response.json()).error === undefined) return;
    } catch (error) {
      console.error(error);
    }
    await pause(RETRY_MS);
  }
}

async function run(id, question) {
  const channel = `ai:${id}`;
  const controller = new AbortController();
  running.set(id, controller);
  let number = 0;
  try {
    for await (const word of answer(question, controller)) await publish(channel, number++, { word });
    await publish(channel, number, { done: true });
  } catch (error) {
    await publish(channel, number, { error: error.message });
  } finally {
    running.delete(id);
  }
}

createServer(async (request, response) => {
  const [, id, action] = request.url.split('/');
  if (action === 'stop') running.get(id)?.abort();
  else run(id, (await json(request)).question);
  response.writeHead(204).end();
}).listen(process.env.PORT);
