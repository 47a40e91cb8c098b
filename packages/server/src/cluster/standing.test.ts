import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Subprotocol } from '@parlance/protocol';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ManualClock } from '../../../protocol/src/testing/manual-clock.js';
import { createWebSocketAdapter } from '../transport/websocket/adapter.js';
import type { KnownNode, Membership } from './membership.js';
import { MAX_ASKED, STANDING_TIMEOUT_MS, Standing } from './standing.js';

/** A node whose lease is over, and others at ports of their own. */

const WEB_SOCKET = { maxPayload: 1_000, maxFragments: 1, closeTimeoutMs: 1_000 };
const adapter = createWebSocketAdapter(WEB_SOCKET);

let clock: ManualClock;
let events: string[];
let others: KnownNode[];
let servers: Server[];
let cutOff: number;
/** Of the node. */
let membership: { living: readonly KnownNode[]; isStalled: boolean; hasLease: boolean; leaseUntil: number };

interface Choice {
  readonly isStalled?: boolean;
  readonly hasLease?: boolean;
  readonly admits?: boolean;
  readonly find?: Membership['find'];
}

function create(
  member: object,
  admits = true,
  onAsked: (node: KnownNode) => unknown = () => undefined,
): Standing {
  return new Standing({
    membership: member as Membership,
    dialing: (node) => {
      onAsked(node);
      return {
        ...WEB_SOCKET,
        url: node.address,
        subprotocol: Subprotocol.BINARY,
        headers: {},
        tls: undefined,
      };
    },
    admits: () => admits,
    onCutOff: () => cutOff++,
    clock,
    logger: { debug() {}, info() {}, warn: ({ event }) => events.push(`${event}`), error() {} },
  });
}

async function listen(server: Server): Promise<void> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  servers.push(server);
  const { port } = server.address() as AddressInfo;
  const incarnation = `node${others.length}`;
  others.push({ incarnation, address: `ws://127.0.0.1:${port}`, proof: '' });
}

/** Another node, which answers. */
async function node({ isStalled = false, hasLease = true, admits = true, find }: Choice = {}): Promise<void> {
  const standing = create({ isStalled, hasLease, find: find ?? (async () => undefined) }, admits);
  const server = createServer().on('upgrade', (request, socket, head) => {
    adapter.upgrade(request, socket, head, Subprotocol.BINARY, (wire) => void standing.answer(wire, 'this'));
  });
  await listen(server);
}

/** A process that is gone. */
async function gone(): Promise<void> {
  await node();
  await new Promise((resolve) => servers.pop()?.close(resolve));
}

/** A process that accepts connections and says nothing. */
const silent = () => listen(createServer().on('upgrade', () => {}));
/** An earlier version. */
const earlier = () =>
  listen(createServer().on('upgrade', (_request, socket) => socket.end('HTTP/1.1 404 Not Found\r\n\r\n')));

const FORGOTTEN: Choice = { find: () => Promise.reject(new Error('the engine has forgotten the nodes')) };

beforeEach(() => {
  clock = new ManualClock();
  [events, others, servers, cutOff] = [[], [], [], 0];
  membership = { living: others, isStalled: true, hasLease: false, leaseUntil: 5_000 };
});

afterEach(() => {
  for (const server of servers) server.closeAllConnections();
  for (const server of servers) server.close();
});

async function checked(standing = create(membership)): Promise<Standing> {
  await standing.check();
  return standing;
}

describe('a node whose lease is over', () => {
  it.each<[string, () => Promise<void>]>([
    ['is gone', gone],
    ['does not reach the engine', () => node({ isStalled: true })],
    ['has no lease either', () => node({ hasLease: false })],
    ['takes no sessions, as it drains', () => node({ admits: false })],
    ['knows that the engine was gone for all a moment ago', () => node(FORGOTTEN)],
    ['does not know the question', earlier],
  ])('keeps its sessions while the only other node %s', async (_, start) => {
    await start();
    const standing = await checked();
    expect([standing.isCutOff, cutOff, events]).toEqual([false, 0, []]);
    // It asks again, and gets another answer.
    await node();
    await checked(standing);
    expect([standing.isCutOff, cutOff, events]).toEqual([true, 1, ['node.cut_off']]);
  });

  it('asks some others at a time, and others the next time', async () => {
    for (let i = 0; i < 3 * MAX_ASKED; i++)
      others.push({ incarnation: `node${i}`, address: 'ws://127.0.0.1:1', proof: '' });
    const asked: string[] = [];
    const standing = create(membership, true, ({ incarnation }) => asked.push(incarnation));
    await checked(standing);
    expect([asked.length, new Set(asked).size]).toEqual([MAX_ASKED, MAX_ASKED]);
    while (new Set(asked).size < others.length) await checked(standing);
    expect(cutOff).toBe(0);
  });

  it('keeps its sessions if there is no other node', async () => {
    expect((await checked()).isCutOff).toBe(false);
  });

  it('gives them up as soon as one of the others says that it reaches the engine', async () => {
    await silent();
    await node({ isStalled: true });
    await node();
    const standing = await checked();
    expect(standing.isCutOff).toBe(true);
    // While that lasts, it gives up what it has got since, and asks no other node.
    await standing.check();
    expect([cutOff, events]).toEqual([2, ['node.cut_off']]);
  });

  it('gives them up if a node says nothing, which may reach the engine', async () => {
    await silent();
    const standing = create(membership);
    const asked = standing.check();
    await new Promise((resolve) => servers[0]?.once('upgrade', resolve));
    clock.pass(STANDING_TIMEOUT_MS - 1);
    await new Promise((resolve) => setImmediate(resolve));
    expect(standing.isCutOff).toBe(false);
    clock.pass(1);
    await asked;
    expect(standing.isCutOff).toBe(true);
  });

  it('keeps them if the engine has answered meanwhile', async () => {
    await node();
    const standing = create(membership);
    const asked = standing.check();
    membership.hasLease = true;
    await asked;
    expect([standing.isCutOff, cutOff]).toEqual([false, 0]);
  });

  it('is cut off until its next lease', async () => {
    await node();
    const standing = await checked();
    expect(standing.isCutOff).toBe(true);
    membership.leaseUntil = 12_000;
    expect(standing.isCutOff).toBe(false);
  });
});
