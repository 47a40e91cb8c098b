import { io } from 'socket.io-client';

export async function open({ server, show }) {
  const socket = io(server);
  await new Promise((resolve) => socket.once('connect', resolve));
  socket.on('word', show);
  return {
    ask(question) {
      socket.emit('ask', question);
      return new Promise((resolve, reject) => {
        const end = (settle) => {
          for (const event of ['done', 'failed', 'connect']) socket.off(event);
          settle();
        };
        socket.on('done', () => end(resolve));
        socket.on('failed', (message) => end(() => reject(new Error(message))));
        socket.on('connect', () => {
          if (!socket.recovered) end(() => reject(new Error('the session was not recovered')));
        });
      });
    },
    stop: () => socket.emit('stop'),
  };
}
