import { describe, expect, it } from 'vitest';
import { createRenewal } from './renewal.js';

const settle = () => new Promise((resolve) => setImmediate(resolve));

/** A renewal with timers that the test fires. */
function bench(askToken: (() => Promise<string | undefined>) | undefined) {
  const timers = new Map<() => void, number>();
  const sent: string[] = [];
  const warnings: unknown[] = [];
  const warn = (fields: Readonly<Record<string, unknown>>) => void warnings.push(fields['event']);
  let left = 0;
  const renewal = createRenewal({
    askToken,
    leave: () => void left++,
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
    left: () => left,
    delays: () => [...timers.values()],
    async fire() {
      const [task] = timers.keys();
      if (task === undefined) throw new Error('no timer is set');
      timers.delete(task);
      task();
      await settle();
    },
  };
}

describe('the renewal of credentials', () => {
  it.each([
    [1_000, 750],
    [240_000, 180_000],
    [3_600_000, 3_540_000],
    [1e12, 2 ** 31 - 1],
  ])('of credentials valid for %i ms starts after %i ms', async (expiresInMs, delay) => {
    const { renewal, delays, fire, sent } = bench(async () => 'next');
    renewal.handleGranted(expiresInMs);
    expect(delays()).toEqual([delay]);
    await fire();
    expect(sent).toEqual(['next']);
    expect(delays()).toEqual([]);
  });

  it.each([0, 1, 300])('of credentials valid for %i ms does not begin at once', (expiresInMs) => {
    const { renewal, delays } = bench(async () => 'next');
    renewal.handleGranted(expiresInMs);
    expect(delays()).toEqual([250]);
  });

  it('does nothing if the credentials do not expire', () => {
    const { renewal, delays } = bench(async () => 'next');
    renewal.handleGranted(1_000);
    renewal.handleGranted(Infinity);
    expect(delays()).toEqual([]);
  });

  it('warns once if there is no token function', () => {
    const { renewal, delays, warnings } = bench(undefined);
    renewal.handleGranted(1_000);
    expect([delays(), warnings]).toEqual([[], ['token.final']]);
  });

  it('retries, and gives the connection up before the credentials expire', async () => {
    let asked = 0;
    const { renewal, delays, fire, sent, warnings, left } = bench(async () => {
      asked++;
      throw new Error('the identity provider is away');
    });
    renewal.handleGranted(1_000);
    await fire();
    for (let i = 1; i <= 4; i++) {
      expect([delays(), asked, warnings.length, left()]).toEqual([[50], i, i, 0]);
      await fire();
    }
    // 750 ms and four times 50 ms have passed of 1,000.
    expect([delays(), sent, asked, warnings.length, left()]).toEqual([[], [], 4, 4, 1]);
  });

  it('counts a token function that does not answer as one that failed, and takes its answer if it comes', async () => {
    const answers: ((token: string) => void)[] = [];
    const asked = () => new Promise<string>((resolve) => answers.push(resolve));
    const { renewal, delays, fire, sent, warnings } = bench(asked);
    renewal.handleGranted(1_000);
    await fire();
    for (let i = 1; i <= 3; i++) {
      expect([delays(), answers.length, warnings.length]).toEqual([[50], i, i - 1]);
      await fire();
    }
    expect(warnings).toEqual(Array(3).fill('token.failed'));
    answers[1]?.('the second');
    answers[3]?.('the last');
    await settle();
    expect([delays(), sent]).toEqual([[], ['the second']]);
  });

  it('says so if no answer comes before the credentials expire', async () => {
    const { renewal, delays, fire, warnings } = bench(() => new Promise<string>(() => {}));
    renewal.handleGranted(1_000);
    for (let i = 0; i <= 4; i++) await fire();
    expect([delays(), warnings.length]).toEqual([[], 4]);
  });

  it('sends no credentials that were requested before it was stopped', async () => {
    let answer: (token: string) => void = () => {};
    const asked = new Promise<string>((resolve) => {
      answer = resolve;
    });
    const { renewal, fire, sent } = bench(() => asked);
    renewal.handleGranted(1_000);
    await fire();
    renewal.stop();
    answer('late');
    await asked;
    expect(sent).toEqual([]);
  });
});
