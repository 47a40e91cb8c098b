import { randomBytes } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { connect } from '@parlance/client';
import WebSocket from 'ws';
import { MIB } from './bombs.js';

/**
 * A well-behaved client, which is the baseline of the bounds of time: it is measured in the same run, so that a bound says
 * the same on a slow machine and on a fast one.
 */

/** Echoes in a second, of a MiB each: within all limits. */
const PER_SECOND = 8;

class FromItsOwnAddress extends WebSocket {
  constructor(url: string, protocols: string[]) {
    super(url, protocols, { localAddress: '127.0.0.8' });
  }
}

/** Has texts of a MiB echoed, one after the other. @param isOver asked before each with the number of those before. */
export async function echoFairly(url: string, isOver: (echoes: number) => boolean): Promise<void> {
  const text = randomBytes(MIB).toString('base64').slice(0, MIB);
  await using session = await connect(url, {
    token: 'echo.fair',
    WebSocket: FromItsOwnAddress as never,
    extensions: { context: false, agents: false },
  });
  const start = performance.now();
  for (let echoes = 1; !isOver(echoes - 1); echoes++) {
    const reply = await session.request(text, { timeoutMs: 20_000 });
    if (reply.text !== text) throw new Error('the echo differs from what was sent');
    await delay(Math.max(0, start + (echoes * 1_000) / PER_SECOND - performance.now()));
  }
}
