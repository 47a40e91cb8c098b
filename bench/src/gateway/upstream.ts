import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { loadEncoding } from '@parlance/protocol';
import { offer } from '../../../scripts/child-process.js';
import { chatTurns } from './turns.js';

/**
 * Stands in for a model, in a process of its own: answers each request of the chat with the conversation's
 * answer, one event per token, and any other request with an endless stream.
 */

const [count, paceMs, file] = process.argv.slice(2) as [string, string, string | undefined];
const encoding = await loadEncoding('O200K_BASE');
const answers = new Map(
  chatTurns(Number(count), file).map(({ request, answer }) => [request, piecesOf(answer)]),
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

async function speak(response: ServerResponse, pieces: readonly string[]): Promise<void> {
  response.write(eventOf({ role: 'assistant', content: '', refusal: null }));
  for (const content of pieces) {
    await pause();
    response.write(eventOf({ content }));
  }
  response.write(eventOf({}, 'stop'));
  response.end('data: [DONE]\n\n');
}

/** In the form that the real API uses. */
function eventOf(delta: object, finish: string | null = null): string {
  const chunk = {
    id: 'chatcmpl-B9MBs8CjcvOU2jLn4n570S5qMJKcT',
    object: 'chat.completion.chunk',
    created: 1741569952,
    model: 'gpt-4o-2024-08-06',
    service_tier: 'default',
    system_fingerprint: 'fp_44709d6fcb',
    choices: [{ index: 0, delta, logprobs: null, finish_reason: finish }],
  };
  return `data: ${JSON.stringify(chunk)}\n\n`;
}

function piecesOf(text: string): string[] {
  const decoder = encoding.createDecoder();
  return [...encoding.encode(text)]
    .map((id) => decoder.push(Uint32Array.of(id)))
    .filter((piece) => piece !== '');
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
