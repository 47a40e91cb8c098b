import { type ClientSession, connect } from '@parlance/client';
import WebSocket from 'ws';
import { answer, count } from './behaviours.js';

/** Parlance's client as a peer under test: begins one session after the other until the signal aborts. */
export async function visit(url: string, signal: AbortSignal): Promise<void> {
  let session: ClientSession | undefined;
  signal.addEventListener('abort', () => void session?.close());
  while (!signal.aborted) {
    try {
      session = await connect(url, {
        WebSocket,
        onRequest: answer,
        onError: () => {},
        reconnect: { minDelayMs: 1, maxDelayMs: 20 },
        signal,
      });
      void count(session).catch(() => {});
      await session.closed;
    } catch {
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }
}
