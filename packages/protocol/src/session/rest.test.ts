import { describe, expect, it } from 'vitest';
import { Extension } from '../base/constants.js';
import { resolveTimers } from '../base/limits.js';
import { encodeUtf8 } from '../base/text.js';
import { plainBody } from '../codec/body.js';
import { createSimulation, eventsOf, TEST_CAPABILITIES } from '../testing/simulation.js';
import type { ServerSessionCore } from './types.js';

const CAPABILITIES = {
  ...TEST_CAPABILITIES,
  extensions: { [Extension.LINK]: '{}', [Extension.RESUME]: '{}', [Extension.AGENTS]: '{}' },
};
const PING_MS = 30_000;
/** So that the server asks first. */
const SLOW_CLIENT = resolveTimers({ pingIntervalMs: 2 * PING_MS });

/**
 * A session whose client has sent a message that was read, and has got one.
 *
 * @param pingIntervalMs of the server.
 */
function used(pingIntervalMs = 2 * PING_MS) {
  const simulation = createSimulation({
    client: { capabilities: CAPABILITIES, timers: SLOW_CLIENT },
    server: { capabilities: CAPABILITIES, timers: resolveTimers({ pingIntervalMs }) },
  });
  const core = simulation.server.core as ServerSessionCore;
  const say = (text: string) => {
    simulation.client.core.channel.send(plainBody(encodeUtf8(text)));
    simulation.settle();
  };
  const read = () => {
    const { body } = eventsOf(simulation.server, 'message').at(-1) as { body: { charge: number } };
    core.channel.consume(0, body.charge);
    simulation.settle();
  };
  simulation.settle();
  say('one');
  read();
  core.channel.send(plainBody(encodeUtf8('two')));
  simulation.advance(1_000);
  return { simulation, core, say, read, rest: () => core.rest(simulation.now) };
}

describe('a session that has carried nothing', () => {
  it('has no link, and none after a rest', () => {
    const simulation = createSimulation();
    simulation.settle();
    const core = simulation.server.core as ServerSessionCore;
    expect([core.state, core.rest(simulation.now), core.isAwake]).toEqual(['established', true, false]);
    expect(core.channel.framesReceived).toBe(0);
  });
});

describe('a session that rests', () => {
  it('has let go of its link, and has the counts that it had', () => {
    const { core, rest } = used();
    const counts = () => {
      const { framesReceived, framesConfirmed, framesUnconfirmed, openStreams, sentBodies } = core.channel;
      return [framesReceived, framesConfirmed, framesUnconfirmed, openStreams, sentBodies?.messages];
    };
    const before = counts();
    expect([core.isAwake, rest(), core.isAwake]).toEqual([true, true, false]);
    expect([counts(), before]).toEqual([before, [1, 1, 0, 0, 1]]);
  });

  it('takes new memory for the frames that it writes after a rest, as it keeps none', () => {
    const { core, rest, simulation } = used();
    const write = () => {
      core.channel.send(plainBody(encodeUtf8('more')));
      return core.pollTransmit() as Uint8Array;
    };
    const [first, second] = [write(), write()];
    expect(second.buffer).toBe(first.buffer);
    for (const frame of [first, second]) simulation.inject('server', frame);
    simulation.advance(1_000);
    expect(rest()).toBe(true);
    expect(write().buffer).not.toBe(first.buffer);
  });

  it('answers PING, sends PING and hears PONG without waking', () => {
    const { core, rest, simulation } = used(PING_MS);
    rest();
    simulation.advance(5 * PING_MS);
    expect(core.roundTripMs).toBeDefined();
    expect([core.state, core.isAwake]).toEqual(['established', false]);
  });

  it('continues when either end sends', () => {
    const { core, rest, simulation, say, read } = used();
    for (let round = 0; round < 3; round++) {
      expect(rest()).toBe(true);
      say(`again ${round}`);
      read();
      core.channel.send(plainBody(encodeUtf8(`back ${round}`)));
      simulation.advance(1_000);
    }
    expect(eventsOf(simulation.server, 'message').length).toBe(4);
    expect(eventsOf(simulation.client, 'message').length).toBe(4);
  });

  it('is resumed after its connection was lost, and writes what it was told meanwhile', () => {
    const { core, rest, simulation } = used();
    rest();
    simulation.cut();
    expect(rest()).toBe(false);
    core.channel.send(plainBody(encodeUtf8('meanwhile')));
    simulation.reconnect();
    simulation.advance(1_000);
    expect(eventsOf(simulation.client, 'message').length).toBe(2);
    expect([core.state, rest()]).toEqual(['established', true]);
  });
});

describe('a session stays awake', () => {
  it('while a message is unread', () => {
    const { rest, say, read, simulation } = used();
    say('unread');
    simulation.advance(1_000);
    expect(rest()).toBe(false);
    read();
    expect(rest()).toBe(true);
  });

  it('while a frame is not acknowledged, by either end', () => {
    const { core, rest, say, read, simulation } = used();
    say('not acknowledged');
    read();
    expect(rest()).toBe(false);
    simulation.advance(1_000);
    expect(rest()).toBe(true);
    core.channel.send(plainBody(encodeUtf8('not confirmed')));
    core.pollTransmit();
    expect(rest()).toBe(false);
  });

  it('while a stream is open', () => {
    const { core, rest, simulation } = used();
    const streamId = simulation.client.core.channel.request(plainBody(encodeUtf8('?')));
    simulation.settle();
    const { body } = eventsOf(simulation.server, 'request')[0] as { body: { charge: number } };
    core.channel.consume(streamId, body.charge);
    simulation.advance(1_000);
    expect(rest()).toBe(false);
    core.channel.respond(streamId, plainBody(encodeUtf8('!')));
    simulation.advance(1_000);
    expect(rest()).toBe(true);
  });

  it('while its credit is held back', () => {
    const { core, rest } = used();
    core.channel.holdCredit(true);
    expect(rest()).toBe(false);
    core.channel.holdCredit(false);
    expect(rest()).toBe(true);
  });
});
