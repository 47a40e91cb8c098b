import { WebSocketServer } from 'ws';
import { answer } from '../model.mjs';

const server = new WebSocketServer({ port: process.env.PORT });

server.on('connection', (socket) => {
  let running;
  socket.isAlive = true;
  socket.on('error', console.error);
  socket.on('pong', () => (socket.isAlive = true));
  socket.on('close', () => running?.abort());
  socket.on('message', async (data) => {
    const { question, stop } = JSON.parse(data);
    if (stop) return running?.abort();
    running = new AbortController();
    try {
      for await (const word of answer(question, running)) socket.send(JSON.stringify({ word }));
      socket.send(JSON.stringify({ done: true }));
    } catch (error) {
      socket.send(JSON.stringify({ error: error.message }));
    }
  });
});

setInterval(() => {
  for (const socket of server.clients) {
    if (!socket.isAlive) return socket.terminate();
    socket.isAlive = false;
    socket.ping();
  }
}, 30_000);
