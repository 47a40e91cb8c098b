import { setTimeout as pause } from 'node:timers/promises';
import { afterEach, describe, expect, it } from 'vitest';
import type { EngineConnection, SessionWrite } from '../engine.js';
import { postgres } from '../postgres.js';
import { postgresMissing, startPostgres } from '../testing/postgres-server.js';

/** A Postgres that ends, or that another one takes the place of. */

const TTL_MS = 60_000;
const codeOf = (call: Promise<unknown>) =>
  call.then(
    () => 'answered',
    (error: { readonly code: string }) => error.code,
  );
const writeOf = (number: number, isReplicated = false): SessionWrite => ({
  ...{ owner: 'aaaaaa', epoch: 0, number, isFirst: number === 1, after: number - 1, ttlMs: TTL_MS },
  ...{ set: new Map([[`m${number}`, Buffer.from(`${number}`)]]), remove: [], isReplicated },
});

const open: EngineConnection[] = [];
afterEach(async () => {
  for (const each of open.splice(0)) await each.close();
});
function at(url: string): EngineConnection {
  const link = postgres(url).connect();
  open.push(link);
  return link;
}

describe.skipIf(postgresMissing !== undefined)(postgresMissing ?? 'a Postgres', () => {
  it('that is killed has all sessions and no leases, which nodes are told', async () => {
    await using server = await startPostgres();
    const [link, other] = [at(server.url), at(server.url)];
    await link.renew('aaaaaa', '', TTL_MS);
    await other.renew('bbbbbb', '', TTL_MS);
    for (const number of [1, 2]) await link.writeSession('sess_one', writeOf(number));
    await link.table('agents').put('k', { holder: 's', record: 'r' }, null);
    await server.kill();
    expect(await codeOf(link.findSession('sess_one'))).toBe('connection_failed');
    await server.restart();
    await expect.poll(() => codeOf(link.findSession('sess_one'))).toBe('answered');
    const found = await other.readSession('sess_one', ['m1', 'm2']);
    expect(found).toMatchObject({ owner: 'aaaaaa', epoch: 0 });
    expect([...(found?.fields.keys() ?? [])].toSorted()).toEqual(['m1', 'm2']);
    expect((await link.table('agents').read()).entries.get('k')).toEqual({ holder: 's', record: 'r' });
    expect(await codeOf(link.find('bbbbbb'))).toBe('connection_failed');
    expect(await link.renew('aaaaaa', '', TTL_MS)).toMatchObject({ hasForgotten: true, nodes: [{}] });
    expect(await link.renew('aaaaaa', '', TTL_MS)).toMatchObject({ hasForgotten: false });
    expect(await link.writeSession('sess_one', writeOf(3))).toBe('written');
  });

  it('that is stopped and started has leases as well', async () => {
    await using server = await startPostgres();
    const link = at(server.url);
    await link.renew('aaaaaa', '', TTL_MS);
    await server.stop();
    expect(await codeOf(link.renew('aaaaaa', '', TTL_MS))).toBe('connection_failed');
    await server.restart();
    await expect.poll(() => codeOf(link.find('aaaaaa'))).toBe('answered');
    expect(await link.renew('aaaaaa', '', TTL_MS)).toMatchObject({ hasForgotten: false });
  });

  it('that stands still for 2 s loses and doubles nothing', async () => {
    await using server = await startPostgres();
    const link = at(server.url);
    await link.findSession('absent');
    let isOver = false;
    const commits = async (session: string) => {
      for (let number = 1; ; number++) {
        for (;;) {
          const outcome = await link
            .writeSession(session, writeOf(number))
            .catch((error: { code: string }) => error.code);
          if (outcome === 'written') break;
          expect(['timeout', 'connection_failed']).toContain(outcome);
          await pause(25);
        }
        if (isOver) return number;
        await pause(5);
      }
    };
    const names = Array.from({ length: 20 }, (_, i) => `sess_${i}`);
    const all = names.map(commits);
    await pause(300);
    server.pause();
    await pause(2_000);
    server.go();
    await pause(500);
    isOver = true;
    for (const [i, count] of (await Promise.all(all)).entries()) {
      const fields = Array.from({ length: count }, (_, n) => `m${n + 1}`);
      const found = await link.readSession(names[i] as string, fields);
      expect(fields.map((name) => Buffer.from(found?.fields.get(name) ?? []).toString())).toEqual(
        fields.map((name) => name.slice(1)),
      );
    }
  });

  it('forgets everything with its process if it says so', async () => {
    await using server = await startPostgres();
    const link = at(server.url);
    expect(await link.isVolatile()).toBe(false);
    for (const name of ['fsync', 'full_page_writes', 'synchronous_commit']) {
      await server.configure(`${name} = off`);
      await expect.poll(() => link.isVolatile()).toBe(true);
      await server.configure(`${name} = on`);
      await expect.poll(() => link.isVolatile()).toBe(false);
    }
  });

  it('has a replica confirm a commit, or refuses it', async () => {
    await using server = await startPostgres();
    const link = at(server.url);
    expect(await link.writeSession('sess_one', writeOf(1))).toBe('written');
    expect(await codeOf(link.writeSession('sess_one', writeOf(2, true)))).toBe('unsupported');
    await server.configure("synchronous_standby_names = 'second'");
    // No replica confirms it. It may be there, so that it can be written again.
    expect(await codeOf(link.writeSession('sess_one', writeOf(2, true)))).toBe('timeout');
    expect(await codeOf(link.writeSession('sess_one', writeOf(2, true)))).toBe('timeout');
    // Initial copies wait for a replica otherwise.
    await using _replica = await server.startReplica('second');
    await expect.poll(() => codeOf(link.writeSession('sess_one', writeOf(2, true)))).toBe('answered');
    expect(await link.writeSession('sess_one', writeOf(3, true))).toBe('written');
  });

  it('that is lost is followed by its replica, which has what it has confirmed, and no leases', async () => {
    await using server = await startPostgres();
    await using replica = await server.startReplica('second');
    const url = `postgres://postgres@127.0.0.1:${replica.port},127.0.0.1:${server.port}/postgres`;
    const link = at(url);
    await link.renew('aaaaaa', '', TTL_MS);
    await server.configure("synchronous_standby_names = 'second'");
    await expect.poll(() => codeOf(link.writeSession('sess_one', writeOf(1, true)))).toBe('answered');
    let written = 1;
    let isOver = false;
    const writing = (async () => {
      while (!isOver) {
        const outcome = await codeOf(link.writeSession('sess_one', writeOf(written + 1, true)));
        if (outcome === 'answered') written++;
        else await pause(25);
      }
    })();
    await pause(300);
    const before = written;
    expect(before).toBeGreaterThan(1);
    await server.kill();
    await pause(200);
    expect(written).toBeLessThanOrEqual(before + 50);
    await replica.promote();
    await replica.configure("synchronous_standby_names = ''");
    isOver = true;
    await writing;
    // The new one has no replica, which only this test does without.
    await expect.poll(() => codeOf(link.writeSession('sess_one', writeOf(written + 1)))).toBe('answered');
    const names = Array.from({ length: written + 1 }, (_, i) => `m${i + 1}`);
    expect((await link.readSession('sess_one', names))?.fields.size).toBe(names.length);
    expect(await link.renew('aaaaaa', '', TTL_MS)).toMatchObject({ hasForgotten: true });
  });
});
