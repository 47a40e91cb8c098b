import { randomBytes } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { type Bomb, blanks, MIB } from '../bombs.js';
import type { Scene } from '../scene.js';
import { RogueNode } from './rogue-node.js';
import { AGENTS, begin, openWays, sessionOf, settled } from './senders.js';
import { SERVICES } from './tickets.js';

const READS_NOTHING = {
  ...AGENTS,
  link: JSON.stringify({ max_streams: 128, message_window: 1, stream_window: 1 }),
};

/** Many senders with names as long as a message. */
export async function longNames(scene: Scene): Promise<undefined> {
  const node = await RogueNode.join(scene);
  const long = 'x'.repeat(15_000);
  await Promise.all(
    Array.from({ length: 4 }, async () => {
      const relay = await node.dial('link');
      if (typeof relay === 'number') return;
      await relay.flood(
        (i) =>
          begin(relay, { from: i, sessionId: sessionOf(node.name, i), principal: long, agentId: `a${i}` }),
        20_000,
      );
    }),
  );
  await scene.wait();
  return undefined;
}

/** As many senders as a node may have, again and again, on many connections. */
export async function manySenders(scene: Scene): Promise<undefined> {
  const node = await RogueNode.join(scene);
  const principal = scene.token('echo');
  await Promise.all(
    Array.from({ length: 8 }, async () => {
      const other = await node.another();
      while (!scene.isOver) {
        const relay = await other.dial('link');
        if (typeof relay === 'number') return;
        await relay.flood(
          (i) => begin(relay, { from: i, sessionId: sessionOf(other.name, i), principal, agentId: `a${i}` }),
          50_000,
        );
        if (relay.isOpen) return await scene.wait();
        await delay(20);
      }
    }),
  );
  return undefined;
}

/** Questions about sessions that are not there, whose answers are never read. */
export async function unreadAnswers(scene: Scene): Promise<undefined> {
  const node = await RogueNode.join(scene);
  await Promise.all(
    Array.from({ length: 4 }, async () => {
      while (!scene.isOver) {
        const relay = await node.dial('link');
        if (typeof relay === 'number') return;
        relay.stall();
        await relay.flood((i) => relay.tell('use', [i, 'x']));
        await delay(5);
      }
    }),
  );
  return undefined;
}

/** Senders that come and go while many requests are open. */
export async function comeAndGo(scene: Scene): Promise<undefined> {
  const target = await scene.open({ agentId: 'victim', offer: { extensions: READS_NOTHING } });
  target.stall();
  const [relay] = await openWays(scene, target, 1);
  if (relay === undefined) return undefined;
  const principal = scene.token('echo');
  const held = scene.isShort ? 10_000 : 45_000;
  await relay.flood((i) => relay.tell('request', [1, i + 1, 1, 0, 0, 0, -1], Buffer.from('x')), held);
  await relay.flood((i) => {
    begin(relay, { from: i + 2, sessionId: sessionOf('aaaaaa', i), principal, agentId: `a${i}` });
    relay.tell('close', [i + 2]);
  });
  return undefined;
}

/** Senders for which a node may not speak, each of which is worth a line of the log. */
export async function forgedSenders(scene: Scene): Promise<undefined> {
  const [node, principal] = [await RogueNode.join(scene), scene.token('echo')];
  const relay = await node.open('link');
  await relay.flood((i) => {
    const sessionId = sessionOf('zzzzzz', i);
    relay.tell('open', [i, sessionId, principal, 'a', [], null]);
    relay.tell('close', [i]);
  });
  return undefined;
}

/** Connections that end with an error, each of which is worth a line of the log. */
export async function brokenMessages(scene: Scene): Promise<undefined> {
  const node = await RogueNode.join(scene);
  const bad = [Buffer.from([0, 0, 0, 1, 0]), Buffer.alloc(3), 'text', randomBytes(64)];
  await Promise.all(
    SERVICES.flatMap((service) => [service, service]).map(async (service, at) => {
      for (let i = at; !scene.isOver; i++) {
        const wire = await node.dial(service);
        if (typeof wire !== 'number') wire.send(bad[i % bad.length] as Buffer);
        if (typeof wire !== 'number') await settled(wire, 20);
        await delay(1);
      }
    }),
  );
  return undefined;
}

/** Bodies that expand, for a session that does not read. */
export const expanding =
  (kind: 'message' | 'request') =>
  async (scene: Scene): Promise<undefined> => {
    const target = await scene.open({
      agentId: 'victim',
      offer: { algorithms: ['NONE'], extensions: READS_NOTHING },
    });
    target.stall();
    const { body, parts }: Bomb = blanks();
    for (const relay of await openWays(scene, target, 4, 'many'))
      void relay.flood((i) => {
        scene.floors++;
        relay.tell(kind, [1, i + 1, 1, parts.codec, parts.original, 0, -1], body);
      }, 300);
    await scene.wait();
    return undefined;
  };

/** Messages as fast as can be for a session that does not read, from as many nodes as there may be. */
export async function unreadMessages(scene: Scene): Promise<undefined> {
  const target = await scene.open({ agentId: 'victim', offer: { extensions: READS_NOTHING } });
  target.stall();
  const body = Buffer.alloc(MIB / 4, 'x');
  const ways = await openWays(scene, target, scene.isShort ? 6 : 24, 'many');
  await Promise.all(
    ways.map(async (relay) => {
      await relay.flood((i) => relay.tell('message', [1, i + 1, 1, 0, 0, 0, -1], body), 4_000);
    }),
  );
  return undefined;
}
