import { connect, type Session } from '@parlance/client';
import { cluster, createServer } from '@parlance/server';
import { redis } from '@parlance/server/redis';
import WebSocket from 'ws';
import { startRedis } from '../../packages/server/src/engine/testing/redis-server.js';
import { median } from './statistics.js';

/**
 * The load of kept replies on Redis, per 1,000 parts: commands of clients (those within scripts left out) and bytes that
 * it gets and gives. Run by hand: `node --import tsx --conditions=@parlance/source bench/src/kept-in-redis.ts`.
 */

const PARTS = 1_000;
const ROUNDS = 3;
const SECRET = 'a secret of the bench';

await using server = await startRedis();
const monitor = await server.client.monitor();
let commands = new Map<string, number>();
monitor.on('monitor', (_time: string, args: string[], source: string) => {
  const [name = '', ...rest] = args;
  // Leases and agents have other keys; INFO is this program's.
  if (source === 'lua' || !rest.some((arg) => /^parlance:(\{[owt]:|\{shared|[rn]:)/.test(arg))) return;
  const key = /^eval/i.test(name) ? 'script' : name.toLowerCase();
  commands.set(key, (commands.get(key) ?? 0) + 1);
});

const servers = [0, 1].map(() =>
  createServer({
    engine: redis({ url: server.url }),
    features: [cluster({ secret: SECRET })],
    authenticate: ({ token = '' }) => ({ principal: token }),
    limits: { messagesPerMinute: Infinity },
    async *onRequest(request, { keep }) {
      keep({ name: request.text });
      const due = performance.now();
      const pace = Number(request.text.split(' ')[0]);
      for (let i = 0; i < PARTS; i++) {
        yield 'word ';
        const wait = due + (i + 1) * pace - performance.now();
        if (wait > 0) await new Promise((resolve) => setTimeout(resolve, wait));
      }
    },
  }),
);
const urls: string[] = [];
for (const node of servers) urls.push((await node.listen({ port: 0 })).url);
const sessions: Session[] = [];
for (const url of urls) sessions.push(await connect(url, { WebSocket, token: 'ada' }));
const [asking, following] = sessions as [Session, Session];

async function bytes(): Promise<{ readonly got: number; readonly gave: number }> {
  const stats = await server.client.info('stats');
  const of = (name: string) => Number(new RegExp(`${name}:(\\d+)`).exec(stats)?.[1]);
  // The output of MONITOR is beside the point, so only bytes from clients and to followers count.
  return { got: of('total_net_input_bytes'), gave: of('total_net_output_bytes') };
}

/** Bytes per second that leases and the rest take. */
async function idle(): Promise<number> {
  const before = await bytes();
  await new Promise((resolve) => setTimeout(resolve, 5_000));
  return ((await bytes()).got - before.got) / 5;
}

const perSecond = await idle();
console.log(`idle: ${perSecond.toFixed(0)} B/s in`);
for (const pace of [33, 10, 4, 0])
  for (const followers of [0, 1]) {
    const found: { commands: number; kinds: string; got: number; seconds: number }[] = [];
    for (let round = 0; round < ROUNDS; round++) {
      commands = new Map();
      const [before, from] = [await bytes(), performance.now()];
      const asked = asking.stream(`${pace} ms, ${followers}, ${round}`);
      const parts = asked[Symbol.asyncIterator]();
      await parts.next();
      const readings = Array.from({ length: followers }, async () => {
        for await (const _part of following.follow(asked.keptId ?? ''));
      });
      while ((await parts.next()).done !== true);
      await Promise.all(readings);
      const seconds = (performance.now() - from) / 1_000;
      const got = (await bytes()).got - before.got - perSecond * seconds;
      const kinds = [...commands].map(([name, count]) => `${name} ${count}`).join(', ');
      found.push({ commands: [...commands.values()].reduce((sum, n) => sum + n, 0), kinds, got, seconds });
    }
    const of = (pick: (each: (typeof found)[number]) => number) => median(found.map(pick)).toFixed(0);
    console.log(
      `a part every ${pace} ms, ${followers} followers at another node: ${of((each) => each.commands)} commands, ` +
        `${(Number(of((each) => each.got)) / 1_000).toFixed(1)} kB in, ${of((each) => each.seconds)} s (${found[0]?.kinds})`,
    );
  }
for (const session of sessions) await session.close();
for (const node of servers) await node.close();
monitor.disconnect();
