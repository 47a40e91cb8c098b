import { describe, expect, it } from 'vitest';
import { createRenewal } from './renewal.js';

/** Timers that run when they are told to. */
function bench(askToken: (() => Promise<string | undefined>) | undefined) {
  const timers = new Map<() => void, number>();
  const sent: string[] = [];
  const warnings: unknown[] = [];
  const warn = (fields: Readonly<Record<string, unknown>>) => void warnings.push(fields['event']);
  const renewal = createRenewal({
    askToken,
    authenticate: (token) => sent.push(token),
    clock: {
      after(ms, task) {
        timers.set(task, ms);
        return () => timers.delete(task);
      },
    },
    logger: { debug: warn, info: warn, warn, error: warn },
  });
  return {
    renewal,
    sent,
    warnings,
    delays: () => [...timers.values()],
    async strike() {
      const [task] = timers.keys();
      if (task === undefined) throw new Error('no timer is set');
      timers.delete(task);
      task();
      await new Promise((resolve) => setImmediate(resolve));
    },
  };
}

describe('the renewal of credentials', () => {
  it.each([
    [1_000, 750],
    [240_000, 180_000],
    [3_600_000, 3_540_000],
    [1e12, 2 ** 31 - 1],
  ])('of those that last %i ms asks after %i ms', async (expiresInMs, delay) => {
    const { renewal, delays, strike, sent } = bench(async () => 'next');
    renewal.handleGranted(expiresInMs);
    expect(delays()).toEqual([delay]);
    await strike();
    expect(sent).toEqual(['next']);
    expect(delays()).toEqual([]);
  });

  it('does nothing for those that do not end', () => {
    const { renewal, delays } = bench(async () => 'next');
    renewal.handleGranted(1_000);
    renewal.handleGranted(Infinity);
    expect(delays()).toEqual([]);
  });

  it('warns once where there is nobody to ask', () => {
    const { renewal, delays, warnings } = bench(undefined);
    renewal.handleGranted(1_000);
    expect([delays(), warnings]).toEqual([[], ['token.final']]);
  });

  it('asks again while there is time, and then no more', async () => {
    let asked = 0;
    const { renewal, delays, strike, sent, warnings } = bench(async () => {
      asked++;
      throw new Error('the identity provider is away');
    });
    renewal.handleGranted(1_000);
    await strike();
    for (let i = 0; i < 3; i++) {
      expect(delays()).toEqual([62.5]);
      await strike();
    }
    expect([delays(), sent, asked, warnings.length]).toEqual([[], [], 4, 4]);
  });

  it('sends nothing that was asked for before it was stopped', async () => {
    let answer: (token: string) => void = () => {};
    const asked = new Promise<string>((resolve) => {
      answer = resolve;
    });
    const { renewal, strike, sent } = bench(() => asked);
    renewal.handleGranted(1_000);
    await strike();
    renewal.stop();
    answer('late');
    await asked;
    expect(sent).toEqual([]);
  });
});
