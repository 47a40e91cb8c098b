import { setTimeout as delay } from 'node:timers/promises';
import { decodePeerMessage } from '../../../../packages/server/src/cluster/peer-message.js';
import { MIB } from '../bombs.js';
import type { Scene } from '../scene.js';
import { LINK, varint } from '../wire.js';
import { RogueNode, type RogueWire } from './rogue-node.js';

/** The owner of replies of a principal, as nodes name it. */
const ownerOf = (scene: Scene) => `principal:${scene.token('keep').replace('.', '%002e')}`;

/** The ID of a reply of 200 parts that the attacked node keeps. */
async function keptReply(scene: Scene, replies: RogueWire): Promise<string> {
  const client = await scene.open({
    as: 'keep',
    offer: { extensions: { link: LINK, resume: '{}', replies: '{}' } },
  });
  for (let i = 0; i < 40; i++) client.request('x');
  await delay(scene.isShort ? 60 : 500);
  replies.tell('list', [1, 1, ownerOf(scene)]);
  for (let i = 0; i < 100; i++) {
    for (const data of replies.received) {
      const { type, bytes } = decodePeerMessage(data as Buffer);
      if (type !== 'done') continue;
      const [first] = JSON.parse(Buffer.from(bytes).toString()) as [string][];
      if (first !== undefined) return first[0];
    }
    await delay(5);
  }
  throw new Error('the attacked node lists no reply');
}

/** Questions whose answers are long and never read. */
export async function unreadReplies(scene: Scene): Promise<undefined> {
  const node = await RogueNode.join(scene);
  const asking = await node.open('replies');
  const id = await keptReply(scene, asking);
  asking.socket.terminate();
  await Promise.all(
    Array.from({ length: 4 }, async () => {
      while (!scene.isOver) {
        const wire = await node.dial('replies');
        if (typeof wire === 'number') return;
        wire.stall();
        await wire.flood((i) =>
          wire.tell(i % 3 === 2 ? 'list' : 'read', i % 3 === 2 ? [i, i, ownerOf(scene)] : [i, id, 0]),
        );
        await delay(5);
      }
    }),
  );
  return undefined;
}

/** Watches of replies that cannot be. */
export async function longWatches(scene: Scene): Promise<undefined> {
  const node = await RogueNode.join(scene);
  const long = 'x'.repeat(15_000);
  await Promise.all(
    Array.from({ length: 4 }, async () => {
      const wire = await node.dial('replies');
      if (typeof wire === 'number') return;
      await wire.flood((i) => wire.tell('watch', [`${i} ${long}`]), 20_000);
    }),
  );
  await scene.wait();
  return undefined;
}

/** Watches of replies that might be, as many as a node may have, on many connections. */
export async function manyWatches(scene: Scene): Promise<undefined> {
  const node = await RogueNode.join(scene);
  const idOf = (i: number) => `reply_${node.name}${String(i).padStart(16, '0')}`;
  await Promise.all(
    Array.from({ length: 8 }, async () => {
      const other = await node.another();
      while (!scene.isOver) {
        const wire = await other.dial('replies');
        if (typeof wire === 'number') return;
        await wire.flood((i) => wire.tell('watch', [idOf(i)]), 100_000);
        if (wire.isOpen) return await scene.wait();
        await delay(20);
      }
    }),
  );
  return undefined;
}

/** The entry of a reply that has ended, and `parts` of it to come. */
function entryOf(node: RogueNode, i: number, parts: number): Buffer {
  const id = `reply_${node.target}${String(i).padStart(16, '0')}`;
  const text = JSON.stringify([
    id,
    `principal:${i}`,
    null,
    null,
    null,
    null,
    5_000,
    Date.now(),
    parts,
    Date.now(),
    false,
  ]);
  return Buffer.concat([Uint8Array.from(varint(text.length)), Buffer.from(text)]);
}

/** Long parts of replies, byte by byte. */
export async function slowPieces(scene: Scene): Promise<undefined> {
  const node = await RogueNode.join(scene);
  const wire = await node.open('replies');
  const part = 3 * MIB;
  wire.tell('give', [1, 1, false], Buffer.concat([entryOf(node, 1, 1), Uint8Array.from(varint(part))]));
  for (let at = 0; at < part - 65_536; at += 65_536) wire.tell('piece', [2, 1, false], Buffer.alloc(65_536));
  await wire.flood((i) => wire.tell('piece', [i + 3, 1, false], Buffer.from('x')));
  return undefined;
}

/** Replies whose pieces never end, as many as a node may hand over, from many nodes. */
export async function endlessPieces(scene: Scene): Promise<undefined> {
  const node = await RogueNode.join(scene);
  const part = 2 * MIB;
  await Promise.all(
    Array.from({ length: scene.isShort ? 4 : 16 }, async (_, n) => {
      const wire = await (await node.another()).dial('replies');
      if (typeof wire === 'number') return;
      for (let i = 0; i < 64 && !scene.isOver; i++) {
        const head = Buffer.concat([entryOf(node, n * 64 + i, 1), Uint8Array.from(varint(part))]);
        wire.tell('give', [2 * i, i, false], head);
        for (let at = 0; at < part - 65_536; at += 65_536)
          wire.tell('piece', [2 * i + 1, i, false], Buffer.alloc(65_536));
        while (wire.socket.bufferedAmount > MIB && wire.isOpen && !scene.isOver) await delay(1);
      }
    }),
  );
  await scene.wait();
  return undefined;
}
