import { createSession, type Message, resolveLimits, resolveTimers, Subprotocol } from '@parlance/protocol';
import { type Clock, resolveCapabilities, type Wire } from '@parlance/protocol/internal';
import { expect, it } from 'vitest';
import { loadCapabilities } from '../base/load-codecs.js';
import { ServerEndpoint } from './endpoint.js';

/** A server's endpoint and its client's core, in virtual time. */
async function connect(onRest: () => void = () => {}) {
  const time = { now: 0 };
  const limits = resolveLimits();
  const offered = resolveCapabilities({ algorithms: ['NONE', 'BROTLI'], encodings: [] }, limits);
  const capabilities = await loadCapabilities(offered, console as never);
  const options = { subprotocol: Subprotocol.BINARY, capabilities, limits, timers: resolveTimers() };
  const client = createSession({ ...options, role: 'client' });
  const core = createSession({ ...options, role: 'server' });
  const later: (() => void)[] = [];
  const clock: Clock = {
    timeOrigin: 0,
    now: () => time.now,
    after: (_ms, task) => {
      later.push(task);
      return () => {};
    },
    soon: (item) => void later.push(() => item.handleTick()),
    yield: async () => {},
  };
  const onHello = () => void core.accept('sess_rest', time.now);
  const endpoint = new ServerEndpoint({ core, clock, limits, role: 'server', onHello, onRest });
  const heard: string[] = [];
  const wire: Wire = {
    bufferedAmount: 0,
    send: (frame) => client.handleMessage(typeof frame === 'string' ? frame : frame.slice(), time.now),
    close() {},
  };
  const exchange = () => {
    for (let frame = client.pollTransmit(); frame !== undefined; frame = client.pollTransmit())
      endpoint.handleMessage(typeof frame === 'string' ? frame : frame.slice());
    for (let event = client.pollEvent(); event !== undefined; event = client.pollEvent()) {
      if (event.type !== 'message') continue;
      heard.push(Buffer.from(event.body.bytes).toString());
      client.channel.consume(0, event.body.charge);
    }
  };
  const pass = (ms: number) => {
    for (let end = time.now + ms; time.now < end; time.now += 100) {
      client.handleTimeout(time.now);
      exchange();
      for (const task of later.splice(0)) task();
      if (time.now % 1_000 === 0) endpoint.handleTick();
    }
  };
  client.handleConnected(time.now);
  endpoint.handleConnected(wire);
  exchange();
  const say = (text: string) => {
    const bytes = Buffer.from(text);
    client.channel.send({
      codec: 0,
      bytes,
      originalLength: bytes.length,
      secret: false,
      metadata: undefined,
    });
    exchange();
  };
  const read = async (messages: AsyncIterator<Message>) => (await messages.next()).value?.text;
  return { endpoint, heard, pass, say, read };
}

it('a session lets go of its coder and its link ten seconds after its last message, and continues', async () => {
  let rests = 0;
  const { endpoint, heard, pass, say, read } = await connect(() => rests++);
  const messages = endpoint.session[Symbol.asyncIterator]();
  for (const round of [1, 2, 3]) {
    say(`to the server ${round}`);
    expect(await read(messages)).toBe(`to the server ${round}`);
    const { coder } = endpoint;
    await endpoint.session.send(`to the client ${round}`);
    pass(7_000);
    expect([endpoint.core.isAwake, rests]).toEqual([true, round - 1]);
    expect(endpoint.coder).toBe(coder);
    pass(3_000);
    expect([endpoint.core.isAwake, rests]).toEqual([false, round]);
    expect(endpoint.coder).not.toBe(coder);
  }
  expect(heard).toEqual(['to the client 1', 'to the client 2', 'to the client 3']);
  expect(endpoint.stats().sent.messages).toBe(3);
});

it('a session does not rest while its application has a message to read, or is to move', async () => {
  const { endpoint, pass, say, read } = await connect();
  const messages = endpoint.session[Symbol.asyncIterator]();
  say('unread');
  pass(20_000);
  expect(endpoint.core.isAwake).toBe(true);
  expect(await read(messages)).toBe('unread');
  endpoint.holdInput();
  pass(20_000);
  expect(endpoint.core.isAwake).toBe(true);
  endpoint.thaw();
  pass(2_000);
  expect(endpoint.core.isAwake).toBe(false);
});
