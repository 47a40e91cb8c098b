import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Subprotocol } from '@parlance/protocol';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createWebSocketAdapter, type ServerWire } from '../../http/ws.js';
import { MoveChannel } from './move-channel.js';
import { encodeMoveMessage, type MoveMessage } from './move-message.js';

/** What a node believes of the one to which it hands a session over. */

const bounds = { maxPayload: 1_000_000, maxFragments: 0, closeTimeoutMs: 1_000 };
const HELD: MoveMessage = { type: 'held', bytes: 0 };
const TAKEN: MoveMessage = { type: 'taken' };
const SNAPSHOT: MoveMessage = { type: 'snapshot', session: 's', size: 1, sent: 0, epoch: 0 };

let http: Server;
let other: ServerWire;
let channel: MoveChannel;
beforeEach(async () => {
  const adapter = createWebSocketAdapter(bounds);
  http = createServer();
  http.on('upgrade', (request, socket, head) => {
    adapter.upgrade(request, socket, head, Subprotocol.BINARY, (wire) => {
      other = wire;
      wire.listen({ onMessage() {}, onControl() {}, onData() {}, onDrain() {}, onClose() {}, onFault() {} });
    });
  });
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
  const url = `ws://127.0.0.1:${(http.address() as AddressInfo).port}/`;
  const rest = { subprotocol: Subprotocol.BINARY, headers: {}, tls: undefined };
  channel = await MoveChannel.open({ url, ...bounds, ...rest });
});
afterEach(() => {
  other.terminate();
  http.close();
});

const say = async (...messages: readonly MoveMessage[]) => {
  for (const message of messages) other.send(encodeMoveMessage(message));
  await new Promise((resolve) => setTimeout(resolve, 50));
};

describe('a node that hands a session over', () => {
  it('does not believe that it was taken before it was sent', async () => {
    await say(HELD, TAKEN);
    expect(await channel.expect('held')).toEqual(HELD);
    expect(() => channel.send(SNAPSHOT)).toThrow(expect.objectContaining({ code: 'bad_message' }));
  });

  it('does not take one answer for another', async () => {
    await say(TAKEN);
    await expect(channel.expect('held')).rejects.toMatchObject({ code: 'bad_message' });
  });

  it('hears a refusal that comes before anything is asked', async () => {
    await say({ type: 'refused', code: 'draining', message: 'not now' });
    expect(() => channel.send(SNAPSHOT)).toThrow(expect.objectContaining({ code: 'draining' }));
  });

  it('keeps so many answers and no more', async () => {
    await say(HELD, TAKEN, HELD);
    expect(await channel.expect('held')).toEqual(HELD);
    expect(await channel.expect('taken')).toEqual(TAKEN);
    await expect(channel.expect('held')).rejects.toMatchObject({ code: 'bad_message' });
  });
});
