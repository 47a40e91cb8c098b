import { randomUUID } from 'node:crypto';
import { Centrifuge } from 'centrifuge';
import { WebSocket } from 'ws';

export async function open({ server, storage, show }) {
  const centrifuge = new Centrifuge(process.env.CENTRIFUGO, { websocket: WebSocket });
  centrifuge.connect();
  await centrifuge.ready();

  function follow(id) {
    storage.setItem('answer', id);
    const channel = centrifuge.newSubscription(`ai:${id}`, { since: { offset: 0, epoch: '' } });
    return new Promise((resolve, reject) => {
      const end = (settle) => {
        channel.unsubscribe();
        centrifuge.removeSubscription(channel);
        storage.removeItem('answer');
        settle();
      };
      channel.on('publication', ({ data: { word, done, error } }) => {
        if (word !== undefined) show(word);
        if (done) end(resolve);
        if (error !== undefined) end(() => reject(new Error(error)));
      });
      channel.on('subscribed', ({ wasRecovering, recovered }) => {
        if (wasRecovering && !recovered) end(() => reject(new Error('the history is lost')));
      });
      channel.subscribe();
    });
  }
  let current;
  const interrupted = storage.getItem('answer');
  return {
    async ask(question) {
      current = randomUUID();
      const end = follow(current);
      await fetch(`${server}/${current}`, { method: 'POST', body: JSON.stringify({ question }) });
      await end;
    },
    stop: () => fetch(`${server}/${current}/stop`, { method: 'POST' }),
    resume: interrupted === null ? undefined : () => follow(interrupted),
  };
}
