import type { AddressInfo } from 'node:net';
import { createServer, without } from '@parlance/server';
import { WebSocketServer } from 'ws';
import { offer } from '../../../scripts/child-process.js';
import { UNLIMITED } from '../unlimited.js';
import { CHUNK } from './work.js';

/**
 * A server in a process of its own, which answers a request with itself, or with as many chunks as it asks for. `plain` is `ws` with four bytes
 * before each request, and the same four and a byte that says whether more follows before each answer.
 */

const ID_LENGTH = 4;
const chunk = Buffer.from(JSON.stringify(CHUNK));

interface Question {
  readonly chunks?: number;
}

async function servePlain(): Promise<string> {
  const server = new WebSocketServer({ port: 0, host: '127.0.0.1', perMessageDeflate: false });
  server.on('connection', (socket) => {
    socket.on('message', async (data: Buffer) => {
      const id = data.subarray(0, ID_LENGTH);
      const { chunks, ...question } = JSON.parse(data.toString('utf8', ID_LENGTH)) as Question;
      const reply = (body: Uint8Array, isLast: boolean) =>
        socket.send(Buffer.concat([id, Uint8Array.of(isLast ? 1 : 0), body]));
      if (chunks === undefined) return reply(Buffer.from(JSON.stringify(question)), true);
      for await (const body of chunksOf(chunks)) reply(body, false);
      reply(new Uint8Array(), true);
    });
  });
  await new Promise((resolve) => server.once('listening', resolve));
  return `ws://127.0.0.1:${(server.address() as AddressInfo).port}/`;
}

/** @param hasCodecs the usual ones, in place of NONE. */
async function serveSessions(hasCodecs: boolean): Promise<string> {
  const plain = { algorithms: ['NONE'], encodings: [], features: [without('context')] } as const;
  const server = createServer({
    ...(!hasCodecs && plain),
    limits: UNLIMITED,
    onRequest(request) {
      const { chunks, ...question } = request.json<Question>();
      return chunks === undefined ? { text: JSON.stringify(question) } : textsOf(chunks);
    },
  });
  const { url } = await server.listen();
  return url;
}

async function* chunksOf(count: number): AsyncGenerator<Uint8Array> {
  for (let i = 0; i < count; i++) yield chunk;
}

async function* textsOf(count: number): AsyncGenerator<string> {
  for (let i = 0; i < count; i++) yield JSON.stringify(CHUNK);
}

const kind = process.argv[2];
const url = await (kind === 'plain' ? servePlain() : serveSessions(kind === 'codecs'));
const commands = { url: () => url };
export type ServerCommands = typeof commands;

offer(commands);
