import { randomBytes } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { MIB } from '../bombs.js';
import type { Scene } from '../scene.js';
import { RogueNode } from './rogue-node.js';
import { sessionOf } from './senders.js';

/** Sessions that are announced and never come, as large as can be. */
export async function neverComing(scene: Scene): Promise<undefined> {
  const node = await RogueNode.join(scene);
  await Promise.all(
    Array.from({ length: 4 }, async () => {
      const wire = await node.dial('link');
      if (typeof wire === 'number') return;
      for (let round = 0; wire.isOpen && !scene.isOver; round++) {
        for (let i = 0; i < 25; i++) {
          const number = 25 * Math.floor(round / 50) + i;
          if (round % 50 === 0)
            wire.tellMove('snapshot', [number, sessionOf(node.name, number), 64 * MIB, 0, 0]);
          else wire.tellMove('bytes', [number], Buffer.alloc(1));
        }
        await delay(200);
      }
    }),
  );
  return undefined;
}

/** Sessions that are damaged. */
export async function damaged(scene: Scene): Promise<undefined> {
  const node = await RogueNode.join(scene);
  const bytes = randomBytes(1_000);
  await Promise.all(
    Array.from({ length: 4 }, async () => {
      const wire = await node.dial('link');
      if (typeof wire === 'number') return;
      for (let i = 0; wire.isOpen && !scene.isOver; i++) {
        wire.received.length = 0;
        wire.tellMove('snapshot', [i, sessionOf(node.name, i), bytes.length, 0, 0]);
        wire.tellMove('bytes', [i], bytes);
        while (wire.received.length === 0 && wire.isOpen && !scene.isOver) await delay(1);
      }
    }),
  );
  return undefined;
}

/** Messages that only come later, or from the other node. They are refused, or end the link. */
export async function outOfOrder(scene: Scene): Promise<readonly string[]> {
  const node = await RogueNode.join(scene);
  const session = sessionOf(node.name);
  const found: string[] = [];
  type Said = readonly [type: string, fields: readonly unknown[], bytes?: number];
  const snapshot: Said = ['snapshot', [1, session, 10, 0, 0]];
  const cases: readonly (readonly Said[])[] = [
    [['held', [1, 1]]],
    [['taken', [1]]],
    [['refused', [1, 'x', 'x']]],
    [['hold', [1, session]]],
    [snapshot, snapshot],
    [snapshot, ['bytes', [1], 11]],
    [['bytes', ['x'], 10]],
    [['snapshot', [1, session, 64 * MIB + 1, 0, 0]]],
    [['snapshot', [1, 'sess_x', 10, 0, 0]]],
  ];
  do {
    for (const [i, messages] of cases.entries()) {
      const wire = await node.dial('link');
      if (typeof wire === 'number') continue;
      for (const [type, fields, size = 0] of messages) wire.tellMove(type, fields, Buffer.alloc(size));
      const isRefused = () => wire.received.some((each) => String(each).includes('"refused"'));
      for (let turn = 0; turn < 200 && !isRefused() && wire.isOpen; turn++) await delay(5);
      if (wire.isOpen && !isRefused()) found.push(`case ${i} was not refused`);
      wire.socket.terminate();
    }
  } while (!scene.isOver && found.length === 0);
  return found;
}
