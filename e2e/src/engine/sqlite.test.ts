import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { type ClientSession, connect } from '@parlance/client';
import { createServer, durable } from '@parlance/server';
import { sqlite } from '@parlance/server/sqlite';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import WebSocket from 'ws';
import { isFull } from '../../../scripts/extent.js';
import { run, startServing } from '../kit/cli-process.js';
import { type CuttingProxy, createCuttingProxy } from '../kit/cutting-proxy.js';
import { type DurableNode, startDurableNode } from '../kit/programs.js';

/** Sessions in a file: one process after the other, without any server beside them. `SQLITE_KILLS=500` kills as many of them. */

const KILLS = Number(process.env['SQLITE_KILLS'] ?? (isFull ? 20 : 8));
/** Messages of each user between two kills (`SQLITE_MESSAGES=230` for 10^6 bodies in 500 kills), and parts of the replies that are under way. */
const MESSAGES = Number(process.env['SQLITE_MESSAGES'] ?? 40);
const PARTS = 50;

let folder = '';
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'parlance-sqlite-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

describe('sessions in a file', () => {
  let node: DurableNode | undefined;
  let front: CuttingProxy | undefined;
  const sessions: ClientSession[] = [];
  afterEach(async () => {
    for (const session of sessions.splice(0)) void session.close();
    await front?.[Symbol.asyncDispose]();
    await node?.process.kill();
  });

  /** The one before is dead, or is killed. */
  async function replace(): Promise<void> {
    await node?.process.kill();
    node = await startDurableNode({ url: join(folder, 'parlance.db') });
  }

  async function open(token: string) {
    const session = await connect(`ws://127.0.0.1:${front?.port}/session`, {
      WebSocket,
      waitForServer: true,
      token,
      reconnect: { minDelayMs: 5, maxDelayMs: 50, connectWithinMs: 60_000 },
    });
    sessions.push(session);
    const answers: string[] = [];
    void (async () => {
      for await (const { text } of session) answers.push(text);
    })().catch(() => {});
    return { session, answers, id: session.id };
  }

  /** The parts of a reply. A handler that was killed before it could say `ifProcessDies('again')` is asked once more. */
  async function ask(session: ClientSession): Promise<readonly string[]> {
    const texts: string[] = [];
    try {
      for await (const { text } of session.stream('count', { metadata: { parts: PARTS, again: true } }))
        texts.push(text);
    } catch (error) {
      if (texts.length > 0 || (error as { code?: unknown }).code !== 'interrupted') throw error;
      return await ask(session);
    }
    return texts;
  }

  it(`lose nothing and double nothing while their processes are killed ${KILLS} times`, {
    timeout: 300_000 + KILLS * 10_000,
  }, async () => {
    await replace();
    front = await createCuttingProxy(() => node?.port ?? 0);
    const users = await Promise.all(['ann', 'ben', 'cem', 'dea'].map(open));
    let sent = 0;
    for (let kill = 0; kill < KILLS; kill++) {
      const first = sent;
      sent += MESSAGES;
      const replies = users.map(({ session }) => ask(session));
      const sending = users.map(async ({ session }) => {
        for (let i = first; i < sent; i++) await session.send(`message ${i}`);
      });
      // At another moment each time, mostly in the middle of transactions.
      await pause(Math.random() * 300);
      await replace();
      await Promise.all(sending);
      const numbers = Array.from({ length: PARTS }, (_, i) => `${i}`);
      for (const texts of await Promise.all(replies))
        expect(texts.map((text) => text.split('@')[0])).toEqual(numbers);
      for (const { answers } of users) await expect.poll(() => answers.length).toBeGreaterThanOrEqual(sent);
    }
    const expected = Array.from({ length: sent }, (_, i) => `${i + 1}: message ${i}`);
    for (const { answers, session, id } of users) {
      expect(answers).toEqual(expected);
      expect(session.id).toBe(id);
    }
    const modes = ['', '-wal'].map((suffix) => statSync(join(folder, `parlance.db${suffix}`)).mode & 0o777);
    expect(modes).toEqual([0o600, 0o600]);
  });

  it('are taken over once by the next process, in which the lease of the one before is over', async () => {
    await replace();
    front = await createCuttingProxy(() => node?.port ?? 0);
    const { session, answers } = await open('ann');
    await session.send('one');
    await expect.poll(() => answers).toEqual(['1: one']);
    await replace();
    await session.send('two');
    await expect.poll(() => answers).toEqual(['1: one', '2: two']);
    const events = await node?.process.call('events');
    expect(events).toMatchObject({ 'session.taken_over': 1 });
  });
});

it('a server that has to wait for a replica does not begin on a file', async () => {
  await using server = createServer({
    engine: sqlite(join(folder, 'parlance.db')),
    features: [durable(true, { confirm: 'replica' })],
  });
  const refused = { code: 'unsupported', message: expect.stringContaining('no replica') };
  await expect(server.listen()).rejects.toMatchObject(refused);
});

describe('parlance serve --data', () => {
  it('keeps sessions over kill -9 in a folder that it creates, and lets no second process have it', async () => {
    const data = join(folder, 'var/data');
    const first = await startServing(['--data', data]);
    expect(statSync(data).mode & 0o777).toBe(0o700);
    expect(statSync(join(data, 'parlance.db')).mode & 0o777).toBe(0o600);
    let { port } = new URL(first.url);
    await using front = await createCuttingProxy(() => Number(port));
    await using session = await connect(`ws://127.0.0.1:${front.port}/session`, {
      WebSocket,
      waitForServer: true,
      reconnect: { minDelayMs: 5, maxDelayMs: 50, connectWithinMs: 60_000 },
    });
    const answers: string[] = [];
    void (async () => {
      for await (const { text } of session) answers.push(text);
    })().catch(() => {});
    await session.send('one');
    await expect.poll(() => answers).toEqual(['one']);
    const beside = await run(['serve', '--port', '0', '--data', data]);
    expect(beside.code).not.toBe(0);
    expect(beside.stdout + beside.stderr).toContain('another process uses the file');
    const { id } = session;
    await first.stop('SIGKILL');
    const second = await startServing(['--engine', `sqlite:${join(data, 'parlance.db')}`]);
    try {
      ({ port } = new URL(second.url));
      await session.send('two');
      await expect.poll(() => answers).toEqual(['one', 'two']);
      expect(session.id).toBe(id);
    } finally {
      await second.stop('SIGKILL');
    }
  });

  it('refuses a folder that is a file, and other engines beside it', async () => {
    const { stderr, code } = await run(['serve', '--data', '/dev/null']);
    expect([code, stderr]).toEqual([2, expect.stringContaining('--data: /dev/null cannot be written')]);
    const both = await run(['serve', '--data', folder, '--cluster', 'redis://127.0.0.1:1']);
    expect([both.code, both.stderr]).toEqual([2, expect.stringContaining('leave one of them out')]);
    const twice = await run(['serve', '--data', folder, '--engine', folder]);
    expect([twice.code, twice.stderr]).toEqual([2, expect.stringContaining('leave one of them out')]);
    const wrong = await run(['serve', '--engine', 'parlance.db']);
    expect([wrong.code, wrong.stderr]).toEqual([2, expect.stringContaining('write sqlite:parlance.db.')]);
  });
});
