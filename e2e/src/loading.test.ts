import type { Session } from '@parlance/client';
import { FrameKind, frameKind } from '@parlance/protocol';
import { afterEach, describe, expect, it } from 'vitest';
import WebSocket from 'ws';
import { createPeers, failure } from './peers.js';

/** Connections that are lost between ACCEPT and the moment when the client has loaded its codecs. */

const peers = createPeers();
afterEach(() => peers[Symbol.asyncDispose]());

type OnMessage = (event: { data: ArrayBuffer }) => void;
type OnClose = (event: { code: number; reason: string }) => void;

/** A WebSocket whose first `losses` connections are lost right after ACCEPT, before anything loads. */
function losing(losses: number) {
  const opened: WebSocket[] = [];
  class LosingWebSocket extends WebSocket {
    constructor(url: string, protocols: string[]) {
      super(url, protocols);
      opened.push(this);
      const isLost = opened.length <= losses;
      let closed: OnClose = () => {};
      let take: OnMessage = () => {};
      Object.defineProperty(this, 'onclose', {
        set(handler: OnClose) {
          closed = handler;
        },
      });
      Object.defineProperty(this, 'onmessage', {
        set(handler: OnMessage) {
          take = handler;
        },
      });
      let isOver = false;
      const close: OnClose = (event) => {
        if (!isOver) closed(event);
        isOver = true;
      };
      this.addEventListener('message', ({ data }) => {
        if (isOver) return;
        take({ data: data as ArrayBuffer });
        if (!isLost || frameKind(new Uint8Array(data as ArrayBuffer)) !== FrameKind.CONTROL) return;
        // Reported at once; a real socket would take time.
        close({ code: 1006, reason: '' });
        this.terminate();
      });
      this.addEventListener('close', ({ code, reason }) => close({ code, reason }));
    }
  }
  return { LosingWebSocket, opened };
}

const RECONNECT = { reconnect: { minDelayMs: 1, maxDelayMs: 5 } };

describe('a connection that is lost while the client loads', () => {
  it.each([
    ['is replaced, and the session goes on', {}, 1],
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
