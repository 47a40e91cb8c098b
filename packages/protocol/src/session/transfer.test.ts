import { describe, expect, it } from 'vitest';
import { Extension } from '../base/constants.js';
import { ProtocolError } from '../base/errors.js';
import { resolveLimits } from '../base/limits.js';
import { plainBody } from '../codec/body.js';
import { CloseReason } from '../control/messages.js';
import { decodeFailure } from '../link/failure.js';
import { decodeLinkFrame, LinkKind } from '../link/frame.js';
import {
  createSimulation,
  type End,
  eventsOf,
  type SimulationOptions,
  TEST_CAPABILITIES,
} from '../testing/simulation.js';

/** Streams whose request is a tensor, between two session cores. */

const EMPTY = plainBody(new Uint8Array(0));
const established = (options: SimulationOptions = {}) => {
  const simulation = createSimulation(options);
  simulation.advance(3 * (options.delayMs ?? 0));
  return simulation;
};
const kinds = (end: End) =>
  end.sent
    .filter((frame): frame is Uint8Array => typeof frame !== 'string' && frame[0] !== undefined)
    .filter((frame) => (frame[0] as number) >> 4 === 1)
    .map((frame) => decodeLinkFrame(frame).kind);
const count = (end: End, kind: LinkKind) => kinds(end).filter((each) => each === kind).length;
const refusal = new ProtocolError('bad_checksum', 'not what was sent');

describe('a transfer', () => {
  it('is delivered piece by piece and answered when it is complete', () => {
    const { client, server, settle } = established();
    const id = client.core.channel.transfer({ payloadSize: 3, totalLength: 4, first: Uint8Array.of(1) });
    settle();
    expect(eventsOf(server, 'piece')).toMatchObject([
      { streamId: id, piece: { offset: 0, totalLength: 4, bytes: Uint8Array.of(1) } },
    ]);
    client.core.channel.feed(id, Uint8Array.of(2, 3, 4));
    settle();
    expect(eventsOf(server, 'piece')).toMatchObject([{}, { piece: { offset: 1, totalLength: 4 } }]);
    server.core.channel.respond(id, EMPTY);
    settle();
    expect(eventsOf(client, 'response')).toMatchObject([{ streamId: id }]);
    expect([client.core.channel.openStreams, server.core.channel.openStreams]).toEqual([0, 0]);
  });

  it('proceeds as far as it is read, and no further', () => {
    const link = JSON.stringify({ stream_window: 1000 });
    const capabilities = { ...TEST_CAPABILITIES, extensions: { [Extension.LINK]: link } };
    const limits = resolveLimits({ sessionWindow: 1000 });
    const { client, server, settle } = established({ server: { capabilities, limits } });
    const id = client.core.channel.transfer({
      payloadSize: 9000,
      totalLength: 9000,
      first: new Uint8Array(9000),
    });
    settle();
    const arrived = () => eventsOf(server, 'piece').reduce((sum, { piece }) => sum + piece.bytes.length, 0);
    expect(arrived()).toBeLessThan(1000);
    expect(client.core.isBlockedOnCredit).toBe(true);
    for (let read = 0; arrived() < 9000; ) {
      for (const { piece } of eventsOf(server, 'piece').slice(read)) {
        read++;
        server.core.channel.consume(id, piece.charge);
      }
      settle();
    }
    expect(client.core.queuedBytes).toBe(0);
  });

  it('over the limit of either end is refused before any of it is sent', () => {
    const stated = (max: number) => ({
      capabilities: {
        ...TEST_CAPABILITIES,
        extensions: { [Extension.LINK]: JSON.stringify({ max_transfer: max }) },
      },
      limits: resolveLimits({ maxTransferSize: max }),
    });
    for (const small of ['client', 'server'] as const) {
      const other = small === 'client' ? 'server' : 'client';
      const simulation = established({ [small]: stated(100) });
      const { core, sent } = simulation[other];
      const before = sent.length;
      expect(() =>
        core.channel.transfer({ payloadSize: 101, totalLength: 200, first: new Uint8Array(1) }),
      ).toThrowError(expect.objectContaining({ code: 'transfer_too_large' }));
      simulation.settle();
      expect([sent.length, core.channel.openStreams]).toEqual([before, 0]);
      core.channel.transfer({ payloadSize: 100, totalLength: 200, first: new Uint8Array(200) });
      simulation.settle();
      expect(eventsOf(simulation[small], 'piece')).toHaveLength(1);
    }
  });

  it('that lies about its size ends the session', () => {
    const { client, server, settle } = established({
      server: { limits: resolveLimits({ maxTransferSize: 1 }) },
    });
    client.core.channel.transfer({ payloadSize: 1, totalLength: 10_000_000, first: new Uint8Array(1) });
    settle();
    expect(eventsOf(server, 'ended')).toMatchObject([{ error: { code: 'transfer_too_large' } }]);
    expect(eventsOf(client, 'ended')).toMatchObject([{ error: { closeCode: 4413 } }]);
  });
});

it.each([
  ['a message', LinkKind.MESSAGE, 0],
  ['a response', LinkKind.RESPONSE, 1],
  ['a chunk', LinkKind.CHUNK, 1],
])('%s cannot be a tensor', (_what, kind, streamId) => {
  const { client, server, inject, settle } = established();
  const id = client.core.channel.request(plainBody(new Uint8Array(1)));
  settle();
  expect(id).toBe(1);
  inject('server', Uint8Array.of(0x10 | kind, streamId, 0x05, 0x41, 0x56));
  settle();
  expect(eventsOf(client, 'ended')).toMatchObject([{ error: { code: 'bad_frame', closeCode: 4400 } }]);
  expect(server.core.state).toBe('closed');
});

describe('a sender that gives up', () => {
  it('halfway notifies the receiver, and the stream is over', () => {
    const { client, server, settle } = established();
    const id = client.core.channel.transfer({ payloadSize: 10, totalLength: 10, first: new Uint8Array(4) });
    settle();
    client.core.channel.feed(id, new Uint8Array(3));
    client.core.channel.cancel(id);
    settle();
    expect(eventsOf(server, 'cancel')).toMatchObject([{ streamId: id }]);
    expect(eventsOf(client, 'end')).toMatchObject([{ streamId: id }]);
    expect([client.core.channel.openStreams, server.core.channel.openStreams]).toEqual([0, 0]);
    client.core.channel.feed(id, new Uint8Array(3));
    settle();
    expect(eventsOf(server, 'piece')).toHaveLength(1);
    expect(server.core.state).toBe('established');
  });

  it('on a tensor that has arrived and was not accepted yet is answered, and acceptance comes too late', () => {
    const { client, server, settle } = established();
    const id = client.core.channel.transfer({ payloadSize: 4, totalLength: 4, first: new Uint8Array(4) });
    settle();
    expect(eventsOf(server, 'piece')).toHaveLength(1);
    client.core.channel.cancel(id);
    settle();
    expect(eventsOf(server, 'cancel')).toMatchObject([{ streamId: id }]);
    server.core.channel.respond(id, EMPTY);
    settle();
    expect([eventsOf(client, 'end').length, eventsOf(client, 'response').length]).toEqual([1, 0]);
    expect([client.core.channel.openStreams, server.core.channel.openStreams]).toEqual([0, 0]);
    expect([client.core.state, server.core.state]).toEqual(['established', 'established']);
  });

  it('before the first byte is not noticed by the peer', () => {
    const { client, server } = established();
    const id = client.core.channel.transfer({ payloadSize: 10, totalLength: 10, first: new Uint8Array(4) });
    client.core.channel.cancel(id);
    expect(eventsOf(client, 'end')).toEqual([]);
    expect(client.core.channel.openStreams).toBe(0);
    expect(eventsOf(server, 'piece')).toEqual([]);
  });
});

describe('a receiver that refuses', () => {
  it('halfway stops the sender, and frames on their way do no harm', () => {
    const simulation = established({ delayMs: 10 });
    const { client, server } = simulation;
    const id = client.core.channel.transfer({ payloadSize: 100, totalLength: 100, first: new Uint8Array(4) });
    simulation.advance(10);
    server.core.channel.refuse(id, refusal);
    // They cross the refusal.
    for (let i = 0; i < 3; i++) {
      client.core.channel.feed(id, new Uint8Array(4));
      simulation.advance(3);
    }
    expect(server.core.channel.openStreams).toBe(1);
    simulation.advance(100);
    expect(eventsOf(client, 'failure')).toMatchObject([
      { streamId: id, error: { code: 'bad_checksum', side: 'remote', message: 'not what was sent' } },
    ]);
    expect(eventsOf(server, 'piece')).toHaveLength(1);
    expect(eventsOf(server, 'cancel')).toEqual([]);
    expect(count(client, LinkKind.CANCEL)).toBe(1);
    expect([client.core.channel.openStreams, server.core.channel.openStreams]).toEqual([0, 0]);
    expect([client.core.state, server.core.state]).toEqual(['established', 'established']);
  });

  it('keeps the slot until the sender has received the refusal, so that refusals cannot pile up', () => {
    const limits = resolveLimits({ maxStreams: 2 });
    const simulation = established({ delayMs: 10, server: { limits } });
    const { client, server } = simulation;
    const ids = [0, 1].map(() =>
      client.core.channel.transfer({ payloadSize: 50, totalLength: 50, first: new Uint8Array(1) }),
    );
    simulation.advance(10);
    for (const id of ids) server.core.channel.refuse(id, refusal);
    // A sender that does not wait for it.
    simulation.inject('client', Uint8Array.of(0x11, 5, 0x15, 50, 65));
    expect(server.core.channel.openStreams).toBe(2);
    simulation.advance(10);
    expect(eventsOf(server, 'ended')).toMatchObject([{ error: { code: 'too_many_streams' } }]);
  });

  it('does not break the session if the sender has sent all of it meanwhile', () => {
    const simulation = established({ delayMs: 10 });
    const { client, server } = simulation;
    const id = client.core.channel.transfer({ payloadSize: 8, totalLength: 8, first: new Uint8Array(4) });
    simulation.advance(10);
    server.core.channel.refuse(id, refusal);
    client.core.channel.feed(id, new Uint8Array(4));
    simulation.advance(100);
    expect(eventsOf(client, 'failure')).toHaveLength(1);
    expect(count(client, LinkKind.CANCEL)).toBe(0);
    expect([client.core.channel.openStreams, server.core.channel.openStreams]).toEqual([0, 0]);
  });

  it('does not break the session if the sender gives up at the same time', () => {
    const simulation = established({ delayMs: 10 });
    const { client, server } = simulation;
    const id = client.core.channel.transfer({ payloadSize: 100, totalLength: 100, first: new Uint8Array(4) });
    simulation.advance(10);
    server.core.channel.refuse(id, refusal);
    client.core.channel.cancel(id);
    simulation.advance(100);
    expect(eventsOf(server, 'cancel')).toEqual([]);
    expect([client.core.channel.openStreams, server.core.channel.openStreams]).toEqual([0, 0]);
    expect([client.core.state, server.core.state]).toEqual(['established', 'established']);
  });

  it('may do so because there are too many, and states when to try again', () => {
    const limits = resolveLimits({ messagesPerMinute: 2 });
    const { server, settle, inject } = established({ server: { limits } });
    // A sender that ignores the rates; the first frame of each tensor.
    for (let id = 1; id < 12; id += 2) inject('client', Uint8Array.of(0x11, id, 0x15, 50, 65));
    settle();
    const frames = server.sent.filter((frame): frame is Uint8Array => typeof frame !== 'string');
    const refused = frames.filter((frame) => frame[0] === 0x15).map((frame) => decodeLinkFrame(frame));
    expect(eventsOf(server, 'piece').map(({ streamId }) => streamId)).toEqual([1, 3, 5, 7]);
    expect(refused.map(({ streamId }) => streamId)).toEqual([9, 11]);
    const failure = decodeFailure(refused[0]?.rest ?? new Uint8Array(0), 9);
    expect(failure).toMatchObject({ code: 'rate_limited', retryable: true });
    expect(failure.retryAfterMs).toBeGreaterThan(0);
  });

  it('does not reveal the error of a handler', () => {
    const { client, server, settle } = established();
    const id = client.core.channel.request(plainBody(Uint8Array.of(1)));
    settle();
    server.core.channel.fail(id, new ProtocolError('bad_tensor', 'a secret of the server'));
    settle();
    expect(eventsOf(client, 'failure')).toMatchObject([{ error: { code: 'internal' } }]);
  });
});

describe('closing', () => {
  it('waits for a tensor that this end is sending', () => {
    const { client, server, settle } = established();
    const id = client.core.channel.transfer({ payloadSize: 8, totalLength: 8, first: new Uint8Array(4) });
    settle();
    client.core.close(CloseReason.CLIENT_SHUTDOWN, '', 0);
    settle();
    expect(client.core.state).toBe('closing');
    client.core.channel.feed(id, new Uint8Array(4));
    settle();
    expect(eventsOf(server, 'piece')).toHaveLength(2);
    expect([client.core.state, server.core.state]).toEqual(['closed', 'closed']);
    expect(eventsOf(client, 'ended')).toEqual([{ type: 'ended', error: undefined }]);
  });

  it('refuses nothing after its CLOSE', () => {
    const { client, server } = established();
    const id = client.core.channel.transfer({ payloadSize: 8, totalLength: 8, first: new Uint8Array(4) });
    for (let frame = client.core.pollTransmit(); frame !== undefined; frame = client.core.pollTransmit())
      server.core.handleMessage(frame, 0);
    server.core.close(CloseReason.NORMAL, '', 0);
    while (server.core.pollTransmit() !== undefined);
    server.core.channel.refuse(id, refusal);
    expect(server.core.pollTransmit()).toBeUndefined();
  });

  it('does not wait for a tensor that is arriving', () => {
    const { client, server, settle } = established();
    server.core.channel.transfer({ payloadSize: 8, totalLength: 8, first: new Uint8Array(4) });
    settle();
    client.core.close(CloseReason.CLIENT_SHUTDOWN, '', 0);
    settle();
    expect([client.core.state, server.core.state]).toEqual(['closed', 'closed']);
    expect(eventsOf(server, 'ended')).toEqual([{ type: 'ended', error: undefined }]);
  });

  it('continues once the sender gives up a tensor that it waits for', () => {
    const { client, settle } = established();
    const id = client.core.channel.transfer({ payloadSize: 8, totalLength: 8, first: new Uint8Array(4) });
    settle();
    client.core.close(CloseReason.CLIENT_SHUTDOWN, '', 0);
    client.core.channel.cancel(id);
    settle();
    expect(client.core.state).toBe('closed');
  });
});
