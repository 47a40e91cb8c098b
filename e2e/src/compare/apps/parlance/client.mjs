import { randomUUID } from 'node:crypto';
import { connect } from '@parlance/client';

export async function open({ server, storage, show }) {
  const session = await connect(server, { store: storage, token: 'ann' });
  let running;
  const read = async (chat, reply) => {
    storage.setItem('chat', chat);
    running = reply;
    for await (const part of reply) show(part.text);
    storage.removeItem('chat');
  };
  const interrupted = storage.getItem('chat');
  return {
    ask(question) {
      const chat = randomUUID();
      return read(chat, session.stream(question, { metadata: { chat } }));
    },
    stop: () => running.cancel(),
    resume: interrupted === null ? undefined : () => read(interrupted, session.follow(interrupted)),
  };
}
