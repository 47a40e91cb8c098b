import { memoryCluster, type Server, type ServerOptions } from '@parlance/server';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createCuttingProxy } from './cutting-proxy.js';
import { createPeers, pause } from './peers.js';

/** Sessions that go from node to node while their clients use them. */

let peers = createPeers();
let cluster = memoryCluster();
beforeEach(() => {
  cluster = memoryCluster();
});
afterEach(async () => {
  await peers[Symbol.asyncDispose]();
  peers = createPeers();
});

const LOGS = process.env['MOVE_LOGS'] !== undefined;
const logger = (name: string) => {
  const log = (fields: object, message: string) => {
    if (LOGS) console.log(name, JSON.stringify(fields), message);
  };
  return { debug: log, info: log, warn: log, error: log };
};
let nodes = 0;
const serve = (options: ServerOptions = {}) =>
  peers.serve({ cluster, logger: logger(`node ${nodes++}`), ...options });

/** A client of the first node whose connection has come back to the second one. */
async function led(options: ServerOptions, count = 2) {
  const servers = await Promise.all(Array.from({ length: count }, () => serve(options)));
  let target = 0;
  const proxy = peers.use(await createCuttingProxy(() => servers[target]?.port as number));
  const session = await peers.dial(`ws://127.0.0.1:${proxy.port}/session`, {
    reconnect: { minDelayMs: 1, maxDelayMs: 20 },
  });
  target = 1;
  const resumed = new Promise<void>((resolve) => {
    const stop = session.on('state', (state) => {
      if (state !== 'established') return;
      stop();
      resolve();
    });
  });
  proxy.cut();
  await resumed;
  return {
    servers: servers.map(({ server }) => server),
    session,
    proxy,
    go(to: number) {
      target = to;
    },
  };
}

const sizes = (servers: readonly Server[]) => servers.map(({ sessions }) => sessions.size);

describe('a session that another node leads', () => {
  it('goes on there when its own node drains, and the client notices nothing', async () => {
    const { servers, session, proxy } = await led({
      async onSession(each) {
        for await (const message of each) {
          each.data = [...((each.data as string[] | undefined) ?? []), message.text];
          await each.send(JSON.stringify({ data: each.data, isMoved: each.isMoved }));
        }
      },
      async *onRequest(request) {
        yield request.text;
        yield '!';
      },
    });
    const states: string[] = [];
    session.on('state', (state) => void states.push(state));
    const messages = session[Symbol.asyncIterator]();
    await session.send('one');
    expect((await messages.next()).value?.json()).toEqual({ data: ['one'], isMoved: false });
    expect((await session.request('hello')).text).toBe('hello!');
    const before = proxy.opened;
    const drained = await servers[0]?.drain({ timeoutMs: 5_000 });
    expect(drained).toEqual({ left: 0, interrupted: 0, lost: 0, moved: 1 });
    expect(sizes(servers)).toEqual([0, 1]);
    await session.send('two');
    expect((await messages.next()).value?.json()).toEqual({ data: ['one', 'two'], isMoved: true });
    expect((await session.request('hello')).text).toBe('hello!');
    expect([states, proxy.opened]).toEqual([[], before]);
    await pause(1);
  });
});
