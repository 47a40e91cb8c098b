import { setTimeout as delay } from 'node:timers/promises';
import { LinkKind } from '@parlance/protocol';
import type { Attack } from './attack.js';
import { blanks, brotliOf, MIB, repetitive } from './bombs.js';
import { BOUNDS } from './bounds.js';
import type { Scene } from './scene.js';
import { control, LINK, msgpack, type Peer, signalFrame } from './wire.js';

/** Attacks that make the server hold data for a peer that does not read, or does not come back. */

const TINY_WINDOWS = {
  extensions: {
    link: JSON.stringify({ max_streams: 128, message_window: 1, stream_window: 1 }),
    resume: '{}',
  },
};

/** Requests with many reply parts that are never read. */
const unreadParts =
  (as: string, streams: number) =>
  async (scene: Scene): Promise<undefined> => {
    const peer = await scene.open({ as, offer: TINY_WINDOWS });
    for (let i = 0; i < streams; i++) {
      scene.floors++;
      peer.request('x');
    }
    return undefined;
  };

/** One-byte messages that are never read, each of which may pin the 60 KB that arrived around it. */
async function pinned(scene: Scene): Promise<undefined> {
  const peer = await scene.open({ as: 'unread' });
  const filler = control('PING', { x: 'y'.repeat(19_000) });
  await scene.flood((i) => {
    if (i % 4 === 3) {
      scene.floors++;
      peer.message('x');
    } else peer.send(filler);
    return peer;
  }, 500);
  return undefined;
}

/** Replies that stay in the socket because the attacker does not read from it. */
async function stalled(scene: Scene): Promise<undefined> {
  const peer = await scene.open();
  peer.stall();
  const body = Buffer.alloc(16_000, 'a word and a word ');
  await scene.flood((i) => {
    if (i >= 1_800) return undefined;
    scene.floors++;
    peer.request(body);
    return peer;
  }, 150);
  return undefined;
}

async function metadataThatWaits(scene: Scene): Promise<undefined> {
  const peers = await scene.openMany(100, { as: 'wait' });
  const meta = msgpack(Object.fromEntries(Array.from({ length: 500 }, (_, i) => [i.toString(36), ''])));
  for (const peer of peers) {
    for (let i = 0; i < 128 && peer.isOpen; i++) {
      scene.floors++;
      peer.request('x', { meta });
    }
  }
  return undefined;
}

/** Requests that are cancelled while their handlers still hold the content. */
async function takenBack(scene: Scene): Promise<undefined> {
  const peer = await scene.open({ as: 'stubborn' });
  // Within the ratio of honest text.
  const { body, parts } = repetitive(MIB);
  await scene.flood((i) => {
    if (i >= 1_900) return undefined;
    scene.floors++;
    const stream = peer.request(body, parts);
    peer.send(signalFrame(LinkKind.CANCEL, stream));
    return peer;
  }, 400);
  return undefined;
}

/** One session after the other, filled and cut. */
async function suspended(scene: Scene): Promise<undefined> {
  const count = scene.isShort ? 6 : 90;
  const bomb = brotliOf(MIB);
  for (let i = 0; i < count && !scene.isOver; i++) {
    const peer = await scene.open({ as: 'hold', offer: { extensions: { link: LINK, resume: '{}' } } });
    scene.ask(peer, bomb);
    await delay(30);
    peer.cut();
  }
  return undefined;
}

/** Messages without their last bytes, so the application never gets them. */
const unfinished =
  (isKnown: boolean, connections: number) =>
  async (scene: Scene): Promise<undefined> => {
    const peers = isKnown
      ? await scene.openMany(connections)
      : Array.from({ length: connections }, () => scene.connect());
    await Promise.all(
      peers.map(async (peer) => {
        // The peers write in parallel, so that all messages begin before any is done.
        if (!(await peer.opened())) return;
        const piece = Buffer.alloc(MIB, 'y');
        for (let i = 0; i < 15 && peer.isOpen && !scene.isOver; i++) {
          peer.fragment(piece);
          while (peer.socket.bufferedAmount > MIB && peer.isOpen && !scene.isOver) await delay(10);
        }
      }),
    );
    return undefined;
  };

/** Many principals fill the server at the same time; then a new client comes, which must be served. */
async function fullServer(scene: Scene): Promise<readonly string[]> {
  const principals = 16;
  const peers: Peer[] = [];
  for (let principal = 0; principal < principals && !scene.isOver; principal++) {
    peers.push(...(await scene.openMany(8, { as: 'hold', principal })));
  }
  const bombs = [blanks(), brotliOf(4 * MIB), brotliOf(60_000)];
  const plain = Buffer.alloc(16_000, 'kept as it is ');
  for (const bomb of bombs) for (const peer of peers) scene.ask(peer, bomb, 16);
  for (const peer of peers) scene.ask(peer, { body: plain, parts: {} }, 40);
  await delay(scene.isShort ? 300 : 1_500);
  const taken = await scene.neighbour
    .callWithin(30_000, 'newcomer', { url: scene.url, bytes: MIB, withinMs: 10_000 })
    .catch((error: Error) => error.message);
  if (typeof taken === 'string') return [`a new client was not served: ${taken}`];
  const most = scene.isShort ? 10 * BOUNDS.newcomerMs : BOUNDS.newcomerMs;
  return taken > most ? [`a new client waited ${Math.round(taken)} ms for 1 MiB`] : [];
}

export const MEMORY: readonly Attack[] = [
  { category: 'memory', name: 'parts of one letter, unread', seconds: 5, run: unreadParts('letters', 128) },
  { category: 'memory', name: 'parts of 140 letters, unread', seconds: 5, run: unreadParts('words', 128) },
  { category: 'memory', name: 'parts of 64 KB, unread', seconds: 5, run: unreadParts('pages', 128) },
  { category: 'memory', name: 'replies that stay in the socket', run: stalled },
  { category: 'memory', name: 'a byte kept of each buffer', server: 'mailbox', run: pinned },
  {
    category: 'memory',
    name: 'unfinished messages of strangers',
    sessions: 100,
    run: unfinished(false, 400),
  },
  {
    category: 'memory',
    name: 'unfinished messages of 100 sessions',
    sessions: 100,
    run: unfinished(true, 100),
  },
  {
    category: 'memory',
    name: 'requests taken back, handlers continue',
    seconds: 6,
    prepare: () => repetitive(MIB),
    run: takenBack,
  },
  { category: 'memory', name: 'metadata that wait', sessions: 100, seconds: 8, run: metadataThatWaits },
  { category: 'memory', name: 'suspended sessions', sessions: 90, seconds: 8, run: suspended },
  {
    category: 'memory',
    name: '16 principals at once, and a newcomer',
    sessions: 128,
    principals: 16,
    prepare: blanks,
    boundsTime: false,
    seconds: 15,
    run: fullServer,
  },
];
