import { describe, expect, it } from 'vitest';
import { MAX_REPLIES, MAX_UNREAD, MAX_UPLOAD, MAX_WHOLE, PART_WINDOW } from './bounds.js';
import { messageOf, originOf, settle, textOf, withTab } from './testing/origin.js';

/** What a tab can take of its host. */

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

  it('misses messages beyond a bound, is told, and goes on', async () => {
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
