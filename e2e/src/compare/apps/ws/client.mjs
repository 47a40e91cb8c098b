import { once } from 'node:events';
import { WebSocket } from 'ws';

export async function open({ server, show }) {
  let socket;
  const connected = async () => {
    if (socket?.readyState === WebSocket.OPEN) return;
    socket = new WebSocket(server);
    socket.on('error', console.error);
    await once(socket, 'open');
  };
  await connected();
  return {
    async ask(question) {
      await connected();
      socket.send(JSON.stringify({ question }));
      await new Promise((resolve, reject) => {
        socket.once('close', () => reject(new Error('the connection is lost')));
        socket.on('message', (data) => {
          const { word, done, error } = JSON.parse(data);
          if (word !== undefined) return show(word);
          socket.removeAllListeners('message').removeAllListeners('close');
          if (done) resolve();
          else reject(new Error(error));
        });
      });
    },
    stop: () => socket.send(JSON.stringify({ stop: true })),
  };
}
