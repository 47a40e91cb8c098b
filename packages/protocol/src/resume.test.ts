import { beforeEach, describe, expect, it } from 'vitest';
import { CloseCode } from './close-codes.js';
import { Extension } from './constants.js';
import { resolveTimers } from './limits.js';
import {
  createSimulation,
  type End,
  eventsOf,
  type Simulation,
  TEST_CAPABILITIES,
} from './testing/simulation.js';

/** A session that is taken up on another connection; what random histories do to it is in chaos.test.ts. */

const CAPABILITIES = {
  ...TEST_CAPABILITIES,
  extensions: { [Extension.LINK]: '{}', [Extension.RESUME]: '{}' },
};
const OPTIONS = { capabilities: CAPABILITIES, timers: resolveTimers({ resumeWindowMs: 10_000 }) };

let simulation: Simulation;
let client: End;
let server: End;
beforeEach(() => {
  simulation = createSimulation({ delayMs: 10, client: OPTIONS, server: OPTIONS });
  ({ client, server } = simulation);
  simulation.advance(100);
});

describe('a client whose attempt is refused as stale', () => {
  it('tries again: somebody else has said its HELLO before it', () => {
    simulation.cut();
    client.core.handleConnected(simulation.now);
    client.core.handleDisconnected(CloseCode.STALE_ATTEMPT, 'stale_attempt', simulation.now);
    expect(client.core.state).toBe('suspended');
    simulation.reconnect();
    simulation.advance(100);
    expect([client.core.state, server.core.state]).toEqual(['established', 'established']);
    expect(eventsOf(client, 'ended')).toEqual([]);
  });
});
