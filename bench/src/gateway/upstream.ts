import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { loadEncoding } from '@parlance/protocol';
import { offer } from '../../../scripts/child-process.js';
import { eventOf, eventsOf, piecesOf } from './events.js';
import { chatTurns } from './turns.js';

/**
 * Stands in for a model, in a process of its own: answers each request of the chat with the conversation's
 * answer, one event per token, and any other request with an endless stream.
 */

const [count, paceMs, file] = process.argv.slice(2) as [string, string, string | undefined];
const encoding = await loadEncoding('O200K_BASE');
const answers = new Map(
  chatTurns(Number(count), file).map(({ request, answer }) => [
    request,
    eventsOf(piecesOf(answer, encoding)),
  ]),
);
const closed = new Map<string, Deferred>();

const server = createServer(async (request, response) => {
  let body = '';
  for await (const chunk of request) body += chunk;
  response.writeHead(200, { 'content-type': 'text/event-stream', 'x-request-id': 'req_bench' });
  const answer = answers.get(body);
  if (answer !== undefined) return void speak(response, answer);
  const { tag } = JSON.parse(body) as { tag: string };
  response.on('close', () => closedBy(tag).resolve(monotonicMs()));
  response.write(eventOf({ content: 'endless' }));
});
await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));

const commands = {
  url: () => `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
  /**
   * The time on the monotonic clock at which the client closed the exchange with this tag, in milliseconds.
   */
  closedAt: (tag: string) => closedBy(tag).promise,
};
export type UpstreamCommands = typeof commands;

offer(commands);

async function speak(response: ServerResponse, events: readonly string[]): Promise<void> {
  for (const [i, event] of events.entries()) {
    // The pieces of the text take time; the events around them follow at once.
    if (i > 0 && i < events.length - 2) await pause();
    response.write(event);
  }
  response.end();
}

function pause(): Promise<void> {
  return new Promise((resolve) =>
    paceMs === '0' ? setImmediate(resolve) : setTimeout(resolve, Number(paceMs)),
  );
}

function monotonicMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}

interface Deferred {
  readonly promise: Promise<number>;
  resolve(value: number): void;
}

function closedBy(tag: string): Deferred {
  let entry = closed.get(tag);
  if (entry === undefined) {
    let resolve: (value: number) => void = () => {};
    const promise = new Promise<number>((settle) => {
      resolve = settle;
    });
    entry = { promise, resolve };
    closed.set(tag, entry);
  }
  return entry;
}
