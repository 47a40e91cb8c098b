import { Extension, resolveLimits, resolveTimers, Subprotocol } from '@parlance/protocol';
import { SILENT_LOGGER } from '@parlance/protocol/internal';
import { describe, expect, it } from 'vitest';
import { MemoryServer } from './connection/testing/memory-server.js';
import { MemoryTransport } from './connection/testing/memory-transport.js';
import { settled, VirtualClock } from './connection/testing/virtual-clock.js';
import { open } from './opening.js';
import type { Setup } from './session/module.js';

const OPTIONS = {
  subprotocol: Subprotocol.BINARY,
  capabilities: {
    securityScanning: false,
    maxPayloadSize: 0,
    algorithms: ['NONE'] as const,
    encodings: [],
    vocabularies: {},
    extensions: { [Extension.LINK]: '{}', [Extension.RESUME]: '{}' },
  },
  limits: resolveLimits(),
  timers: resolveTimers({ resumeWindowMs: 60_000 }),
};

describe.each([true, false])(
  'a transport that is a value of the plan, and takes HELLO early: %s',
  (takesHello) => {
    it('carries a session, which is cut, and resumed on another connection with what was sent meanwhile', async () => {
      const clock = new VirtualClock();
      const transport = new MemoryTransport({ takesHello, closesAtOnce: true });
      const server = new MemoryServer(transport, OPTIONS, clock);
      const setup = {
        url: new URL('ws://nowhere/session'),
        options: { reconnect: { minDelayMs: 100, maxDelayMs: 100 } },
        limits: OPTIONS.limits,
        clock,
        logger: SILENT_LOGGER,
      } as Partial<Setup> as Setup;
      const opening = open(setup, [{ plan: { transport: () => transport } }]);
      const states: string[] = [];
      const answer = async (connection: number) => {
        await expect.poll(() => transport.connections.length).toBe(connection + 1);
        transport.connections[connection]?.open();
        server.exchange();
        await settled();
      };
      await answer(0);
      const session = await opening;
      session.on('state', (state) => states.push(state));
      await session.send('one');
      server.exchange();
      expect([server.messages.length, session.state]).toEqual([1, 'established']);

      transport.connections[0]?.lose();
      await session.send('two');
      await clock.pass(100);
      await answer(1);
      server.exchange();
      expect([server.messages.length, server.hellos.length, states]).toEqual([
        2,
        1,
        ['suspended', 'established'],
      ]);

      const closed = session.close();
      const state = () => {
        server.exchange();
        return session.state;
      };
      await expect.poll(state).toBe('closed');
      await closed;
      expect([transport.connections.length, clock.tasks]).toEqual([2, 0]);
    });
  },
);

it('a transport that cannot open connections fails `connect` with its error', async () => {
  const transport = new MemoryTransport();
  transport.open = () => {
    throw new RangeError('not here');
  };
  const setup = {
    url: new URL('ws://nowhere'),
    options: {},
    limits: OPTIONS.limits,
    clock: new VirtualClock(),
  };
  const opening = open({ ...setup, logger: SILENT_LOGGER } as Partial<Setup> as Setup, [
    { plan: { transport: () => transport } },
  ]);
  await expect(opening).rejects.toThrow('not here');
});
