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
    Array.from({ length: 100 }, async (_, i) => {
      while (!scene.isOver) {
        const wire = await node.dial('move');
        if (typeof wire === 'number') return;
        const session = sessionOf(node.name, i);
        wire.send(JSON.stringify({ type: 'snapshot', session, size: 64 * MIB, sent: 0, epoch: 0 }));
        while (wire.isOpen && !scene.isOver) {
          wire.send(Buffer.alloc(1));
          await delay(200);
        }
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
    Array.from({ length: 8 }, async (_, at) => {
      for (let i = at; !scene.isOver; i++) {
        const wire = await node.dial('move');
        if (typeof wire === 'number') {
          await delay(5);
          continue;
        }
        const [session, size] = [sessionOf(node.name, i), bytes.length];
        wire.send(JSON.stringify({ type: 'snapshot', session, size, sent: 0, epoch: 0 }));
        wire.send(bytes);
        while (wire.received.length === 0 && wire.isOpen && !scene.isOver) await delay(1);
        wire.socket.terminate();
      }
    }),
  );
  return undefined;
}

/** What is only said later, or by the other node. */
export async function outOfOrder(scene: Scene): Promise<readonly string[]> {
  const node = await RogueNode.join(scene);
  const session = sessionOf(node.name);
  const found: string[] = [];
  const snapshot = JSON.stringify({ type: 'snapshot', session, size: 10, sent: 0, epoch: 0 });
  const cases: readonly (readonly (string | Buffer)[])[] = [
    ['{"type":"held","bytes":1}'],
    ['{"type":"taken"}'],
    ['{"type":"refused","code":"x","message":"x"}'],
    [JSON.stringify({ type: 'hold', session })],
    [snapshot, snapshot],
    [snapshot, Buffer.alloc(11)],
    [Buffer.alloc(10)],
    [JSON.stringify({ type: 'snapshot', session, size: 64 * MIB + 1, sent: 0, epoch: 0 })],
    [JSON.stringify({ type: 'snapshot', session: 'sess_x', size: 10, sent: 0, epoch: 0 })],
  ];
  do {
    for (const [i, messages] of cases.entries()) {
      const wire = await node.dial('move');
      if (typeof wire === 'number') continue;
      for (const message of messages) wire.send(message);
      for (let turn = 0; turn < 200 && wire.received.length === 0 && wire.isOpen; turn++) await delay(5);
      const answer = String(wire.received[0] ?? 'nothing');
      if (!answer.includes('"refused"')) found.push(`case ${i} was answered with ${answer.slice(0, 80)}`);
      wire.socket.terminate();
    }
  } while (!scene.isOver && found.length === 0);
  return found;
}
