import { randomBytes } from 'node:crypto';
import { connect, type Session } from '@parlance/client';
import { cluster, memoryCluster } from '@parlance/server';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { redisMissing, startRedis } from '../../../packages/server/src/engine/testing/redis-server.js';
import { createCuttingProxy } from '../kit/cutting-proxy.js';
import { createPeers } from '../kit/peers.js';
import { startDurableNode } from '../kit/programs.js';
import { UNLIMITED } from '../kit/unlimited.js';
import { PLAIN, proxyMissing, startProxyWith } from '../proxies/proxy-server.js';
import { withoutUpgrades } from '../proxies/without-upgrades.js';
import { CLIENT, echoTensor, interact, serving } from './interactions.js';

/**
 * 2,000 messages each way through 40 cuts, and then all that sessions do besides, where WebSockets are refused, held or cut, and through
 * proxies as they are.
 */

const MESSAGES = 2_000;
const CUTS = 40;
const EAGER = { reconnect: { minDelayMs: 5, maxDelayMs: 50 } };

let peers = createPeers();
beforeEach(() => {
  peers = createPeers();
});
afterEach(() => peers[Symbol.asyncDispose]());

type Ports = () => readonly number[];
/** @returns the port at which the servers are reached. */
type Network = (ports: Ports) => Promise<AsyncDisposable & { readonly port: number }>;

function inTurns(ports: Ports): () => number {
  let turn = 0;
  return () => {
    const all = ports();
    return all[turn++ % all.length] as number;
  };
}

const NETWORKS: readonly (readonly [string, Network, string | undefined])[] = [
  ['that refuses upgrades', (ports) => withoutUpgrades(inTurns(ports), 'refuse'), undefined],
  ['that cuts WebSockets after 3 s', (ports) => withoutUpgrades(inTurns(ports), 'cut after 3 s'), undefined],
  [
    'that holds the first frames',
    (ports) => withoutUpgrades(inTurns(ports), 'hold the frames behind'),
    undefined,
  ],
  ['of nginx', (ports) => startProxyWith('nginx', PLAIN.nginx(ports())), proxyMissing('nginx')],
  ['of HAProxy', (ports) => startProxyWith('haproxy', PLAIN.haproxy(ports())), proxyMissing('haproxy')],
];

/** Says numbers, and cuts all connections again and again while answers come. @returns the answers. */
async function talkThroughCuts(
  session: Session,
  cut: () => void,
  midway: () => Promise<void> = async () => {},
): Promise<readonly string[]> {
  const heard: string[] = [];
  const reading = (async () => {
    for await (const { text } of session) {
      heard.push(text);
      if (heard.length % (MESSAGES / CUTS) === 25) cut();
      if (heard.length === MESSAGES) return;
    }
  })();
  for (let i = 0; i < MESSAGES; i++) {
    await session.send(`${i}`);
    if (i === MESSAGES / 2) await midway();
    // A little ahead of the answers, so that each cut meets messages in both directions.
    while (i - heard.length > 100) await new Promise((resolve) => setTimeout(resolve, 1));
  }
  await reading;
  return heard;
}

const NUMBERS = Array.from({ length: MESSAGES }, (_, i) => `${i}`);

describe.each([1, 2])('with %i node(s), each message arrives once, in a network', (nodes) => {
  for (const [name, networkFor, missing] of NETWORKS)
    it.skipIf(missing)(name, async () => {
      const engine = memoryCluster();
      const heard: string[] = [];
      let begun = 0;
      const { served, options } = serving();
      const ports: number[] = [];
      for (let i = 0; i < nodes; i++) {
        const { port } = await peers.serve({
          ...options,
          engine,
          features: [cluster()],
          limits: UNLIMITED,
          async onSession(session) {
            begun++;
            for await (const message of session) {
              const { tensor } = message;
              if (tensor !== undefined) await echoTensor(session, tensor, served);
              else {
                heard.push(message.text);
                await session.send(message.text);
              }
            }
          },
        });
        ports.push(port);
      }
      const network = peers.use(await networkFor(() => ports));
      const proxy = peers.use(await createCuttingProxy(network.port));
      // HAProxy lets WebSockets pass.
      const transports = name === 'of HAProxy' ? (['http'] as const) : undefined;
      const url = `ws://127.0.0.1:${proxy.port}/session`;
      const session = peers.use(await connect(url, { ...EAGER, ...CLIENT, transports }));
      // The network alone decides that, before the test cuts connections as well.
      await expect.poll(() => session.transport).toBe('http');
      let cuts = 0;
      const answers = await talkThroughCuts(session, () => {
        cuts++;
        proxy.cut();
      });
      expect(answers).toEqual(NUMBERS);
      expect(heard).toEqual(NUMBERS);
      await expect.poll(() => session.state).toBe('established');
      expect([begun, cuts, session.transport]).toEqual([1, CUTS, 'http']);
      const other = peers.use(await connect(url, { ...EAGER, transports: ['http'] }));
      await interact(session, other, proxy, served);
      expect([begun, session.transport]).toEqual([2, 'http']);
    });
});

describe.skipIf(redisMissing)('a durable session over HTTP', () => {
  it.each([1, 2])(
    'loses no message and doubles none if its node is killed, with %i node(s)',
    async (nodes) => {
      const redis = await startRedis();
      const secret = nodes === 1 ? {} : { secret: randomBytes(24).toString('base64') };
      const start = () => startDurableNode({ url: redis.url, ...secret });
      const running = await Promise.all(Array.from({ length: nodes }, start));
      peers.use({
        async [Symbol.asyncDispose]() {
          for (const { process } of running) await process.kill();
          await redis[Symbol.asyncDispose]();
        },
      });
      const ports = () => running.filter(({ process }) => process.end === undefined).map(({ port }) => port);
      const network = peers.use(await withoutUpgrades(inTurns(ports), 'refuse'));
      const proxy = peers.use(await createCuttingProxy(network.port));
      const url = `ws://127.0.0.1:${proxy.port}/session`;
      const session = peers.use(await connect(url, { ...EAGER, token: 'ann' }));
      const { id } = session;
      const answers = await talkThroughCuts(session, proxy.cut, async () => {
        for (const { process } of running)
          if ((await process.call('sessions')).includes(id)) await process.kill();
        if (nodes === 1) running.push(await start());
      });
      expect(answers).toEqual(NUMBERS.map((text, i) => `${i + 1}: ${text}`));
      expect([session.id, session.transport]).toEqual([id, 'http']);
    },
  );
});
