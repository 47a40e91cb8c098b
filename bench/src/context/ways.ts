import { request as httpRequest } from 'node:http';
import { connect } from '@parlance/client';
import WebSocket from 'ws';

/** A way to carry a chat: each opens one connection and asks one question after the other. */
export interface Way {
  /**
   * @returns microseconds that the sender was busy with it, or 0 if the work does not run on its event loop.
   */
  ask(text: string): Promise<number>;
  close(): Promise<void>;
}

/**
 * Measures the time in its socket's `send`: the system call that wakes the receiver is not the sender's work.
 */
class TimedWebSocket extends WebSocket {
  static spent = 0;
  override send(data: Parameters<WebSocket['send']>[0]): void {
    const start = performance.now();
    super.send(data);
    TimedWebSocket.spent += performance.now() - start;
  }
}

export async function openSession(port: number, options: { readonly context: boolean }): Promise<Way> {
  const session = await connect(`ws://127.0.0.1:${port}/session`, {
    WebSocket: TimedWebSocket,
    extensions: { context: options.context },
  });
  const how = options.context ? {} : ({ algorithm: 'BROTLI' } as const);
  return {
    async ask(text) {
      TimedWebSocket.spent = 0;
      const start = performance.now();
      const stream = session.stream(text, how);
      const busy = (performance.now() - start - TimedWebSocket.spent) * 1000;
      for await (const part of stream) void part.text;
      return busy;
    },
    close: async () => void (await session.close()),
  };
}

/** @param answers number of messages that answer the next question. */
export async function openDeflate(port: number, answers: () => number): Promise<Way> {
  const socket = new WebSocket(`ws://127.0.0.1:${port}`, { perMessageDeflate: { threshold: 0 } });
  await new Promise((resolve, reject) => socket.once('open', resolve).once('error', reject));
  return {
    async ask(text) {
      let left = answers();
      const answered = new Promise<void>((resolve) => {
        const take = () => {
          if (--left > 0) return;
          socket.off('message', take);
          resolve();
        };
        socket.on('message', take);
      });
      socket.send(text);
      await answered;
      return 0;
    },
    async close() {
      const closed = new Promise((resolve) => socket.once('close', resolve));
      socket.close();
      await closed;
    },
  };
}

export async function askForEvents(port: number): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    const request = httpRequest({ port, host: '127.0.0.1', method: 'POST' }, (response) => {
      response.resume().on('end', resolve);
    });
    request.on('error', reject).end('stream');
  });
}
