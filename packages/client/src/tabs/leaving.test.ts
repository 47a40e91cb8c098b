import { describe, expect, it } from 'vitest';
import { MAX_UPLOAD } from './bounds.js';
import { Hubs } from './hub.js';
import { portPipe } from './pipe.js';
import { BEAT_MS, type Locks, SILENCE_MS } from './presence.js';
import { messageOf, originOf, settle, TestClock, textOf } from './testing/origin.js';

/** Tabs that leave, and tabs that vanish. */

describe('a tab that leaves', () => {
  it('cancels its own requests only, and the last one takes the session along', async () => {
    const origin = originOf();
    const [one, two] = [await origin.open(), await origin.open()];
    origin.session.answer = async function* (text) {
      yield text;
      if (text === 'stays') return;
      await new Promise(() => {});
    };
    const lost = textOf(one.session.stream('goes'));
    await settle();
    const closed = one.session.close();
    await expect(lost).rejects.toMatchObject({ code: 'session_closed' });
    expect(await closed).toEqual({ unacknowledged: 0 });
    expect(one.session.state).toBe('closed');
    expect(origin.session.cancelled).toEqual(['goes']);
    expect(origin.session.closes).toBe(0);
    expect(await textOf(two.session.stream('stays'))).toBe('stays');
    expect(await two.session.close()).toEqual({ unacknowledged: 3 });
    expect(origin.session.closes).toBe(1);
    expect(await (await origin.open()).session.request('x')).toBeDefined();
    expect(origin.sessions.length).toBe(2);
  });

  it('hands over what it has sent before', async () => {
    const origin = originOf();
    await origin.open();
    const { session } = await origin.open();
    let giveRoom = (): void => {};
    origin.session.room = new Promise((resolve) => {
      giveRoom = resolve;
    });
    const sends = Array.from({ length: 3 }, () => session.send('x'.repeat(MAX_UPLOAD / 2)));
    const closed = session.close();
    await settle();
    giveRoom();
    expect(await closed).toEqual({ unacknowledged: 0 });
    await Promise.all(sends);
    expect(origin.session.sent.length).toBe(3);
  });

  it('says what was not acknowledged if its host is gone before it has that, and closes', async () => {
    const origin = originOf();
    const attach = async () => {
      const pipe = await origin.connect();
      let isClosed = false;
      return {
        ...pipe,
        // As a BroadcastChannel, which throws once it is closed.
        post(message: unknown, transfer?: readonly ArrayBuffer[]) {
          if (isClosed) throw new DOMException('the channel is closed', 'InvalidStateError');
          pipe.post(message, transfer);
        },
        close() {
          isClosed = true;
          pipe.close();
        },
      };
    };
    const { session } = await origin.open({ attach });
    origin.session.room = new Promise(() => {});
    const sent = expect(session.send('x')).rejects.toMatchObject({ code: 'session_lost' });
    const closed = session.close();
    await settle();
    origin.hubs.abandon();
    await sent;
    expect(await closed).toEqual({ unacknowledged: 1 });
    expect([session.state, await session.closed]).toMatchObject(['closed', { error: undefined }]);
  });

  it('says what was not acknowledged if its host does not answer in time', async () => {
    const origin = originOf();
    const { session } = await origin.open();
    origin.session.room = new Promise(() => {});
    const sent = expect(session.send('x')).rejects.toMatchObject({ code: 'session_closed' });
    const closed = session.close();
    await settle();
    await origin.clock.advance(1_000);
    expect(await closed).toEqual({ unacknowledged: 1 });
    await sent;
  });

  it('frees its lock, and looks for no host, if it leaves before it has that', async () => {
    const origin = originOf();
    let grant = (): void => {};
    const granted = new Promise<void>((resolve) => {
      grant = resolve;
    });
    let isFree = false;
    const request = async (_name: string, task: () => Promise<void>) => {
      await granted;
      await task();
      isFree = true;
    };
    const attach = () => expect.fail('it looks for a host');
    const tab = origin.create({ locks: { request } as unknown as Locks, attach });
    const opened = expect(tab.open()).rejects.toMatchObject({ code: 'session_closed' });
    tab.leaveNow();
    grant();
    await opened;
    await settle();
    expect(isFree).toBe(true);
  });

  it('says that it leaves if its host has no room in time, or has not answered', async () => {
    const origin = originOf({ hasLocks: false });
    const { session } = await origin.open();
    origin.session.room = new Promise(() => {});
    const sent = expect(session.send('x')).rejects.toMatchObject({ code: 'session_closed' });
    const closed = session.close();
    await settle();
    await origin.clock.advance(1_000);
    await Promise.all([closed, sent]);
    await settle();
    expect(origin.session.closes).toBe(1);

    const { opened } = origin;
    origin.reachable = new Promise(() => {});
    const tab = origin.create();
    const opening = expect(tab.open()).rejects.toMatchObject({ code: 'session_closed' });
    await settle();
    await Promise.all([tab.close(), opening]);
    await settle();
    expect(opened[1]?.[1].signal.aborted).toBe(true);
  });

  it('is noticed if it crashes, by its lock', async () => {
    const origin = originOf();
    await origin.open();
    const { session } = await origin.open();
    origin.session.answer = async function* () {
      yield 'first';
      await new Promise(() => {});
    };
    session.stream('of the crashed tab');
    await settle();
    origin.crashes[1]?.();
    await settle();
    expect(origin.session.cancelled).toEqual(['of the crashed tab']);
    expect(origin.session.closes).toBe(0);
    origin.crashes[0]?.();
    await settle();
    expect(origin.session.closes).toBe(1);
  });

  it('is noticed by its silence if there are no locks', async () => {
    const origin = originOf({ hasLocks: false });
    const silent = await origin.open({ clock: new TestClock() });
    const alive = await origin.open();
    silent.session.stream('of the silent tab');
    await settle();
    await origin.clock.advance(SILENCE_MS);
    expect(origin.session.state).toBe('established');
    expect(silent.session.state).toBe('established');
    await origin.clock.advance(2 * BEAT_MS);
    await settle();
    expect((await alive.session.request('x')).text).toBe('re: x');
    origin.session.mailbox.push(messageOf('only for tabs that are there'));
    expect(origin.session.closes).toBe(0);
    const { session } = silent;
    await expect(Promise.race([session.request('x'), turnsAway()])).resolves.toBe('no answer');
  });

  it('is turned away if it vanishes before it has joined, and looks again if it is only late', async () => {
    const origin = originOf();
    let onIdle = 0;
    const { clock, locks } = origin;
    const open = () => expect.fail('no tab joins');
    const hubs = new Hubs({ open, clock, locks, lock: undefined }, () => onIdle++);
    const { port1, port2 } = new MessageChannel();
    const pipe = portPipe(port2);
    const heard: unknown[] = [];
    pipe.listen((message) => heard.push((message as { type: string }).type));
    hubs.serve(portPipe(port1));
    await origin.clock.advance(9_999);
    expect([hubs.isIdle, onIdle]).toEqual([false, 0]);
    await origin.clock.advance(1);
    await settle();
    expect([hubs.isIdle, onIdle, heard]).toEqual([true, 1, ['ready', 'gone']]);
    pipe.close();
  });

  it('ends one that sends something malformed, and no other', async () => {
    const origin = originOf();
    const fine = await origin.open();
    const pipe = await origin.connect();
    const heard: { type?: string; error?: { code: string } }[] = [];
    pipe.listen((message) => heard.push(message as object));
    pipe.post({ type: 'join', key: 'a', url: '', options: {}, logs: false, isTokenRenewed: false });
    await settle();
    pipe.post({ type: 'call', call: 1, verb: 'send', body: 5, options: {} });
    await settle();
    expect(heard.map(({ type }) => type)).toEqual(['joined', 'over']);
    expect(heard[1]?.error?.code).toBe('bad_message');
    expect((await fine.session.request('x')).text).toBe('re: x');
    expect(origin.lines).toContainEqual({ event: 'shared.malformed' });
  });
});

async function turnsAway(): Promise<string> {
  await settle();
  return 'no answer';
}
