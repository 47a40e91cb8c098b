import { afterEach, describe, expect, it, vi } from 'vitest';
import { RelayedMessages } from '../messages.js';
import { ReceivedMarks } from '../received-marks.js';
import { RemoteTarget } from './remote-target.js';
import { SimulatedDurableSession } from './testing/durable-session.js';
import { type Faults, History } from './testing/relay-history.js';

/** `RELAY_SEED=N RELAY_HISTORIES=1` repeats a history that has failed. */
const HISTORIES = Number(process.env['RELAY_HISTORIES'] ?? 8);
const FIRST = Number(process.env['RELAY_SEED'] ?? 1);
const SEEDS = Array.from({ length: HISTORIES }, (_, i) => FIRST + i);
const AGENTS = 5;
const ALL = { cut: 0.01, kill: 0.002, giveUp: 0.002, steal: 0.002 };

/** @param durable how many of the agents have durable sessions, which survive all of that. */
async function run(seed: number, durable: number, faults: Faults) {
  const history = new History(seed, durable);
  await history.run(faults);
  const isDurable = new Set(history.clients.slice(0, durable).map(({ name }) => name));
  const lost = new Set(history.clients.filter(({ isLost }) => isLost).map(({ name }) => name));
  // The node of the sender, which may have changed, reports what a plain session had when it died with its node.
  const found = history.verify().filter((fault) => {
    const [from = '', to = ''] = fault.split(' ');
    return !(fault.endsWith('was lost') && isDurable.has(from) && lost.has(to));
  });
  for (const { name, reported, unnumbered } of history.clients)
    for (const to of [...reported.keys(), ...unnumbered.keys()])
      if (isDurable.has(name) && isDurable.has(to)) found.push(`${name} was told that ${to} lacks messages`);
  await history.world.stop();
  return { history, found };
}

afterEach(() => vi.restoreAllMocks());

describe('messages between durable agents', { timeout: 600_000 }, () => {
  it.each([
    ['connections break', { cut: 0.01 }],
    ['nodes die', { kill: 0.004 }],
    ['nodes give sessions up', { giveUp: 0.004 }],
    ['nodes take sessions from those that have them', { steal: 0.004 }],
    ['all of it happens', ALL],
  ])('are heard once and in order, and none is reported, while %s', async (_, faults) => {
    for (const seed of SEEDS) {
      const { history, found } = await run(seed, AGENTS, faults);
      expect(found, `seed ${seed}`).toEqual([]);
      const heard = history.clients.flatMap((client) => [...client.heard.values()]);
      expect(heard.flat().length).toBeGreaterThan(200);
    }
  });

  it('and plain ones are heard once and in order, or reported, while all of it happens', async () => {
    let [moves, takeOvers] = [0, 0];
    for (const seed of SEEDS) {
      const faults = { ...ALL, cut: 0.005, kill: 0.001, move: 0.02 };
      const { history, found } = await run(seed, 3, faults);
      expect(found, `seed ${seed}`).toEqual([]);
      moves += history.moves;
      takeOvers += history.takeOvers;
    }
    expect(moves).toBeGreaterThan(SEEDS.length);
    expect(takeOvers).toBeGreaterThan(SEEDS.length);
  });

  it.each<[string, () => unknown]>([
    ['receivers remember nothing', () => vi.spyOn(ReceivedMarks.prototype, 'check').mockReturnValue('new')],
    [
      'the messages that were heard are not recorded',
      () =>
        vi.spyOn(SimulatedDurableSession.prototype, 'core', 'get').mockImplementation(function (
          this: SimulatedDurableSession,
        ) {
          return { ...this.plainCore, record: { ...this.durable, hear: () => {} } };
        }),
    ],
    [
      'a message counts as taken before it is recorded',
      () =>
        vi.spyOn(SimulatedDurableSession.prototype, 'core', 'get').mockImplementation(function (
          this: SimulatedDurableSession,
        ) {
          return {
            ...this.plainCore,
            record: { ...this.durable, afterCommit: (then: () => void) => then() },
          };
        }),
    ],
    [
      'nothing is sent again to another node',
      () => vi.spyOn(RemoteTarget.prototype, 'handleAgain').mockReturnValue(),
    ],
    [
      'what a node gives up is not sent elsewhere',
      () => vi.spyOn(RelayedMessages.prototype, 'handleAway').mockReturnValue(),
    ],
  ])('breaks this if %s', async (_, plant) => {
    plant();
    for (let seed = 1; seed <= 40; seed++) if ((await run(seed, AGENTS, ALL)).found.length > 0) return;
    expect.unreachable('40 histories have noticed nothing');
  });
});
