import type { Message } from '@parlance/protocol';
import { resolveLimits } from '@parlance/protocol/client';
import { describe, expect, it } from 'vitest';
import { MAX_REPLIES, MAX_UNREAD, MAX_UPLOAD, MAX_WHOLE, PART_WINDOW } from './bounds.js';
import { messageOf, originOf, settle, textOf, withTab } from './testing/origin.js';

/** The most that a tab can take of its host. */

describe('a tab that does not read', () => {
  it('holds back the sender of a reply, and does not slow other tabs', async () => {
    const origin = originOf();
    const [slow, quick] = [await origin.open(), await origin.open()];
    origin.session.answer = async function* (text) {
      for (let i = 0; i < (text === 'long' ? 1_000 : 1); i++) yield 'x'.repeat(1024 - 256);
    };
    const reply = slow.session.stream('long');
    await settle();
    expect(origin.session.taken).toBe(PART_WINDOW / 1024);
    expect((await quick.session.request('x')).text.length).toBe(768);
    expect((await textOf(reply)).length).toBe(768_000);
  });

  it('misses messages beyond a bound, is notified, and continues', async () => {
    const origin = originOf();
    const [slow, quick] = [await origin.open(), await origin.open()];
    let read = 0;
    const reading = (async () => {
      for await (const _ of quick.session) read++;
    })();
    const size = 4096 - 256;
    const fitting = MAX_UNREAD / 4096;
    const push = async (count: number) => {
      for (let i = 0; i < count; i++) {
        origin.session.mailbox.push(messageOf('x'.repeat(size)));
        if (i % 100 === 0) await settle();
      }
      await settle();
    };
    await push(fitting);
    expect(origin.lines).toEqual([]);
    await push(2);
    expect(origin.lines).toEqual([{ event: 'shared.missed', session: 'sess_1' }]);
    expect(read).toBe(fitting + 2);

    let texts = 0;
    await expect(
      (async () => {
        for await (const _ of slow.session) texts++;
      })(),
    ).rejects.toMatchObject({ code: 'over_budget', message: expect.stringContaining('missed 2 messages') });
    expect(texts).toBe(fitting);
    origin.session.mailbox.push(messageOf('after'));
    for await (const { text } of slow.session) {
      expect(text).toBe('after');
      break;
    }
    origin.session.change('closed');
    origin.session.mailbox.end();
    await reading;
  });
});

describe('the bounds of a tab', () => {
  /** A tab that does not keep to them. */
  async function rawTab() {
    const origin = originOf();
    await origin.open();
    const pipe = await origin.connect();
    const heard: Record<string, unknown>[] = [];
    pipe.listen((message) => heard.push(message as Record<string, unknown>));
    pipe.post({ type: 'join', key: 'a', url: '', options: {}, logs: false, isTokenRenewed: false });
    await settle();
    const call = (number: number, verb: string, body: string) =>
      pipe.post({ type: 'call', call: number, verb, body, options: {} });
    const refusals = () =>
      heard.flatMap(({ call: number, error }) =>
        error === undefined ? [] : [[number, (error as { code: string }).code]],
      );
    return { origin, pipe, call, heard, refusals };
  }

  it('hold for requests: n, and not n + 1', async () => {
    const { origin, call, refusals } = await rawTab();
    origin.session.answer = () => ({ [Symbol.asyncIterator]: () => ({ next: () => new Promise(() => {}) }) });
    for (let i = 1; i <= MAX_REPLIES; i++) call(i, 'stream', 'x');
    await settle();
    expect(refusals()).toEqual([]);
    call(MAX_REPLIES + 1, 'request', 'x');
    await settle();
    expect(refusals()).toEqual([[MAX_REPLIES + 1, 'too_many_streams']]);
  });

  it('hold for what it sends: n bytes, and not n + 1', async () => {
    const { origin, call, refusals } = await rawTab();
    origin.session.room = new Promise(() => {});
    call(1, 'send', 'x'.repeat(MAX_UPLOAD - 512));
    call(2, 'send', '');
    await settle();
    expect(refusals()).toEqual([]);
    call(3, 'send', '');
    await settle();
    expect(refusals()).toEqual([[3, 'over_budget']]);
  });

  it('hold for whole replies that it has not received: n bytes, and not n + 1', async () => {
    const { origin, call, pipe, refusals } = await rawTab();
    const half = MAX_WHOLE / 2 - 256;
    origin.session.answer = async function* (text) {
      yield 'x'.repeat(Number(text));
    };
    call(1, 'request', String(half));
    call(2, 'request', String(half));
    await settle();
    expect(refusals()).toEqual([]);
    call(3, 'request', '1');
    await settle();
    expect(refusals()).toEqual([[3, 'over_budget']]);
    pipe.post({ type: 'received', charge: half + 256 });
    call(4, 'request', '1');
    await settle();
    expect(refusals().length).toBe(1);
  });

  it('make it wait, not fail, if it keeps to them', async () => {
    const { session, host } = await withTab();
    let giveRoom = (): void => {};
    host().room = new Promise((resolve) => {
      giveRoom = resolve;
    });
    const sends = Array.from({ length: 8 }, (_, i) => session.send(`${i}${'x'.repeat(MAX_UPLOAD / 4)}`));
    await settle();
    giveRoom();
    await Promise.all(sends);
    expect(host().sent.map(([body]) => String(body)[0])).toEqual(['0', '1', '2', '3', '4', '5', '6', '7']);
  });
});

describe('requests of a tab beyond its bound', () => {
  /** A tab with as many open requests as it may have. */
  async function fullTab(sessionMemory?: number) {
    const origin = originOf();
    const limits = resolveLimits(sessionMemory === undefined ? {} : { sessionMemory });
    const { session } = await origin.open({ limits });
    const asked: string[] = [];
    const times: (number | undefined)[] = [];
    const gates = new Map<string, () => void>();
    origin.session.answer = async function* (text, { timeoutMs, signal }) {
      asked.push(text);
      times.push(timeoutMs);
      await new Promise<void>((resolve) => {
        gates.set(text, resolve);
        signal?.addEventListener('abort', () => resolve());
      });
      yield `re: ${text}`;
    };
    const names = Array.from({ length: MAX_REPLIES }, (_, at) => `${at}`);
    const open = names.map((name) => session.request(name).then(({ text }) => text));
    for (const reply of open) reply.catch(() => {});
    await settle();
    expect(asked).toEqual(names);
    asked.length = 0;
    times.length = 0;
    return { origin, session, asked, times, open, answer: (name: string) => gates.get(name)?.() };
  }
  const textFrom = (reply: Promise<Message>) => reply.then(({ text }) => text);

  it('wait for their turn in order, and messages do not wait for them', async () => {
    const { origin, session, asked, answer, open } = await fullTab();
    const one = textFrom(session.request('one'));
    const two = textOf(session.stream('two'));
    const three = textFrom(session.request('three'));
    await session.send('message');
    expect(origin.session.sent.map(([body]) => body)).toEqual(['message']);
    expect(asked).toEqual([]);
    answer('1');
    expect(await open[1]).toBe('re: 1');
    await settle();
    expect(asked).toEqual(['one']);
    answer('one');
    answer('7');
    expect(await one).toBe('re: one');
    await settle();
    expect(asked).toEqual(['one', 'two', 'three']);
    answer('two');
    answer('three');
    expect(await Promise.all([two, three])).toEqual(['re: two', 're: three']);
  });

  it('take the turn of those that are cancelled', async () => {
    const { origin, session, asked, answer } = await fullTab();
    const abort = new AbortController();
    const cancelled = session.request('cancelled', { signal: abort.signal }).catch((error: unknown) => error);
    const left = session.stream('left');
    const next = session.request('next');
    next.catch(() => {});
    abort.abort(new Error('enough'));
    left.cancel();
    expect(await cancelled).toMatchObject({ message: 'enough' });
    answer('0');
    await settle();
    expect([asked, origin.session.cancelled]).toEqual([['next'], []]);
  });

  it('begin when the host has stopped one that was cancelled', async () => {
    const origin = originOf();
    const { session } = await origin.open();
    const asked: string[] = [];
    origin.session.answer = (text) => {
      asked.push(text);
      return { [Symbol.asyncIterator]: () => ({ next: () => new Promise(() => {}) }) };
    };
    const streams = Array.from({ length: MAX_REPLIES + 1 }, (_, at) => session.stream(`${at}`));
    await settle();
    expect(asked.length).toBe(MAX_REPLIES);
    streams[3]?.cancel();
    await settle();
    expect(asked.slice(MAX_REPLIES)).toEqual([`${MAX_REPLIES}`]);
    expect(origin.session.cancelled).toEqual(['3']);
  });

  it('end with their time, which counts from the call', async () => {
    const { origin, session, asked, times, answer } = await fullTab();
    const late = session.request('late', { timeoutMs: 500 }).catch((error: unknown) => error);
    const read = textOf(session.stream('late too', { timeoutMs: 500 })).catch((error: unknown) => error);
    const inTime = session.request('in time', { timeoutMs: 2_000 });
    await origin.clock.advance(501);
    const expired = {
      code: 'timeout',
      message: `no reply within 500 ms; all ${MAX_REPLIES} requests that a tab with a shared session may have at a time were open`,
    };
    expect(await Promise.all([late, read])).toMatchObject([expired, expired]);
    answer('0');
    await settle();
    expect([asked, times]).toEqual([['in time'], [1_499]]);
    answer('in time');
    expect((await inTime).text).toBe('re: in time');
  });

  it('fail if more bytes wait than a session may hold, and not before', async () => {
    const { session, answer } = await fullTab(3 * 1_024);
    // Each counts 512 bytes more.
    const fits = [1, 2, 3].map((at) => textFrom(session.request(`${at}`.repeat(512))));
    const refused = { code: 'too_many_streams', message: expect.stringContaining('(sessionMemory)') };
    await expect(session.request('')).rejects.toMatchObject(refused);
    expect(() => session.stream('')).toThrow(expect.objectContaining(refused));
    for (const name of ['0', '1', '2']) answer(name);
    await settle();
    for (const at of [1, 2, 3]) answer(`${at}`.repeat(512));
    expect((await Promise.all(fits)).length).toBe(3);
  });

  it('are reported as not sent if the host is gone, and fail', async () => {
    const { origin, session, open } = await fullTab();
    const resets: unknown[] = [];
    session.on('reset', (event) => resets.push(event));
    const waiting = session.request('waiting').catch((error: unknown) => error);
    const crash = origin.crashHost;
    origin.hubs = origin.createHubs();
    crash();
    await settle();
    expect(await waiting).toMatchObject({ code: 'session_lost' });
    await expect(open[0]).rejects.toMatchObject({ code: 'session_lost' });
    expect(resets).toMatchObject([{ notSent: [{ kind: 'request' }] }]);
  });
});
