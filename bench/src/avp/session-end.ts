import { connect, type Session } from '@parlance/client';
import { createServer, tensors, without } from '@parlance/server';
import WebSocket from 'ws';
import type { End, TransferSystem } from './ends.js';
import { generate } from './generated.js';

/** Options of both ends. */
export const OPTIONS = {
  algorithms: ['NONE'],
  encodings: [],
  limits: { messagesPerMinute: Infinity, bytesPerSecond: Infinity },
} as const;

/** Options of a client. */
export const CLIENT_OPTIONS = { ...OPTIONS, transfers: 'stream', extensions: { context: false } } as const;

/** Tensors over a session, generated at one end and read while they arrive at the other. */
export const system: TransferSystem = {
  async serve(onEnd) {
    const server = createServer({
      ...OPTIONS,
      features: [tensors({ transfers: 'stream' }), without('context')],
      onRequest: (request) => request.text,
      async onSession(session) {
        onEnd(endOf(session));
        await readAll(session);
      },
    });
    const { port } = await server.listen();
    return { port, close: () => server.close() };
  },

  async connect(port) {
    const session = await connect(`ws://127.0.0.1:${port}/session`, {
      ...CLIENT_OPTIONS,
      WebSocket,
      onRequest: (request) => request.text,
    });
    void readAll(session);
    return endOf(session);
  },
};

/** @param to the receiving agent. */
export function endOf(session: Session, to?: string): End {
  return {
    get sentBytes() {
      return session.stats().sent.wireBytes;
    },
    send: (bytes) =>
      session.sendTensor(
        { data: generate(bytes), shape: [bytes / 4], dtype: 'float32', payloadType: 'hidden_state' },
        { to },
      ),
    async ping() {
      await session.request('ping');
    },
    async close() {
      await session.close();
    },
  };
}

/** Reads every tensor. The session itself verifies them; an error ends the process. */
export async function readAll(session: Session): Promise<void> {
  for await (const { tensor } of session) {
    if (tensor?.chunks === undefined) throw new Error('the message is not a streamed tensor');
    let length = 0;
    for await (const chunk of tensor.chunks) length += chunk.length;
    if (length !== tensor.byteLength) throw new Error(`${length} bytes arrived`);
  }
}
