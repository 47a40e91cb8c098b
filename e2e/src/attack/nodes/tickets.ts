import { setTimeout as delay } from 'node:timers/promises';
import { digestOf } from '../../../../packages/server/src/cluster/ticket.js';
import type { Scene } from '../scene.js';
import { hello } from '../wire.js';
import { clientOf, RogueNode, randomName, type Service } from './rogue-node.js';
import { AGENTS, agentOf, begin, settled } from './senders.js';

export const SERVICES: readonly Service[] = ['link', 'standing'];

const KINDS: readonly Service[] = [...SERVICES, 'peer'];

/** Tickets of no node, of another kind, for another node, and such as were used. */
export async function tickets(scene: Scene): Promise<readonly string[]> {
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
export async function foreigners(scene: Scene): Promise<readonly string[]> {
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
    const relay = await node.open('link');
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

/** Connections with tickets that stay open and say nothing, or too little. */
export const manyConnections =
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
