import { setTimeout as sleep } from 'node:timers/promises';
import { type ClientSession, connect } from '@parlance/client';
import { isProtocolError } from '@parlance/protocol';
import WebSocket from 'ws';
import { offer } from '../../../scripts/child-process.js';
import { DURABLE, type Wish } from './wish.js';

/** Clients that read one reply after the other, of all kinds and all nodes in one process. */

export type ReplyKind = 'plain' | 'durable' | 'kept';

/** A reply is over soon enough for its record to stay small. */
const PARTS = 100;

const now = () => performance.timeOrigin + performance.now();
const groups = new Map<string, ClientSession[]>();
let reading: readonly Promise<void>[] = [];
const delays: number[] = [];
let isStopped = true;

async function read(session: ClientSession, wish: Wish): Promise<void> {
  while (!isStopped) {
    for await (const { text } of session.stream(wish)) {
      delays.push(now() - Number(text));
      if (isStopped) break;
    }
  }
}

const commands = {
  async open({ port, token, count }: { port: number; token: string; count: number }): Promise<void> {
    const limits = { messagesPerMinute: Infinity };
    const url = `ws://127.0.0.1:${port}/session`;
    // Each is a user.
    const open = (i: number) => connect(url, { WebSocket, token: `${token}${i}`, limits });
    const opened = Array.from({ length: count }, async (_, i) => {
      for (;;)
        try {
          return await open(i);
        } catch (error) {
          // The engine is checked before a session is recorded there.
          if (!isProtocolError(error) || error.code !== 'rejected') throw error;
          await sleep(50);
        }
    });
    const sessions = await Promise.all(opened);
    groups.set(`${port} ${token}`, sessions);
  },
  start({ port, kind, paceMs }: { port: number; kind: ReplyKind; paceMs: number }): void {
    const sessions = groups.get(`${port} ${kind === 'durable' ? DURABLE : 'plain'}`) ?? [];
    const wish: Wish = { parts: PARTS, paceMs, isKept: kind === 'kept' };
    isStopped = false;
    reading = sessions.map((session) => read(session, wish));
  },
  async stop(): Promise<void> {
    isStopped = true;
    await Promise.all(reading);
  },
  /** Delays of parts since the last call, in milliseconds. */
  delays(): readonly number[] {
    return delays.splice(0);
  },
};
export type EngineLoadCommands = typeof commands;

offer(commands);
