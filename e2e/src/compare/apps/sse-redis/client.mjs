import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { EventSourceParserStream } from 'eventsource-parser/stream';

const RECONNECT_MS = 1_000;
const final = (message) => Object.assign(new Error(message), { isFinal: true });

export async function open({ server, storage, show, clear }) {
  const isNew = storage.getItem('chat') === null;
  const chat = storage.getItem('chat') ?? randomUUID();
  storage.setItem('chat', chat);
  const url = `${server}/${chat}`;

  /** @returns whether the answer has ended. */
  async function read(response) {
    const events = response.body
      .pipeThrough(new TextDecoderStream())
      .pipeThrough(new EventSourceParserStream());
    for await (const { data } of events) {
      const { word, done, error } = JSON.parse(data);
      if (word !== undefined) show(word);
      if (error !== undefined) throw final(error);
      if (done) return true;
    }
    return false;
  }
  async function showStored() {
    const words = await (await fetch(url)).json();
    if (words === null) throw final('there is no answer');
    clear();
    for (const word of words) show(word);
  }
  /** The whole answer is sent again. */
  async function resume() {
    for (;;) {
      try {
        const response = await fetch(`${url}/stream`);
        if (response.status === 204) return await showStored();
        if (!response.ok) throw final(`status ${response.status}`);
        clear();
        if (await read(response)) return;
      } catch (error) {
        if (error.isFinal) throw error;
        await pause(RECONNECT_MS);
      }
    }
  }
  return {
    async ask(question) {
      try {
        if (await read(await fetch(url, { method: 'POST', body: JSON.stringify({ question }) }))) return;
      } catch (error) {
        if (error.isFinal) throw error;
      }
      await pause(RECONNECT_MS);
      await resume();
    },
    stop: () => fetch(`${url}/stop`, { method: 'POST' }),
    resume: isNew ? undefined : resume,
  };
}
