import type { IncomingMessage } from 'node:http';
import { Subprotocol } from '@parlance/protocol';
import { MemoryBudget, SILENT_LOGGER, systemClock } from '@parlance/protocol/internal';
import { expect, it, vi } from 'vitest';
import { InstalledFeatures, type ServerOfFeatures } from '../server/features/installed-features.js';
import { NODE, nodeInMemory } from '../server/features/own-feature.js';
import { resolveServerOptions } from '../server/server-options.js';
import { Sessions } from '../server/sessions.js';
import type { Transport } from '../transport/transport.js';
import { FREE_UNFINISHED } from '../transport/unfinished-message.js';
import type { ProxyTarget } from './admission/lookup.js';
import { Connection } from './connection.js';
import type { ServerEndpoint } from './endpoint.js';

it('is read again when the session comes here while its message waits for memory', ({ onTestFinished }) => {
  // Time that passes here would hold the connection as well: the loop is shared.
  const clock = vi.spyOn(systemClock, 'now').mockReturnValue(0);
  onTestFinished(() => clock.mockRestore());
  const options = resolveServerOptions({});
  const sessions = new Sessions(
    options,
    () => new InstalledFeatures([], {} as ServerOfFeatures, SILENT_LOGGER, [[NODE, nodeInMemory()]]),
    () => undefined,
  );
  let holds = 0;
  const wire: Transport = {
    traffic: { sent: 0, received: 0 },
    overhead: 14,
    bufferedAmount: 0,
    send() {},
    close() {},
    terminate() {},
    listen() {},
    hold: () => holds++,
    unhold: () => holds--,
  };
  const request = { headers: {} } as IncomingMessage;
  const connection = new Connection(sessions, wire, { ip: '::1', request }, Subprotocol.BINARY, undefined);

  // Room for one step of the message, and a second one that waits.
  const memory = new MemoryBudget(options.processMemory).open(1);
  const proxy = { memory, longestMessage: 4e6, wire, onHandedOver() {} } as unknown as ProxyTarget;
  connection.handOver(proxy);
  connection.onData(FREE_UNFINISHED + 1);
  expect(holds).toBe(0);
  connection.onData(2e6);
  expect(holds).toBe(1);

  const here = { memory: new MemoryBudget(options.processMemory).open(4e6), longestMessage: 4e6 };
  proxy.onHandedOver(here as unknown as ServerEndpoint);
  // As a proxy does next: what waits for its memory will never have it.
  memory.close();
  expect(holds).toBe(0);
  // The message is charged to the session now, from its beginning.
  connection.onData(1);
  expect(here.memory.used).toBeGreaterThan(0);
});
