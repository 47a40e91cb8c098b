import { describe, expect, it } from 'vitest';
import { Extension } from '../base/constants.js';
import { encodeUtf8 } from '../base/text.js';
import { BodyCodec } from '../codec/body.js';
import { createSimulation, eventsOf, type Simulation, TEST_CAPABILITIES } from '../testing/simulation.js';
import { AliasReader, AliasWriter, isAgentAddress, isAgentId, MAX_ALIASES } from './addressing.js';
import { MAX_FRAGMENT_SIZE } from './body-writer.js';
import { decodeLinkFrame, encodeBodyFrame, encodeSignalFrame, LinkKind } from './frame.js';
import type { BodyToSend } from './link.js';

const capabilities = {
  ...TEST_CAPABILITIES,
  extensions: { [Extension.LINK]: '{}', [Extension.RESUME]: '{}', [Extension.AGENTS]: '{}' },
};
const plain = (bytes: Uint8Array, agent?: string): BodyToSend => ({
  codec: BodyCodec.PLAIN,
  bytes,
  originalLength: bytes.length,
  secret: false,
  metadata: undefined,
  address: agent,
});
const text = (value: string, agent?: string) => plain(encodeUtf8(value), agent);

function agreed(): Simulation {
  const simulation = createSimulation({ client: { capabilities }, server: { capabilities } });
  simulation.settle();
  return simulation;
}
const kinds = (frames: readonly (Uint8Array | string)[]) =>
  frames
    .filter((frame): frame is Uint8Array => frame instanceof Uint8Array && (frame[0] ?? 0) >> 4 === 1)
    .map((frame) => decodeLinkFrame(frame).kind)
    .filter((kind) => kind < LinkKind.ACK);

describe('the name of an agent', () => {
  it.each(['a', 'Planner-2', 'x'.repeat(128)])('may be %s', (name) => expect(isAgentId(name)).toBe(true));
  it.each(['', 'x'.repeat(129), 'a b', 'ä', '@directory', '__proto__.x', 'shared', 'session'])(
    'may not be %j',
    (name) => expect(isAgentId(name)).toBe(false),
  );
});

describe('the address of an agent', () => {
  it.each(['~a', `~${'x'.repeat(127)}`, '~-_9'])('may be %s, and is not an ID', (name) =>
    expect([isAgentAddress(name), isAgentId(name)]).toEqual([true, false]),
  );
  it.each(['', '~', 'a', `~${'x'.repeat(128)}`, '~a b', '~~a', 'a~b', '@a'])('may not be %j', (name) =>
    expect(isAgentAddress(name)).toBe(false),
  );
});

describe('an addressed body', () => {
  it('announces its agent once and arrives with the name', () => {
    const simulation = agreed();
    const { client, server } = simulation;
    client.core.channel.send(text('1', 'worker'));
    client.core.channel.send(text('2', 'worker'));
    client.core.channel.request(text('3', 'other'));
    client.core.channel.send(text('4'));
    simulation.settle();
    expect(kinds(client.sent)).toEqual([
      LinkKind.ALIAS,
      LinkKind.MESSAGE,
      LinkKind.ALIAS,
      LinkKind.REQUEST,
      LinkKind.MESSAGE,
      LinkKind.MESSAGE,
    ]);
    expect(eventsOf(server, 'message').map(({ body }) => body.address)).toEqual([
      'worker',
      'worker',
      undefined,
    ]);
    expect(eventsOf(server, 'request').map(({ body }) => body.address)).toEqual(['other']);
    // One byte more than a body without an address.
    const [, second] = client.sent.filter(
      (frame) => frame instanceof Uint8Array && frame[0] === (0x10 | LinkKind.MESSAGE),
    );
    expect(second).toHaveLength(5);
  });

  it('keeps its agent in fragments although its number is given to another agent in between', () => {
    const simulation = agreed();
    const { client, server } = simulation;
    client.core.channel.request(plain(new Uint8Array(3 * MAX_FRAGMENT_SIZE), 'first'));
    for (let i = 0; i < 2 * MAX_ALIASES; i++) client.core.channel.send(text('x', `agent-${i}`));
    simulation.settle();
    const [request] = eventsOf(server, 'request');
    expect([request?.body.address, request?.body.bytes.length]).toEqual(['first', 3 * MAX_FRAGMENT_SIZE]);
    expect(eventsOf(server, 'message').map(({ body }) => body.address)).toEqual(
      Array.from({ length: 2 * MAX_ALIASES }, (_, i) => `agent-${i}`),
    );
  });

  it('arrives with its name on another connection', () => {
    const simulation = agreed();
    const { client, server } = simulation;
    client.core.channel.send(text('lost', 'worker'));
    // Written, and lost together with its announcement.
    while (client.core.pollTransmit() !== undefined);
    simulation.cut();
    client.core.channel.send(text('later', 'worker'));
    simulation.reconnect();
    expect(
      eventsOf(server, 'message').map(({ body }) => [new TextDecoder().decode(body.bytes), body.address]),
    ).toEqual([
      ['lost', 'worker'],
      ['later', 'worker'],
    ]);
    expect(kinds(client.sent).filter((kind) => kind === LinkKind.ALIAS)).toHaveLength(1);
  });

  it('is refused at the sending end if addressing was not negotiated', () => {
    const simulation = createSimulation();
    simulation.settle();
    expect(() => simulation.client.core.channel.send(text('x', 'worker'))).toThrow(
      expect.objectContaining({ code: 'unsupported' }),
    );
  });

  it('calls onWritten with the number of frames so far', () => {
    const simulation = agreed();
    const written: number[] = [];
    const onWritten = (count: number) => written.push(count);
    simulation.client.core.channel.send({ ...plain(new Uint8Array(MAX_FRAGMENT_SIZE + 1), 'a'), onWritten });
    simulation.client.core.channel.send({ ...text('x', 'a'), onWritten });
    expect(written).toEqual([]);
    simulation.settle();
    expect(written).toEqual([3, 4]);
    simulation.advance(1000);
    expect(simulation.client.core.channel.framesConfirmed).toBe(4);
  });
});

describe('a violation of addressing', () => {
  const violation = (...frames: Uint8Array[]): unknown => {
    const simulation = agreed();
    for (const frame of frames) simulation.inject('client', frame);
    simulation.settle();
    return simulation.server.closedWith?.code;
  };
  const alias = (number: number, name: string) => encodeSignalFrame(LinkKind.ALIAS, number, encodeUtf8(name));
  const message = (kind: number, streamId: number, number: number) =>
    encodeBodyFrame({ ...text('x'), kind: kind as 0, streamId, alias: number }, 0, 1);

  it('is a number that was never announced or is out of range, or an invalid name', () => {
    expect(violation(message(LinkKind.MESSAGE, 0, 0))).toBe(4400);
    expect(violation(alias(0, 'a'), message(LinkKind.MESSAGE, 0, 1))).toBe(4400);
    expect(violation(alias(MAX_ALIASES - 1, 'a'))).toBeUndefined();
    expect(violation(alias(MAX_ALIASES, 'a'))).toBe(4400);
    expect(violation(alias(0, 'x'.repeat(128)))).toBeUndefined();
    expect(violation(alias(0, 'x'.repeat(129)))).toBe(4400);
    expect(violation(alias(0, 'a b'))).toBe(4400);
    expect(violation(alias(0, `~${'x'.repeat(127)}`))).toBeUndefined();
    expect(violation(alias(0, '~'))).toBe(4400);
    expect(violation(alias(0, ''))).toBe(4400);
    expect(violation(encodeSignalFrame(LinkKind.ALIAS, 0, Uint8Array.of(0xff)))).toBe(4400);
  });

  it('is a reply with an address', () => {
    const simulation = agreed();
    simulation.server.core.channel.request(text('?'));
    simulation.settle();
    simulation.inject('client', message(LinkKind.RESPONSE, 2, 0));
    simulation.settle();
    expect(simulation.server.closedWith?.code).toBe(4400);
  });

  it('is an alias or an address if addressing was not negotiated', () => {
    for (const frame of [alias(0, 'a'), message(LinkKind.MESSAGE, 0, 0)]) {
      const simulation = createSimulation();
      simulation.settle();
      simulation.inject('client', frame);
      simulation.settle();
      expect(simulation.server.closedWith?.code).toBe(4400);
    }
  });
});

describe('the tables of names', () => {
  it('stay bounded and equal for any number of agents', () => {
    const writer = new AliasWriter();
    const reader = new AliasReader();
    for (let i = 0; i < 5 * MAX_ALIASES; i++) {
      const name = `agent-${(i * 7919) % (2 * MAX_ALIASES)}`;
      let number = writer.aliasOf(name);
      if (number === undefined) {
        const frame = decodeLinkFrame(writer.announce(name));
        reader.handleAlias(frame.streamId, frame.rest);
        number = writer.aliasOf(name);
      }
      expect(number).toBeLessThan(MAX_ALIASES);
      expect(reader.nameOf(number as number)).toBe(name);
    }
  });
});
