import { connect } from '@parlance/client';
import WebSocket from 'ws';
import type { Child } from '../../../scripts/child-process.js';
import { collectParagraphs } from '../codecs/prose.js';
import { compare, type Row } from '../row.js';
import type { FarCommands } from './server.js';

/** Server memory of a session whose context has as much as is kept as it is: the messages of its client. */

const MESSAGES = 8;
const BUDGET = 1024 * 1024;
/**
 * In addition to the messages: the objects that hold them, and garbage that is never completely collected.
 */
const MAX_RATIO = 1.05;
const SUBPROTOCOL = 'm2m.v1';

export async function* fullContexts(far: Child<FarCommands>, count: number): AsyncGenerator<Row> {
  const port = await far.call('port', 'session');
  const url = `ws://127.0.0.1:${port}/session`;
  const frames = await recordFrames(url);
  const sockets: WebSocket[] = [];
  // The sessions of other rows, and the recorded one, have gone when nothing is kept.
  while ((await far.call('kept')) > 0) await pause();
  for (let i = 0; i < count; i++) sockets.push(await openSession(url, frames[0] as Uint8Array));
  const before = await far.call('memory');
  for (const socket of sockets) for (const frame of frames.slice(1)) socket.send(frame);
  while ((await far.call('kept')) < count * BUDGET) await pause();
  const value = ((await far.call('memory')) - before) / count / 1024;
  for (const socket of sockets) socket.terminate();
  yield compare(
    `server memory of 1 MiB in context, ${count} sessions`,
    'KiB',
    'lower',
    value,
    { name: 'messages', value: BUDGET / 1024 },
    (ratio) => ({ text: `<= ${MAX_RATIO}`, met: ratio <= MAX_RATIO }),
  );
}

const pause = () => new Promise((resolve) => setTimeout(resolve, 100));

/**
 * Records the frames of a client that sends so much, from HELLO on: they are the same for every session.
 */
async function recordFrames(url: string): Promise<Uint8Array[]> {
  const frames: Uint8Array[] = [];
  class Recorded extends WebSocket {
    override send(data: Parameters<WebSocket['send']>[0]): void {
      frames.push(Uint8Array.from(data as Uint8Array));
      super.send(data);
    }
  }
  const session = await connect(url, { WebSocket: Recorded, reconnect: false });
  const paragraphs = collectParagraphs();
  for (let i = 0; i < MESSAGES; i++) {
    const text = (paragraphs[i] as string).replaceAll(/[^\x20-\x7e]/g, '?').repeat(2000);
    await session.send(text.slice(0, BUDGET / MESSAGES), { algorithm: 'CONTEXT' });
  }
  await session.flush();
  const link = frames.filter((frame, i) => i === 0 || (frame[0] as number) === 0x10);
  await session.close();
  return link;
}

async function openSession(url: string, hello: Uint8Array): Promise<WebSocket> {
  const socket = new WebSocket(url, [SUBPROTOCOL]);
  await new Promise((resolve, reject) => socket.once('open', resolve).once('error', reject));
  const accepted = new Promise((resolve) => socket.once('message', resolve));
  socket.send(hello);
  await accepted;
  return socket;
}
