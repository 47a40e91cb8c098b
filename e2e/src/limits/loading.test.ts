import type { Session } from '@parlance/client';
import { FrameKind, frameKind } from '@parlance/protocol';
import { afterEach, describe, expect, it } from 'vitest';
import WebSocket from 'ws';
import { createPeers, failure } from '../kit/peers.js';

/** Connections that are lost between ACCEPT and the moment when the client has loaded its codecs. */

const peers = createPeers();
afterEach(() => peers[Symbol.asyncDispose]());

type Listener = (event: never) => void;
type OnClose = (event: { code: number; reason: string }) => void;

/** A WebSocket whose first `losses` connections are lost right after ACCEPT, before anything loads. */
function losing(losses: number) {
  const opened: WebSocket[] = [];
  class LosingWebSocket extends WebSocket {
    #isOver = false;
    #closed: OnClose = () => {};

    constructor(url: string, protocols: string[]) {
      super(url, protocols);
      opened.push(this);
    }

    override addEventListener(type: string, given: Listener | object): void {
      const listener = given as Listener;
      if (type === 'close') {
        this.#closed = listener as OnClose;
        super.addEventListener('close', (event) => this.#close(event));
      } else if (type === 'message') {
        const isLost = opened.length <= losses;
        super.addEventListener('message', (event) => {
          if (this.#isOver) return;
          listener(event as never);
          if (!isLost || frameKind(new Uint8Array(event.data as ArrayBuffer)) !== FrameKind.CONTROL) return;
          // Reported at once; a real socket would take time.
          this.#close({ code: 1006, reason: '' });
          this.terminate();
        });
      } else super.addEventListener(type as 'open', listener as () => void);
    }

    #close(event: { code: number; reason: string }): void {
      if (!this.#isOver) this.#closed(event);
      this.#isOver = true;
    }
  }
  return { LosingWebSocket, opened };
}

const RECONNECT = { reconnect: { minDelayMs: 1, maxDelayMs: 5 } };

describe('a connection that is lost while the client loads', () => {
  it.each([
    ['is replaced, and the session continues', {}, 1],
    ['is replaced by another session without resume', { extensions: { resume: false } }, 1],
    ['is replaced as often as it takes', {}, 3],
  ])('%s', async (_what, options, losses) => {
    const told: Session[] = [];
    const { url, server } = await peers.serve({
      onRequest: (request) => request.text,
      onSession: (session) => void told.push(session),
    });
    const { LosingWebSocket, opened } = losing(losses);
    const session = await peers.dial(url, { WebSocket: LosingWebSocket, ...RECONNECT, ...options });
    expect((await session.request('still there?')).text).toBe('still there?');
    expect(opened).toHaveLength(losses + 1);
    expect(server.sessions.has(session.id)).toBe(true);
  });

  it('delivers its messages again, so that each is read exactly once', async () => {
    const { url } = await peers.serve({
      async onSession(session) {
        for (const text of ['one', 'two', 'three']) await session.send(text);
      },
    });
    const { LosingWebSocket } = losing(1);
    const session = await peers.dial(url, { WebSocket: LosingWebSocket, ...RECONNECT });
    const read: string[] = [];
    for await (const message of session) if (read.push(message.text) === 3) break;
    expect(read).toEqual(['one', 'two', 'three']);
  });

  it('ends the attempt if the client does not reconnect', async () => {
    const { url } = await peers.serve();
    const { LosingWebSocket } = losing(1);
    const lost = await failure(peers.dial(url, { WebSocket: LosingWebSocket, reconnect: false }));
    expect(lost.code).toBe('session_lost');
  });
});
