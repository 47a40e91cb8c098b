import { randomUUID } from 'node:crypto';
import { WebSocket } from 'ws';

const RECONNECT_MS = 1_000;

export async function open({ server, storage, show }) {
  let socket;
  let current;
  const send = (message) => socket.send(JSON.stringify({ id: current.id, ...message }));
  const connect = () =>
    new Promise((resolve) => {
      socket = new WebSocket(server);
      socket.on('error', console.error);
      socket.once('open', () => {
        if (current !== undefined) send({ after: current.count });
        resolve();
      });
      socket.once('close', () => setTimeout(() => connect().then(resolve), RECONNECT_MS));
      socket.on('message', (data) => {
        const { word, done, error } = JSON.parse(data);
        const { resolve, reject } = current;
        if (word !== undefined) {
          current.count++;
          return show(word);
        }
        current = undefined;
        storage.removeItem('answer');
        if (done) resolve();
        else reject(new Error(error));
      });
    });
  const follow = (id, message) =>
    new Promise((resolve, reject) => {
      current = { id, count: 0, resolve, reject };
      storage.setItem('answer', id);
      send(message);
    });
  await connect();
  const interrupted = storage.getItem('answer');
  return {
    ask: (question) => follow(randomUUID(), { question, after: 0 }),
    stop: () => send({ stop: true }),
    resume: interrupted === null ? undefined : () => follow(interrupted, { after: 0 }),
  };
}
