import { WebSocketServer } from 'ws';
import { answer } from '../model.mjs';

const KEPT_MS = 120_000;
const server = new WebSocketServer({ port: process.env.PORT });
const answers = new Map();

function send(socket, message) {
  if (socket.readyState === socket.OPEN) socket.send(JSON.stringify(message));
}

async function run(id, question) {
  const kept = { log: [], readers: new Set(), running: new AbortController() };
  answers.set(id, kept);
  const add = (message) => {
    kept.log.push(message);
    for (const reader of kept.readers) send(reader, message);
  };
  try {
    for await (const word of answer(question, kept.running)) add({ word });
    add({ done: true });
  } catch (error) {
    add({ error: error.message });
  }
  setTimeout(() => answers.delete(id), KEPT_MS);
}

server.on('connection', (socket) => {
  socket.isAlive = true;
  socket.on('error', console.error);
  socket.on('pong', () => (socket.isAlive = true));
  socket.on('close', () => {
    for (const { readers } of answers.values()) readers.delete(socket);
  });
  socket.on('message', (data) => {
    const { id, question, after, stop } = JSON.parse(data);
    if (question !== undefined && !answers.has(id)) run(id, question);
    const kept = answers.get(id);
    if (kept === undefined) return send(socket, { error: 'the answer is not known' });
    if (stop) return kept.running.abort();
    for (const message of kept.log.slice(after)) send(socket, message);
    kept.readers.add(socket);
  });
});

setInterval(() => {
  for (const socket of server.clients) {
    if (!socket.isAlive) socket.terminate();
    socket.isAlive = false;
    socket.ping();
  }
}, 30_000);
