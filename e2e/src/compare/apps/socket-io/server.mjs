import { Server } from 'socket.io';
import { answer } from '../model.mjs';

const io = new Server(process.env.PORT, { connectionStateRecovery: {} });
const running = new Map();

io.on('connection', (socket) => {
  socket.on('stop', () => running.get(socket.id)?.abort());
  socket.on('ask', async (question) => {
    const controller = new AbortController();
    running.set(socket.id, controller);
    try {
      for await (const word of answer(question, controller)) socket.emit('word', word);
      socket.emit('done');
    } catch (error) {
      socket.emit('failed', error.message);
    } finally {
      running.delete(socket.id);
    }
  });
});
