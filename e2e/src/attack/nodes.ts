import { randomBytes } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { Algorithm } from '@parlance/protocol';
import { decodePeerMessage } from '../../../packages/server/src/cluster/peer-message.js';
import { digestOf } from '../../../packages/server/src/cluster/ticket.js';
import type { Attack } from './attack.js';
import { type Bomb, blanks, MIB } from './bombs.js';
import { clientOf, RogueNode, type RogueWire, randomName, type Service } from './rogue-node.js';
import type { Scene } from './scene.js';
import { hello, LINK, type Peer, varint } from './wire.js';

/**
 * Attacks on what nodes offer to each other, by strangers, and by a node that has the secret. Such a node can act for any
 * principal. It must not be able to take down the others, or more than a principal may take.
 */

const SERVICES: readonly Service[] = ['relay', 'replies', 'move'];
const KINDS: readonly Service[] = [...SERVICES, 'peer'];
const AGENTS = { link: LINK, resume: '{}', agents: '{}' };
const READS_NOTHING = {
  ...AGENTS,
  link: JSON.stringify({ max_streams: 128, message_window: 1, stream_window: 1 }),
};

/** Tickets of no node, of another kind, for another node, and such as were used. */
async function tickets(scene: Scene): Promise<readonly string[]> {
  const [node, stranger] = [
    await RogueNode.join(scene),
    await RogueNode.join(scene, 'another secret of 20 bytes'),
  ];
  const found: string[] = [];
  const expect = async (service: Service, what: string, ticket: string | null, expected: number) => {
    const wire = await node.dial(service, ticket);
    const status = typeof wire === 'number' ? wire : 101;
    if (typeof wire !== 'number') wire.socket.terminate();
    if (status !== expected) found.push(`${service} answered ${status} to ${what}`);
  };
  do {
    for (const service of SERVICES) {
      await expect(service, 'no ticket', null, 401);
      await expect(service, 'a ticket of another secret', stranger.ticketFor(service), 401);
      await expect(service, 'a ticket for another node', node.ticketFor(service, randomName()), 410);
      for (const kind of KINDS)
        if (kind !== service) await expect(service, `a ticket for ${kind}`, node.ticketFor(kind), 401);
      const ticket = node.ticketFor(service);
      await expect(service, 'a ticket', ticket, 101);
      await expect(service, 'a ticket that was used', ticket, 401);
    }
    for (const kind of SERVICES) await expect('peer', `a ticket for ${kind}`, node.ticketFor(kind), 401);
  } while (!scene.isOver);
  return found;
}

/** Principals for which a node may not speak, although it has the secret. */
async function foreigners(scene: Scene): Promise<readonly string[]> {
  const node = await RogueNode.join(scene);
  const [victim, reader] = [
    await scene.open({ agentId: 'victim', offer: { extensions: AGENTS } }),
    await scene.open({ agentId: 'reader', offer: { extensions: AGENTS } }),
  ];
  const [id, token] = [victim.accepted?.sessionId ?? '', victim.accepted?.payload.resume?.token ?? ''];
  const found: string[] = [];
  let heard = 0;
  reader.onMessage = (data) => {
    if (data.includes('not from here')) heard++;
  };
  do {
    // A session of the attacked node.
    const relay = await node.open('relay');
    begin(relay, { ...agentOf(victim, scene), from: 1 });
    relay.tell('use', [1, reader.accepted?.sessionId]);
    relay.tell('message', [1, 1, 1, 0, 0, 0, -1], Buffer.from('not from here'));
    // Its token, with another principal, or another HELLO than the ticket is for.
    const resume = { sessionId: id, token, received: 0, attempt: 1 };
    const greeting = hello({ resume, extensions: AGENTS, agentId: 'victim' });
    for (const [principal, digest, what] of [
      ['echo.someone', digestOf(greeting), 'for another principal'],
      [scene.token('echo'), digestOf('x'), 'for another HELLO'],
    ] as const) {
      const wire = await node.open('peer', node.tickets.issue(node.target, clientOf(id, principal, digest)));
      wire.send(greeting);
      await settled(wire);
      if (wire.isOpen) found.push(`a session was resumed with a ticket ${what}`);
      wire.socket.terminate();
    }
    relay.socket.terminate();
  } while (!scene.isOver && found.length === 0);
  if (heard > 0) found.push('a node spoke for a session of another one');
  return found;
}

const settled = async (wire: RogueWire, ms = 100) => {
  for (let i = 0; i < ms / 5 && wire.isOpen; i++) await delay(5);
};

interface Introduced {
  /** Number of the sender. */
  readonly from: number;
  readonly sessionId: string;
  readonly principal: string;
  readonly agentId: string;
}

const agentOf = (peer: Peer, scene: Scene, behaviour = 'echo', agentId = 'victim') => ({
  sessionId: peer.accepted?.sessionId ?? '',
  principal: scene.token(behaviour),
  agentId,
});

/** A session that would have begun at a node. */
const sessionOf = (name: string, i = 0) => `sess_${name}${String(i).padStart(14, '0')}`;

function begin(relay: RogueWire, { from, sessionId, principal, agentId }: Introduced): void {
  relay.tell('open', [from, sessionId, principal, agentId, Object.values(Algorithm), null]);
}

/** Connections on which one sender may write to a session. */
async function openWays(
  scene: Scene,
  target: Peer,
  count: number,
  nodes: 'one' | 'many' = 'one',
): Promise<RogueWire[]> {
  const ways: RogueWire[] = [];
  const one = await RogueNode.join(scene);
  for (let i = 0; i < count && !scene.isOver; i++) {
    const node = nodes === 'one' ? one : await one.another();
    const relay = await node.dial('relay');
    if (typeof relay === 'number') continue;
    const sessionId = sessionOf(node.name);
    begin(relay, { from: 1, sessionId, principal: scene.token('echo'), agentId: 'rogue' });
    relay.tell('use', [1, target.accepted?.sessionId]);
    ways.push(relay);
  }
  return ways;
}

/** Many senders with names as long as a message. */
async function longNames(scene: Scene): Promise<undefined> {
  const node = await RogueNode.join(scene);
  const long = 'x'.repeat(15_000);
  await Promise.all(
    Array.from({ length: 4 }, async () => {
      const relay = await node.dial('relay');
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
async function manySenders(scene: Scene): Promise<undefined> {
  const node = await RogueNode.join(scene);
  const principal = scene.token('echo');
  await Promise.all(
    Array.from({ length: 8 }, async () => {
      const other = await node.another();
      while (!scene.isOver) {
        const relay = await other.dial('relay');
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
async function unreadAnswers(scene: Scene): Promise<undefined> {
  const node = await RogueNode.join(scene);
  await Promise.all(
    Array.from({ length: 4 }, async () => {
      while (!scene.isOver) {
        const relay = await node.dial('relay');
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
async function comeAndGo(scene: Scene): Promise<undefined> {
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
async function forgedSenders(scene: Scene): Promise<undefined> {
  const [node, principal] = [await RogueNode.join(scene), scene.token('echo')];
  const relay = await node.open('relay');
  await relay.flood((i) => {
    const sessionId = sessionOf('zzzzzz', i);
    relay.tell('open', [i, sessionId, principal, 'a', [], null]);
    relay.tell('close', [i]);
  });
  return undefined;
}

/** Connections that end with an error, each of which is worth a line of the log. */
async function brokenMessages(scene: Scene): Promise<undefined> {
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
const expanding =
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
async function unreadMessages(scene: Scene): Promise<undefined> {
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
async function unreadReplies(scene: Scene): Promise<undefined> {
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
async function longWatches(scene: Scene): Promise<undefined> {
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
async function manyWatches(scene: Scene): Promise<undefined> {
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
async function slowPieces(scene: Scene): Promise<undefined> {
  const node = await RogueNode.join(scene);
  const wire = await node.open('replies');
  const part = 3 * MIB;
  wire.tell('give', [1, 1, false], Buffer.concat([entryOf(node, 1, 1), Uint8Array.from(varint(part))]));
  for (let at = 0; at < part - 65_536; at += 65_536) wire.tell('piece', [2, 1, false], Buffer.alloc(65_536));
  await wire.flood((i) => wire.tell('piece', [i + 3, 1, false], Buffer.from('x')));
  return undefined;
}

/** Replies whose pieces never end, as many as a node may hand over, from many nodes. */
async function endlessPieces(scene: Scene): Promise<undefined> {
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

/** Sessions that are announced and never come, as large as can be. */
async function neverComing(scene: Scene): Promise<undefined> {
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
async function damaged(scene: Scene): Promise<undefined> {
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
async function outOfOrder(scene: Scene): Promise<readonly string[]> {
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

/** Connections with tickets that stay open and say nothing, or too little. */
const manyConnections =
  (service: Service, most: number) =>
  async (scene: Scene): Promise<readonly string[]> => {
    const client = await scene.open();
    const node = await RogueNode.join(scene);
    const count = scene.isShort ? 400 : 10_000;
    const ticketOf = (from: RogueNode) =>
      service === 'peer'
        ? from.tickets.issue(from.target, clientOf(client.accepted?.sessionId ?? ''))
        : from.ticketFor(service);
    let begun = 0;
    await Promise.all(
      Array.from({ length: 8 }, async () => {
        // Every other one seems to be of another node.
        while (begun < count && !scene.isOver) {
          const from = begun++ % 2 === 0 ? node : await node.another();
          await from.dial(service, ticketOf(from));
        }
      }),
    );
    await delay(50);
    const kept = await scene.server.call('connections');
    await scene.wait();
    return kept > most + 300 ? [`${kept} connections are open`] : [];
  };

const rogue = { category: 'nodes', server: 'cluster' } as const;
/** What is charged to all other nodes together counts as what one principal may take. */
const quarter = { sessions: 1_000 } as const;
/** The same, beside what the bounds of kept replies or many connections let them hold. */
const half = { ...quarter, principals: 2 } as const;

export const NODES: readonly Attack[] = [
  { ...rogue, name: 'tickets: of others, replayed', seconds: 3, run: tickets },
  { ...rogue, name: 'principals of sessions elsewhere', seconds: 3, run: foreigners },
  { ...rogue, isLong: true, name: 'relay: senders with long names', ...quarter, seconds: 5, run: longNames },
  { ...rogue, isLong: true, name: 'relay: as many senders as can be', ...quarter, run: manySenders },
  { ...rogue, name: 'relay: answers that are never read', run: unreadAnswers },
  { ...rogue, isLong: true, name: 'relay: senders that come and go', ...quarter, run: comeAndGo },
  { ...rogue, name: 'relay: senders of others', seconds: 5, run: forgedSenders },
  {
    ...rogue,
    isLong: true,
    name: 'relay: messages that expand',
    ...quarter,
    seconds: 5,
    prepare: blanks,
    run: expanding('message'),
  },
  {
    ...rogue,
    isLong: true,
    name: 'relay: requests that expand',
    ...quarter,
    seconds: 5,
    prepare: blanks,
    run: expanding('request'),
  },
  { ...rogue, isLong: true, name: 'relay: for one that does not read', ...half, run: unreadMessages },
  { ...rogue, isLong: true, name: 'replies: answers that are never read', sessions: 4, run: unreadReplies },
  {
    ...rogue,
    isLong: true,
    name: 'replies: watches with long names',
    ...quarter,
    seconds: 5,
    run: longWatches,
  },
  { ...rogue, isLong: true, name: 'replies: as many watches as can be', ...quarter, run: manyWatches },
  { ...rogue, name: 'replies: parts byte by byte', seconds: 5, run: slowPieces },
  { ...rogue, isLong: true, name: 'replies: pieces that never end', ...half, run: endlessPieces },
  { ...rogue, name: 'move: sessions that never come', ...quarter, run: neverComing },
  { ...rogue, isLong: true, name: 'move: damaged sessions', seconds: 5, run: damaged },
  { ...rogue, name: 'move: what is out of order', seconds: 3, run: outOfOrder },
  { ...rogue, isLong: true, name: 'all: connections that break', seconds: 5, run: brokenMessages },
  {
    ...rogue,
    isLong: true,
    name: 'relay: 10,000 connections',
    ...quarter,
    run: manyConnections('relay', 1_024),
  },
  {
    ...rogue,
    isLong: true,
    name: 'replies: 10,000 connections',
    ...quarter,
    run: manyConnections('replies', 1_024),
  },
  { ...rogue, isLong: true, name: 'move: 10,000 connections', ...quarter, run: manyConnections('move', 256) },
  {
    ...rogue,
    isLong: true,
    name: 'led: 10,000 connections',
    ...quarter,
    run: manyConnections('peer', 4_096),
  },
];
