import { setTimeout as delay } from 'node:timers/promises';
import { connect, type Session } from '@parlance/client';
import WebSocket from 'ws';
import { offer } from '../../../scripts/child-process.js';
import { KEY, NEIGHBOUR } from './wire.js';

/**
 * An innocent client, in a process of its own, so that it waits for the server and not for the attacker: four
 * sessions of another principal and address that request an echo at times fixed in advance. A missing answer
 * counts with the full time that the neighbour waited.
 */

const SESSIONS = 4;
/** Below 1,000 messages per minute and session. */
const INTERVAL_MS = 70;
/** A request that takes longer counts as unanswered. */
const PATIENCE_MS = 20_000;
const TEXT = 'Why is the sky blue, and why is it red in the evening? '.repeat(18);

const sockets = new Set<WebSocket>();
class FromItsOwnAddress extends WebSocket {
  constructor(url: string, protocols: string[]) {
    super(url, protocols, { localAddress: '127.0.0.9' });
    sockets.add(this);
    this.once('close', () => sockets.delete(this));
  }
}

let sessions: Session[] = [];

export interface Where {
  readonly url: string;
  /** The server demands protection, and the neighbour has its key. */
  readonly isProtected: boolean;
}

const open = ({ url, isProtected }: Where) =>
  connect(url, {
    token: NEIGHBOUR,
    WebSocket: FromItsOwnAddress as never,
    extensions: { context: false, agents: false },
    ...(isProtected && { algorithms: ['M2M'], security: { mode: 'HMAC', key: KEY } }),
  });

async function echo(session: Session, withinMs: number, text = TEXT): Promise<number> {
  const start = performance.now();
  const reply = await session.request(text, { timeoutMs: withinMs });
  if (reply.text !== text) throw new Error('the echo differs from what was sent');
  return performance.now() - start;
}

const commands = {
  async connect(where: Where): Promise<void> {
    commands.close();
    sessions = await Promise.all(Array.from({ length: SESSIONS }, () => open(where)));
    // The first requests of a session load code; they are not measured.
    await Promise.all(sessions.map((session) => echo(session, 10_000)));
  },

  /**
   * @returns milliseconds that each echo took, including those without an answer, and the number of the
   * latter.
   */
  async ask({ forMs }: { forMs: number }): Promise<{ taken: number[]; unanswered: number }> {
    const taken: number[] = [];
    let unanswered = 0;
    const start = performance.now();
    const asked: Promise<void>[] = [];
    for (let i = 0; ; i++) {
      const at = (i * INTERVAL_MS) / SESSIONS;
      if (at >= forMs) break;
      const late = start + at - performance.now();
      if (late > 1) await delay(late);
      const session = sessions[i % SESSIONS] as Session;
      const since = performance.now();
      asked.push(
        echo(session, PATIENCE_MS).then(
          (ms) => void taken.push(ms),
          () => {
            unanswered++;
            taken.push(performance.now() - since);
          },
        ),
      );
    }
    await Promise.all(asked);
    return { taken, unanswered };
  },

  /** One echo after the attack. @returns milliseconds. */
  alive: ({ withinMs }: { withinMs: number }) => echo(sessions[0] as Session, withinMs),

  /** A new client. @returns milliseconds from connecting to the echo of `bytes`. */
  async newcomer({
    url,
    bytes,
    withinMs,
  }: {
    url: string;
    bytes: number;
    withinMs: number;
  }): Promise<number> {
    const start = performance.now();
    await using session = await open({ url, isProtected: false });
    await echo(session, withinMs, TEXT.repeat(Math.ceil(bytes / TEXT.length)).slice(0, bytes));
    return performance.now() - start;
  },

  /** Closes without waiting, because the server may be gone. */
  close(): void {
    for (const socket of sockets) socket.terminate();
    for (const session of sessions) void session.close();
    sessions = [];
  },
};
export type NeighbourCommands = typeof commands;

offer(commands);
