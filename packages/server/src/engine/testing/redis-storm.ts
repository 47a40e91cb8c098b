import { setTimeout as pause } from 'node:timers/promises';
import { seeded } from '../../../../protocol/src/testing/prose.js';
import type { EngineConnection } from '../engine.js';
import { redis } from '../redis.js';
import { startRedis } from './redis-server.js';
import { createSilentProxy, type SilentProxy } from './silent-proxy.js';

export interface StormOptions {
  /** Decides which faults connections and Redis have. The machine decides when. */
  readonly seed: number;
  readonly seconds: number;
  readonly engines: number;
  /** How long they have to answer afterwards, in milliseconds. */
  readonly patienceMs: number;
}

export interface StormReport {
  /** Engines that have answered after all was well. */
  readonly answered: number;
  /** How long that took the last of them, in milliseconds. */
  readonly tookMs: number;
  /** Connections that were opened. */
  readonly opened: number;
  /** Connections that are open at the end; each engine needs one. */
  readonly open: number;
}

/**
 * Asks many engines that `redis({ url })` has opened while connections are refused, reset and silenced, and while Redis is
 * paused, killed, and takes no more clients. Then all is well.
 */
export async function storm(options: StormOptions): Promise<StormReport> {
  const { seed, seconds, engines: count, patienceMs } = options;
  const random = seeded(seed);
  await using server = await startRedis();
  const engines: { proxy: SilentProxy; link: EngineConnection; answeredAt: number }[] = [];
  let isOver = false;
  for (let i = 0; i < count; i++) {
    const proxy = await createSilentProxy(Number(new URL(server.url).port));
    const link = redis({ url: `redis://127.0.0.1:${proxy.port}` }).connect();
    const engine = { proxy, link, answeredAt: 0 };
    engines.push(engine);
    void (async () => {
      for (; !isOver; await pause(20 + 60 * Math.random()))
        await link.renew(`node${i}`, '', 5_000).then(
          () => {
            engine.answeredAt = performance.now();
          },
          () => {},
        );
    })();
  }
  const setMaxClients = async (clients: number) => {
    await server.client.config('SET', 'maxclients', clients);
  };
  const end = performance.now() + 1_000 * seconds;
  while (performance.now() < end) {
    for (const { proxy } of engines) if (random() < 0.4) disturb(proxy, random());
    const chance = random();
    if (chance < 0.12) await setMaxClients(5);
    else if (chance < 0.3) await setMaxClients(10_000);
    else if (chance < 0.4) {
      server.pause();
      await pause(400 + 1_500 * random());
      server.go();
    } else if (chance < 0.45) {
      await server.kill();
      await pause(300);
      await server.restart();
    }
    await pause(200 + 800 * random());
  }
  await setMaxClients(10_000);
  for (const { proxy } of engines) proxy.arrivals = 'work';
  const healedAt = performance.now();
  const missing = () => engines.filter(({ answeredAt }) => answeredAt < healedAt).length;
  while (missing() > 0 && performance.now() - healedAt < patienceMs) await pause(20);
  const tookMs = Math.round(performance.now() - healedAt);
  const answered = count - missing();
  isOver = true;
  // Those that were given up are closed.
  await pause(200);
  const sum = (figure: (proxy: SilentProxy) => number) =>
    engines.reduce((total, { proxy }) => total + figure(proxy), 0);
  const report = { answered, tookMs, opened: sum(({ opened }) => opened), open: sum(({ open }) => open) };
  for (const { proxy, link } of engines) {
    await link.close();
    await proxy[Symbol.asyncDispose]();
  }
  return report;
}

function disturb(proxy: SilentProxy, chance: number): void {
  if (chance < 0.2) proxy.cut();
  else if (chance < 0.35) proxy.silence('all');
  else if (chance < 0.4) proxy.silence('answers');
  else if (chance < 0.55) {
    proxy.arrivals = 'refused';
    proxy.cut();
  } else if (chance < 0.65) proxy.arrivals = 'silent';
  else proxy.arrivals = 'work';
}
