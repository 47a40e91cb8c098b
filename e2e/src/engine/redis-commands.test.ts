import { EventEmitter, on, once } from 'node:events';
import { type ClientSession, connect } from '@parlance/client';
import { durable, type Session } from '@parlance/server';
import { redis } from '@parlance/server/redis';
import { describe, expect, it } from 'vitest';
import WebSocket from 'ws';
import { redisMissing, startRedis } from '../../../packages/server/src/engine/testing/redis-server.js';
import { createPeers } from '../kit/peers.js';
import { ASKED, type Asked, type Step } from './redis-commands.js';

/** Counts what Redis itself reports of the commands that a node sends about one session. */

/** Keys that nodes write whether or not there is a session. */
const BESIDE = /^parlance:nodes|^parlance:\{(agents|groups)/;
/** Bytes that differ from run to run: digits of numbers, and random parts of a packed record. */
const SLACK = 24;
const OF_THE_TEST: ReadonlySet<string> = new Set(['exists', 'keys']);

describe.skipIf(redisMissing !== undefined)(redisMissing ?? 'what a durable session asks of Redis', () => {
  it('is what the documents say, command by command', async () => {
    await using server = await startRedis();
    await using peers = createPeers();
    const monitor = await server.client.monitor();
    let asked = { commands: 0, bytes: 0 };
    let marked = (): void => {};
    monitor.on('monitor', (_time: string, command: readonly string[], source: string) => {
      if (command[1] === 'mark') return marked();
      if (OF_THE_TEST.has(command[0] ?? '')) return;
      const isOwn =
        command.some((each) => each.startsWith('parlance:')) && !command.some((each) => BESIDE.test(each));
      if (source === 'lua' || !isOwn) return;
      asked = { commands: asked.commands + 1, bytes: asked.bytes + lengthOf(command) };
    });
    const reported = async () => {
      const all = new Promise<void>((resolve) => {
        marked = resolve;
      });
      await server.client.echo('mark');
      await all;
    };
    const found = new Map<Step, Asked>();
    const measure = async <T>(step: Step, run: () => Promise<T>) => {
      await reported();
      asked = { commands: 0, bytes: 0 };
      const result = await run();
      // A command may follow what has caused it.
      await expect.poll(() => asked.commands).toBeGreaterThanOrEqual(ASKED[step].commands);
      await reported();
      found.set(step, asked);
      return result;
    };

    let session: Session | undefined;
    const goesOn = new EventEmitter();
    const answered = new EventEmitter();
    const { url } = await peers.serve({
      engine: redis({ url: server.url }),
      features: [durable(true, { allowVolatileEngine: true })],
      authenticate: ({ token }) => ({ principal: token ?? 'ada' }),
      async onSession(opened) {
        session = opened;
        for await (const message of opened) {
          await opened.commit({ data: 's'.repeat(198), send: ['a'.repeat(100)] });
          answered.emit('message', message.number);
        }
      },
      async *onRequest() {
        for await (const [isMore] of on(goesOn, 'go')) {
          if (isMore === false) return;
          yield 'p'.repeat(20);
        }
      },
    });
    const open = () => connect(url, { WebSocket, token: 'ada' });
    const close = async (closed: ClientSession) => {
      await closed.close();
      await expect.poll(async () => await server.client.exists(`parlance:{${closed.id}}`)).toBe(0);
      // Its principal has nothing left.
      await expect.poll(async () => await server.client.keys('parlance:{q:*}:x')).toEqual([]);
    };
    // Redis gets to know the scripts.
    let client = await open();
    await close(client);
    await measure('a session begins', async () => {
      client = await open();
      await expect.poll(() => session?.id).toBe(client.id);
    });
    const messages = client[Symbol.asyncIterator]();
    await measure('a message to the client, of 100 bytes', async () => {
      await session?.send('m'.repeat(100));
      await messages.next();
    });
    await measure(
      'a message of the client is handled, with a state of 200 bytes and an answer of 100',
      async () => {
        const handled = once(answered, 'message');
        await client.send('hello');
        await Promise.all([messages.next(), handled]);
      },
    );
    const { reply, first } = await measure('a request begins', async () => {
      const reply = client.stream('go')[Symbol.asyncIterator]();
      const first = reply.next();
      await expect.poll(() => goesOn.listenerCount('go')).toBe(1);
      return { reply, first };
    });
    goesOn.emit('go', true);
    await first;
    await measure('a part of its reply, of 20 bytes', async () => {
      const part = reply.next();
      goesOn.emit('go', true);
      await part;
    });
    await measure('its reply ends', async () => {
      goesOn.emit('go', false);
      expect((await reply.next()).done).toBe(true);
    });
    await measure('a session ends', async () => {
      await close(client);
    });
    for (const [step, { commands, bytes }] of found) {
      const stated = ASKED[step];
      expect({ step, commands }).toEqual({ step, commands: stated.commands });
      expect(Math.abs(bytes - stated.bytes), `bytes of: ${step}: ${bytes}`).toBeLessThanOrEqual(SLACK);
    }
    expect([...found.keys()]).toEqual(Object.keys(ASKED));
    monitor.disconnect();
  });
});

/** On the wire: each argument stands after its length. */
function lengthOf(command: readonly string[]): number {
  const lengths = command.map((each) => each.replace(/\\x[\da-f]{2}|\\./gi, '_').length);
  return lengths.reduce(
    (sum, length) => sum + length + String(length).length + 5,
    String(lengths.length).length + 3,
  );
}
