import { setTimeout as pause } from 'node:timers/promises';
import type { Session } from '@parlance/client';
import { afterEach, describe, expect, it } from 'vitest';
import WebSocket from 'ws';
import { type AgentsBench, serveAgents } from './agents.js';

/** How much a server holds for an agent that does not read. */

let bench: AgentsBench | undefined;
afterEach(async () => {
  await bench?.[Symbol.asyncDispose]();
  bench = undefined;
});

const KIB = 1024;
const LIMITS = {
  messagesPerMinute: Infinity,
  bytesPerSecond: Infinity,
  maxMessageSize: 1024 * KIB,
  sessionWindow: 1024 * KIB,
  streamWindow: 256 * KIB,
};
/** The most that a session may have sent and the receiver not consumed: its window and two messages. */
const BOUND = LIMITS.sessionWindow + 2 * LIMITS.maxMessageSize;

async function serve() {
  bench = await serveAgents({ limits: LIMITS });
  const { agent, server } = bench;
  const sockets: WebSocket[] = [];
  class KeptWebSocket extends WebSocket {
    constructor(url: string, protocols: string[]) {
      super(url, protocols);
      sockets.push(this);
    }
  }
  const asker = await agent('asker', { WebSocket: KeptWebSocket });
  const atServer = (name: string) => {
    const session = [...server.sessions.values()].find(({ agentId }) => agentId === name);
    if (session === undefined) throw new Error(`unknown agent: ${name}`);
    return session;
  };
  return {
    asker,
    agent,
    stall: () => {
      for (const socket of sockets) socket.pause();
    },
    readOn: () => {
      for (const socket of sockets) socket.resume();
    },
    /** The stable maximum of what waits for `name`. */
    async waitingFor(name: string): Promise<number> {
      let most = 0;
      for (let same = 0, last = -1; same < 10; ) {
        const { queuedBytes } = atServer(name).stats();
        most = Math.max(most, queuedBytes);
        same = queuedBytes === last ? same + 1 : 0;
        last = queuedBytes;
        await pause(20);
      }
      return most;
    },
  };
}

describe('replies to a requester that has stopped reading', () => {
  const REPLIES = 40;
  const replyOf = (number: number, size: number) => new Uint8Array(size).fill(number);

  it.each([
    ['whole', 512 * KIB],
    ['in parts that end at once', 128 * KIB],
  ])('are held within the windows, %s, and all arrive when it continues reading', async (how, size) => {
    const { asker, agent, stall, readOn, waitingFor } = await serve();
    let answered = 0;
    await agent('worker', {
      algorithms: ['NONE'],
      async *onRequest(request) {
        const number = Number(request.text);
        for (let at = 0; at < 4; at++) yield { bytes: replyOf(number, size / 4) };
        answered++;
      },
    });
    await agent('single', {
      algorithms: ['NONE'],
      onRequest: (request) => {
        answered++;
        return { bytes: replyOf(Number(request.text), size) };
      },
    });
    const to = how === 'whole' ? 'single' : 'worker';
    // Asked before it stalls, so that the answers arrive while it is stalled.
    const replies = Array.from({ length: REPLIES }, (_, i) => asker.request(String(i), { to }));
    stall();
    await expect.poll(() => answered).toBeGreaterThan(0);
    expect(await waitingFor('asker')).toBeLessThanOrEqual(BOUND);
    readOn();
    const got = await Promise.all(replies);
    expect(got.map(({ bytes }, i) => Buffer.compare(bytes, replyOf(i, size)))).toEqual(
      new Array(REPLIES).fill(0),
    );
  });

  it('do not count any more when it has left, or cancelled them', async () => {
    const { asker, agent, stall, readOn } = await serve();
    const size = 512 * KIB;
    let answered = 0;
    await agent('worker', {
      algorithms: ['NONE'],
      onRequest: () => {
        answered++;
        return { bytes: new Uint8Array(size) };
      },
    });
    // Twice, with more of them than the target may have unread.
    for (const leaver of [asker, asker]) {
      const controller = new AbortController();
      const given = Array.from({ length: 8 }, () =>
        leaver.request('x', { to: 'worker', signal: controller.signal }).catch(() => {}),
      );
      await expect.poll(() => answered).toBeGreaterThan(0);
      controller.abort();
      await Promise.all(given);
    }
    stall();
    const lost = Array.from({ length: 8 }, () => asker.request('x', { to: 'worker' }).catch(() => {}));
    await pause(100);
    const other: Session = await agent('other');
    await agent('asker');
    readOn();
    await Promise.all(lost);
    // The target has its credit back: replies that need all of it arrive one after the other.
    for (let i = 0; i < 8; i++) {
      const { bytes } = await other.request('x', { to: 'worker' });
      expect(bytes.length).toBe(size);
    }
  });
});
