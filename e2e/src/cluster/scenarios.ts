import { setTimeout as delay } from 'node:timers/promises';
import { RequestError } from '@parlance/protocol';
import type { RequestHandler } from '@parlance/server';

/** The node's handlers of requests whose metadata name a scenario. */

type Handler = (
  request: Parameters<RequestHandler>[0],
  context: Parameters<RequestHandler>[1],
) => AsyncIterable<string>;

/** How often handlers were aborted, and how often they have finished. */
export const handlers = { aborted: 0, finished: 0 };

export const scenarios: Readonly<Record<string, Handler>> = {
  /** Fails after some parts. */
  async *fail() {
    yield 'one part';
    throw new RequestError('no_such_model', 'not here', { data: { tried: 2 } });
  },
  /** Continues until the requester cancels. */
  async *endless(_request, { signal }) {
    signal.addEventListener('abort', () => handlers.aborted++);
    for (let i = 0; !signal.aborted; i++) {
      yield `${i} `;
      await delay(2);
    }
  },
  /** Asks the client back, and says what it answered. */
  async *askBack(request, { session }) {
    for (let i = 0; i < 10; i++) {
      const answer = await session.request(`${request.text} ${i}`);
      yield `${answer.text};`;
    }
  },
  /** Finishes although the session ends meanwhile. */
  async *complete(_request, { runToCompletion }) {
    runToCompletion();
    yield 'begun';
    await delay(300);
    handlers.finished++;
  },
  /** States in metadata what it has understood. */
  async *describe(request, { metadata, setMetadata, session }) {
    setMetadata({
      length: request.text.length,
      tag: metadata['tag'] ?? '',
      principal: session.principal ?? '',
    });
    yield request.text.slice(0, 5);
  },
};
