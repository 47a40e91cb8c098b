import type { Logger, Throttled } from '@parlance/client';
import { afterEach, describe, expect, it } from 'vitest';
import { createPeers, pause } from './peers.js';

/** Clients that send as much as they may, and clients that do not read. */

const peers = createPeers();
afterEach(() => peers[Symbol.asyncDispose]());

function createLog(): Logger & { readonly lines: Readonly<Record<string, unknown>>[] } {
  const lines: Readonly<Record<string, unknown>>[] = [];
  const log = (fields: Readonly<Record<string, unknown>>) => void lines.push(fields);
  return { lines, debug: log, info: log, warn: log, error: log };
}

describe('a client that is throttled', () => {
  async function setUp(messagesPerMinute: number) {
    const [atServer, atClient] = [createLog(), createLog()];
    const events: [string, Throttled][] = [];
    const heard: string[] = [];
    const { server, url } = await peers.serve({
      limits: { messagesPerMinute },
      logger: atServer,
      async onSession(session) {
        session.on('throttled', (event) => events.push(['server', event]));
        for await (const message of session) heard.push(message.text);
      },
    });
    const session = await peers.dial(url, { logger: atClient });
    session.on('throttled', (event) => events.push(['client', event]));
    const linesOf = ({ lines }: { lines: Readonly<Record<string, unknown>>[] }) =>
      lines.filter(({ event }) => event === 'session.throttled');
    return { server, session, heard, events, linesOf: () => [linesOf(atServer), linesOf(atClient)] };
  }

  it('learns it from an event, a log line, stats() and its own calls, and so does the server', async () => {
    const { server, session, heard, events, linesOf } = await setUp(600);
    const [served] = [...server.sessions.values()];
    let sent = 0;
    let isOver = false;
    const sending = (async () => {
      while (!isOver) {
        await session.send(`message ${sent++}`);
        if (sent % 100 === 0) await pause(0);
      }
    })();
    await expect.poll(() => events.length, { timeout: 10_000 }).toBe(2);
    await expect.poll(() => heard.length, { timeout: 10_000 }).toBeGreaterThan(620);
    expect([session.stats().blockedOnRate, served?.stats().peerBlockedOnRate]).toEqual([true, true]);
    // Its calls wait, so that only a few messages do.
    expect(sent - heard.length).toBeLessThan(30);
    const event = { limit: 'messagesPerMinute', rate: 600 };
    expect(Object.fromEntries(events)).toEqual({
      client: { direction: 'sent', ...event },
      server: { direction: 'received', ...event },
    });
    const line = { event: 'session.throttled', session: session.id, ...event };
    expect(linesOf()).toEqual([[{ ...line, direction: 'received' }], [{ ...line, direction: 'sent' }]]);
    isOver = true;
    await sending;
    await session.flush();
    expect(heard).toEqual(Array.from({ length: sent }, (_, i) => `message ${i}`));
  });

  it('was not one with 50 messages a second for as long as it likes', async () => {
    // A minute at the default rate, of which the burst is used up first.
    const { session, events, heard } = await setUp(6_000);
    for (let i = 0; i < 5_950; i++) await session.send('burst');
    for (let i = 0; i < 100; i++) {
      await session.send('cursor');
      await pause(20);
    }
    await expect.poll(() => heard.length).toBe(6_050);
    expect([events, session.stats().blockedOnRate]).toEqual([[], false]);
  });
});

describe('a client that never reads', () => {
  it('is reported once, with how much waits, by an event and a log line of the server', async () => {
    const log = createLog();
    const events: unknown[] = [];
    let sent = 0;
    const { url } = await peers.serve({
      logger: log,
      async onSession(session) {
        session.on('unread', (event) => events.push(event));
        for (; sent < 3_000; sent++) await session.send(`message ${sent} ${'x'.repeat(1_000)}`);
      },
      onRequest: () => 'requests pass',
    });
    const session = await peers.dial(url, { timers: { closingTimeoutMs: 200 } });
    await expect.poll(() => events.length, { timeout: 30_000 }).toBe(1);
    expect(sent).toBeLessThan(3_000);
    expect(events).toEqual([{ messages: expect.any(Number), bytes: expect.any(Number) }]);
    const { messages, bytes } = events[0] as { messages: number; bytes: number };
    expect(messages).toBeGreaterThan(50);
    expect(messages).toBeLessThan(sent);
    expect(bytes).toBeGreaterThan(0);
    const line = { event: 'session.unread', session: session.id, messages, bytes };
    expect(log.lines.filter(({ event }) => event === 'session.unread')).toEqual([line]);
    expect((await session.request('x')).text).toBe('requests pass');
    // What waits arrives as soon as something reads.
    let read = 0;
    for await (const _message of session) if (++read === 3_000) break;
    expect([read, events.length]).toEqual([3_000, 1]);
  });
});
