import { createServer, type ServerSession } from '@parlance/server';
import { engineAt } from '../../kit/engine-at.js';
import { NodeProcess, type NodeSetup } from './node-process.js';
import { answers, type Plant, planted } from './plant.js';

/** One node in a process of its own, with an application whose every message and part is numbered. */

export interface UpstreamNodeSetup extends NodeSetup {
  /** Port of the upstream. */
  readonly upstream: number;
  /** A fault that the ledger must find. */
  readonly plant: Plant | undefined;
}

/** A request of a user: as many numbered parts as it asks for. */
export interface Question {
  readonly id: string;
  readonly parts: number;
  readonly paceMs: number;
}

const node = new NodeProcess<UpstreamNodeSetup>();
const { setup } = node;
const { plant } = setup;
const stopping = new AbortController();
const engine = engineAt(setup.engine);

const server = createServer({
  ...node.options(),
  engine,
  onSession: echo,
  async *onRequest(request, { signal }) {
    const question = request.json<Question>();
    if (plant === 'again') await (await ask(question, signal)).text();
    const until = plant === 'abort' ? AbortSignal.any([signal, stopping.signal]) : signal;
    const response = await ask(question, until);
    yield* answers(linesOf(response.body as AsyncIterable<Uint8Array>, until), plant);
  },
});

async function ask({ id, parts, paceMs }: Question, signal: AbortSignal): Promise<Response> {
  const query = new URLSearchParams({
    id,
    parts: String(parts),
    paceMs: String(paceMs),
    node: String(process.pid),
  });
  return await fetch(`http://127.0.0.1:${setup.upstream}/?${query}`, { signal });
}

/** Ends without an error when the handler is to stop. */
async function* linesOf(body: AsyncIterable<Uint8Array>, until: AbortSignal): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let rest = '';
  try {
    for await (const chunk of body) {
      const lines = (rest + decoder.decode(chunk, { stream: true })).split('\n');
      rest = lines.pop() ?? '';
      yield* lines;
    }
  } catch (error) {
    if (!until.aborted) throw error;
  }
}

/** Sends numbers back, each with how many there were so far, at whichever node. */
async function echo(session: ServerSession): Promise<void> {
  let count = Number(session.data ?? 0);
  for await (const { text } of session) {
    count++;
    if (plant !== 'forget') session.data = count;
    if (plant === 'mute' && planted()) continue;
    await session.send(`${text} ${count}`);
  }
}

await node.serve(server, async () => {
  stopping.abort();
  if (plant === 'engine') {
    const link = engine.connect();
    for (let i = 0; i < 20 * server.sessions.size; i++) await link.find('absent').catch(() => {});
    await link.close();
  }
  if (plant !== 'close')
    await server.drain({ timeoutMs: setup.drainMs, returnWithinMs: setup.returnWithinMs });
});
