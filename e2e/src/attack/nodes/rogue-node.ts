import { randomBytes } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { Subprotocol } from '@parlance/protocol';
import WebSocket from 'ws';
import { encodeLinkMessage } from '../../../../packages/server/src/cluster/link/message.js';
import { PATHS as NODE_PATHS, PEER_PATH } from '../../../../packages/server/src/cluster/peer-port.js';
import { type ClientOfTicket, Tickets } from '../../../../packages/server/src/cluster/ticket.js';
import type { Scene } from '../scene.js';
import { CLUSTER_SECRET } from '../wire.js';

/** A node of the attacked cluster that has its secret, and keeps to nothing else. */

export const PATHS = { peer: PEER_PATH, ...NODE_PATHS } as const;
export type Service = keyof typeof PATHS;

/** Bytes that wait to be sent, beyond which a rogue node waits as well. */
const MAX_WAITING = 1024 * 1024;

export class RogueNode {
  /** The incarnation that it states, and that of the attacked node. */
  readonly name: string;
  readonly target: string;
  readonly tickets: Tickets;
  readonly #scene: Scene;
  readonly #port: number;

  private constructor(scene: Scene, port: number, target: string, secret: string, name: string) {
    this.#scene = scene;
    this.#port = port;
    this.target = target;
    this.name = name;
    const secrets = [Buffer.from(secret)];
    this.tickets = new Tickets({ secrets, incarnation: this.name, now: Date.now });
  }

  static async join(scene: Scene, secret = CLUSTER_SECRET, name = randomName()): Promise<RogueNode> {
    const [port, target] = await Promise.all([
      scene.server.call('peerPort'),
      scene.server.call('incarnation'),
    ]);
    return new RogueNode(scene, port, target, secret, name);
  }

  /** Another one of the same cluster. */
  async another(): Promise<RogueNode> {
    return await RogueNode.join(this.#scene);
  }

  ticketFor(service: Service, target = this.target): string {
    if (service !== 'peer') return this.tickets.issueFor(service, target);
    return this.tickets.issue(target, clientOf(`sess_${target}00000000000000`));
  }

  /** Connects. @returns the connection, or the status of HTTP; 0 if it broke. */
  async dial(service: Service, ticket?: string | null): Promise<RogueWire | number> {
    const wire = new RogueWire(
      this.#scene,
      this.#port,
      PATHS[service],
      ticket === undefined ? this.ticketFor(service) : ticket,
    );
    const status = await wire.opened;
    return status === 101 ? wire : status;
  }

  /** @throws if the connection is refused. */
  async open(service: Service, ticket?: string): Promise<RogueWire> {
    const wire = await this.dial(service, ticket);
    if (typeof wire === 'number') throw new Error(`${service} was refused with ${wire}`);
    return wire;
  }
}

/** Names of nodes are six letters and digits. */
export const randomName = () => randomBytes(3).toString('hex');

/** The description of a client in a ticket. */
export const clientOf = (
  sessionId: string,
  principal = 'echo.someone',
  helloDigest = 'x',
): ClientOfTicket => ({
  sessionId,
  helloDigest,
  subprotocol: Subprotocol.BINARY,
  identity: { principal },
  ip: '203.0.113.7',
  headers: {},
  isForwarded: false,
});

export class RogueWire {
  readonly socket: WebSocket;
  /** 101, another status of HTTP, or 0. */
  readonly opened: Promise<number>;
  readonly received: (Buffer | string)[] = [];
  readonly #scene: Scene;

  constructor(scene: Scene, port: number, path: string, ticket: string | null) {
    this.#scene = scene;
    scene.floors++;
    const headers = ticket === null ? {} : { authorization: `Parlance ${ticket}` };
    this.socket = new WebSocket(`ws://127.0.0.1:${port}${path}`, [Subprotocol.BINARY], {
      headers,
      perMessageDeflate: false,
      maxPayload: 0,
    });
    scene.onCut(() => this.socket.terminate());
    this.socket.on('error', () => {});
    this.socket.on('message', (data: Buffer, isBinary) => {
      if (this.received.length < 1_000) this.received.push(isBinary ? data : data.toString());
    });
    this.opened = new Promise((resolve) => {
      this.socket.once('open', () => resolve(101));
      this.socket.once('unexpected-response', (_request, { statusCode = 0, socket }) => {
        socket.destroy();
        resolve(statusCode);
      });
      this.socket.once('close', () => resolve(0));
    });
  }

  get isOpen(): boolean {
    return this.socket.readyState === WebSocket.OPEN;
  }

  /** A message of agents, as nodes write them. */
  tell(type: string, fields: readonly unknown[], bytes: Uint8Array = NOTHING): void {
    this.send(encodeLinkMessage('agents', type, fields, bytes));
  }

  /** A message about a session that moves. */
  tellMove(type: string, fields: readonly unknown[], bytes: Uint8Array = NOTHING): void {
    this.send(encodeLinkMessage('moves', type, fields, bytes));
  }

  send(data: Uint8Array | string): void {
    if (!this.isOpen) return;
    this.socket.send(data);
    this.#scene.sentBytes += data.length;
  }

  /** Calls `step` until the attack or the connection is over, as fast as the server reads. */
  async flood(step: (i: number) => void, most = 5_000_000): Promise<void> {
    for (let i = 0; i < most && !this.#scene.isOver && this.isOpen; i++) {
      step(i);
      if (this.socket.bufferedAmount > MAX_WAITING) await delay(1);
      else if (i % 256 === 255) await new Promise((resolve) => setImmediate(resolve));
    }
  }

  /** Nothing is read from now on. */
  stall(): void {
    this.socket.pause();
  }
}

const NOTHING = new Uint8Array(0);
