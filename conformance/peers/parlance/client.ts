import { type ClientSession, connect } from '@parlance/client';
import WebSocket from 'ws';
import { answering, count } from './behaviours.js';

/** Parlance's client as a peer under test: begins one session after the other until the signal aborts. */
export async function visit(url: string, signal: AbortSignal, isOverHttp = false): Promise<void> {
  let session: ClientSession | undefined;
  const entries = new Map<string, string>();
  const store = {
    getItem: (key: string) => entries.get(key) ?? null,
    setItem: (key: string, value: string) => void entries.set(key, value),
    removeItem: (key: string) => void entries.delete(key),
  };
  const reload = () => void session?.detach();
  signal.addEventListener('abort', () => void session?.close());
  while (!signal.aborted) {
    try {
      session = await connect(url, {
        WebSocket,
        token: () => 'subject',
        agent: { id: 'subject' },
        store,
        onRequest: answering({ reload, ...(isOverHttp && { http: true }) }),
        transports: [isOverHttp ? 'http' : 'websocket'],
        onError: () => {},
        reconnect: { minDelayMs: 1, maxDelayMs: 20, connectWithinMs: 3_600_000 },
        signal,
      });
      void count(session).catch(() => {});
      await session.closed;
    } catch {
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }
}
