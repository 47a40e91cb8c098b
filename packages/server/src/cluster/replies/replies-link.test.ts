import { ProtocolError } from '@parlance/protocol';
import { encodeFailure } from '@parlance/protocol/internal';
import { describe, expect, it } from 'vitest';
import type { ServerWire, WireEvents } from '../../http/ws.js';
import type { ReplyEntry, ReplyPieces } from '../../replies/log.js';
import { decodePeerMessage, encodePeerMessage } from '../peer-message.js';
import { RepliesInlet } from './replies-inlet.js';
import { RepliesLink, SILENCE_MS, Unanswered } from './replies-link.js';
import { CHUNK_SIZE, encodePieces, readPieces } from './replies-message.js';
import type { RepliesSource } from './replies-source.js';

const SILENT = { debug() {}, info() {}, warn() {}, error() {} };
const turn = () => new Promise<void>((resolve) => void setImmediate(resolve));

/** A wire whose other end is the test. */
class FakeWire implements ServerWire {
  readonly sent: Uint8Array[] = [];
  bufferedAmount = 0;
  holds = 0;
  isOver = false;
  onSent: (data: Uint8Array) => void = () => {};
  events: WireEvents | undefined;

  send(data: Uint8Array | string): void {
    this.sent.push(data as Uint8Array);
    this.onSent(data as Uint8Array);
  }
  listen(events: WireEvents): void {
    this.events = events;
  }
  hold(): void {
    this.holds++;
  }
  unhold(): void {
    this.holds--;
  }
  terminate(): void {
    this.isOver = true;
  }
  close(): void {
    this.isOver = true;
  }
  pause(): void {}
  resume(): void {}

  get messages() {
    return this.sent.map(decodePeerMessage);
  }
}

function linkOf({ maxAnswer = 1_000_000, isFull = false } = {}) {
  const wire = new FakeWire();
  const clock = { now: 0 };
  const changed: string[] = [];
  const over: (Unanswered | undefined)[] = [];
  const reserved = { now: 0 };
  const link = new RepliesLink({
    now: () => clock.now,
    maxAnswer,
    maxDepth: 10,
    reserve: (size) => {
      if (isFull) throw new ProtocolError('over_budget', 'full');
      reserved.now += size;
      return {
        release() {
          reserved.now -= size;
        },
      };
    },
    onChanged: (id) => changed.push(id),
    onOver: (why) => over.push(why),
  });
  const say = (type: string, fields: readonly unknown[], ...bytes: Uint8Array[]) =>
    link.onMessage(encodePeerMessage(type, fields, ...bytes));
  return { wire, clock, changed, over, reserved, link, say };
}

describe('a link to the replies of another node', () => {
  it('asks when it is open, after what is to be watched', async () => {
    const { wire, link, say } = linkOf();
    const answer = link.ask('find', ['reply_a']);
    link.watch('reply_a');
    link.watch('reply_b');
    link.unwatch('reply_b');
    link.begin(wire);
    expect(wire.messages).toMatchObject([
      { type: 'watch', fields: ['reply_a'] },
      { type: 'find', fields: [1, 'reply_a'] },
    ]);
    say('done', [1, 'none']);
    expect((await answer).fields).toEqual(['none']);
  });

  it('asks so much at a time, and refuses what is beyond what may wait', async () => {
    const { wire, link, say } = linkOf();
    const answers = Array.from({ length: 10_000 }, (_, i) => link.ask('read', ['reply_a', i]));
    await expect(link.ask('read', ['reply_a', 10_000])).rejects.toMatchObject({ code: 'over_budget' });
    link.begin(wire);
    expect(wire.sent).toHaveLength(256);
    for (let ref = 1; ref <= 10_000; ref++) say('done', [ref, 'none']);
    expect((await Promise.all(answers)).length).toBe(10_000);
    expect(wire.sent).toHaveLength(10_000);
  });

  it('has an answer in pieces, with memory for it while it comes', async () => {
    const { wire, link, say, reserved } = linkOf({ maxAnswer: 6 });
    link.begin(wire);
    const answer = link.ask('read', ['reply_a', 0]);
    say('more', [1, 4], Uint8Array.of(1, 2));
    expect(reserved.now).toBe(6);
    say('more', [1, 1], Uint8Array.of(3, 4, 5));
    say('done', [1, 'found'], Uint8Array.of(6));
    expect((await answer).bytes).toEqual(Uint8Array.of(1, 2, 3, 4, 5, 6));
    expect(reserved.now).toBe(0);
  });

  it('has no answer beyond its bounds, and goes on with the next one', async () => {
    const { wire, link, say } = linkOf({ maxAnswer: 5 });
    link.begin(wire);
    const answers = [link.ask('read', ['reply_a', 0]), link.ask('find', ['reply_a'])];
    say('more', [1, 4], Uint8Array.of(1, 2));
    say('done', [1, 'found'], new Uint8Array(4));
    say('done', [2, 'none']);
    await expect(answers[0]).rejects.toMatchObject({ code: 'reply_too_large' });
    expect((await answers[1])?.fields).toEqual(['none']);

    const full = linkOf({ isFull: true });
    full.link.begin(full.wire);
    const refused = full.link.ask('read', ['reply_a', 0]);
    full.say('more', [1, 1], Uint8Array.of(1));
    await expect(refused).rejects.toMatchObject({ code: 'over_budget' });
  });

  it.each([
    ['another length than stated', 'done', [1, 'found'], new Uint8Array(2)],
    ['a piece that does not fit', 'more', [1, 9], new Uint8Array(2)],
    ['a piece without bytes', 'more', [1, 1], new Uint8Array(0)],
    ['an unknown word', 'dune', [1], new Uint8Array(0)],
    ['half a number', 'done', [1.5], new Uint8Array(0)],
  ])('ends if the answer has %s', async (_what, type, fields, bytes) => {
    const { wire, link, say, over, reserved } = linkOf();
    link.begin(wire);
    const answer = link.ask('read', ['reply_a', 0]);
    say('more', [1, 3], Uint8Array.of(1));
    say(type, fields, bytes);
    await expect(answer).rejects.toBeInstanceOf(Unanswered);
    expect([wire.isOver, over.length, reserved.now]).toEqual([true, 1, 0]);
  });

  it('tells the error of the other node', async () => {
    const { wire, link, say } = linkOf();
    link.begin(wire);
    const answer = link.ask('stop', ['reply_a', 'ada']);
    say('fail', [1], encodeFailure(new ProtocolError('draining', 'it drains')));
    await expect(answer).rejects.toMatchObject({ code: 'draining' });
  });

  it('ends after so much silence while it waits, and not before', async () => {
    const { wire, clock, link, say, over } = linkOf();
    link.begin(wire);
    clock.now = 10 * SILENCE_MS;
    link.handleTick();
    const answer = link.ask('find', ['reply_a']);
    clock.now += SILENCE_MS - 1;
    link.handleTick();
    say('changed', ['reply_b']);
    clock.now += SILENCE_MS - 1;
    link.handleTick();
    expect(over).toEqual([]);
    clock.now += 1;
    link.handleTick();
    await expect(answer).rejects.toMatchObject({ kind: 'silent' });
    await expect(link.ask('find', ['reply_a'])).rejects.toMatchObject({ kind: 'broken' });
  });

  it.each([
    [{ code: 'ECONNREFUSED' }, 'gone'],
    [{ status: 410 }, 'gone'],
    [{ status: 404 }, 'gone'],
    [{ code: 'ECONNRESET' }, 'broken'],
    [{ status: 503 }, 'silent'],
    [{ status: 401 }, 'silent'],
    [{ code: 'EHOSTUNREACH' }, 'silent'],
  ] as const)('that fails with %j says that the node is %s', async (failure, kind) => {
    const { link } = linkOf();
    const answer = link.ask('find', ['reply_a']);
    link.handleFailure(failure);
    await expect(answer).rejects.toMatchObject({ kind });
  });
});

const ENTRY: ReplyEntry = {
  id: 'reply_a',
  owner: 'o',
  principal: 'p',
  name: undefined,
  share: undefined,
  encoding: undefined,
  ttlMs: 1,
  startedAt: 1,
  parts: 0,
  end: undefined,
};

function inletOf(change: Partial<RepliesSource> = {}) {
  const wire = new FakeWire();
  const over: unknown[] = [];
  const watchers = new Map<string, () => void>();
  const source: RepliesSource = {
    find: () => ENTRY,
    read: () => ({ records: [], metadata: undefined, end: undefined }),
    follow(id, onChange) {
      watchers.set(id, onChange);
      return () => void watchers.delete(id);
    },
    stop() {},
    list: () => [],
    movedTo: () => undefined,
    prove: () => undefined,
    receive: () => ({ push() {}, finish: async () => {}, abandon() {} }),
    ...change,
  };
  const inlet = new RepliesInlet(wire, { source, logger: SILENT, onOver: (why) => over.push(why) });
  const say = (type: string, fields: readonly unknown[], ...bytes: Uint8Array[]) =>
    inlet.onMessage(encodePeerMessage(type, fields, ...bytes));
  return { wire, over, watchers, inlet, say };
}

describe('an inlet for the replies of this node', () => {
  it('answers what is there, what is not, and where it is instead', async () => {
    const { wire, say } = inletOf({
      find: (target) => ('id' in target && target.id !== 'reply_a' ? undefined : ENTRY),
      movedTo: (id) => (id === 'reply_c' ? 'aaaaaa' : undefined),
    });
    for (const [i, id] of ['reply_a', 'reply_b', 'reply_c'].entries()) say('find', [i, id]);
    await turn();
    expect(wire.messages.map(({ type, fields }) => [type, ...fields])).toEqual([
      ['done', 0, 'found'],
      ['done', 1, 'none'],
      ['done', 2, 'moved', 'aaaaaa'],
    ]);
  });

  it('says once that a reply has changed, until it is read', async () => {
    const { wire, watchers, say } = inletOf();
    say('watch', ['reply_a']);
    say('watch', ['reply_a']);
    watchers.get('reply_a')?.();
    watchers.get('reply_a')?.();
    expect(wire.messages).toMatchObject([{ type: 'changed', fields: ['reply_a'] }]);
    say('read', [1, 'reply_a', 0]);
    await turn();
    watchers.get('reply_a')?.();
    expect(wire.messages.map(({ type }) => type)).toEqual(['changed', 'done', 'changed']);
    say('unwatch', ['reply_a']);
    expect(watchers.size).toBe(0);
  });

  it('sends a long answer in pieces that a link puts together', async () => {
    const pieces: ReplyPieces = {
      records: [new Uint8Array(3 * CHUNK_SIZE + 5).fill(7)],
      metadata: undefined,
      end: undefined,
    };
    const { wire, say } = inletOf({ read: () => pieces });
    const { link, wire: far } = linkOf();
    far.onSent = (data) => say(decodePeerMessage(data).type, decodePeerMessage(data).fields);
    wire.onSent = (data) => {
      expect(data.length).toBeLessThan(CHUNK_SIZE + 200);
      link.onMessage(data);
    };
    link.begin(far);
    const { fields, bytes } = await link.ask('read', ['reply_a', 0]);
    expect(readPieces(fields.slice(1), bytes)).toEqual(pieces);
    expect(wire.sent.length).toBe(Math.ceil(encodePieces(pieces).bytes.length / CHUNK_SIZE));
  });

  it('reads no questions while answers wait to be written, and few that were on their way', async () => {
    const { wire, inlet, over, say } = inletOf();
    wire.bufferedAmount = 1024 * 1024 + 1;
    say('find', [0, 'reply_a']);
    await turn();
    expect([wire.sent.length, wire.holds]).toEqual([1, 1]);
    for (let i = 1; i <= 1_024; i++) say('find', [i, 'reply_a']);
    await turn();
    expect(wire.sent.length).toBe(1);
    wire.bufferedAmount = 0;
    inlet.onDrain();
    await turn();
    expect([wire.sent.length, wire.holds, over.length]).toEqual([1_025, 0, 0]);
    wire.bufferedAmount = 1024 * 1024 + 1;
    for (let i = 0; i < 1; i++) say('find', [i, 'reply_a']);
    await turn();
    for (let i = 0; i < 1_025; i++) say('find', [i, 'reply_a']);
    expect(over).toMatchObject([{ code: 'rate_limited' }]);
    expect(wire.isOver).toBe(true);
  });

  it.each([
    ['an unknown question', 'fynd', [1, 'reply_a']],
    ['no number', 'find', ['reply_a']],
    ['an ID that is no text', 'find', [1, 7]],
    ['a part that is no number', 'read', [1, 'reply_a', -1]],
    ['a watch of nothing', 'watch', [null]],
    ['a list without an owner', 'list', [1, 1]],
  ])('ends at %s, and gives back all that it held', (_what, type, fields) => {
    let abandoned = 0;
    const { over, wire, watchers, say } = inletOf({
      receive: () => ({ push() {}, finish: async () => {}, abandon: () => void abandoned++ }),
    });
    say('watch', ['reply_a']);
    say('give', [1, 1, false]);
    say(type, fields);
    expect(over).toMatchObject([{ code: 'bad_message' }]);
    expect([wire.isOver, watchers.size, abandoned]).toEqual([true, 0, 1]);
  });

  it('gives up a reply that does not go on, and none that does', async () => {
    let abandoned = 0;
    const { inlet, say } = inletOf({
      receive: () => ({ push() {}, finish: async () => {}, abandon: () => void abandoned++ }),
    });
    say('give', [1, 1, false]);
    say('give', [2, 2, false]);
    for (let tick = 0; tick < 10; tick++) inlet.handleTick();
    await turn();
    say('piece', [3, 2, false]);
    await turn();
    expect(abandoned).toBe(0);
    inlet.handleTick();
    expect(abandoned).toBe(1);
    for (let tick = 0; tick < 9; tick++) inlet.handleTick();
    expect(abandoned).toBe(1);
    inlet.handleTick();
    expect(abandoned).toBe(2);
  });

  it('answers so many questions at a time, in order, while much is told', async () => {
    let asked = 0;
    const { wire, over, say } = inletOf({
      find: async () => {
        asked++;
        await turn();
        return undefined;
      },
    });
    for (let i = 0; i < 20; i++) say('find', [i, 'reply_a']);
    for (let i = 0; i < 5_000; i++) say('watch', [`reply_${i}`]);
    expect([asked, wire.holds]).toEqual([8, 1]);
    for (let turns = 0; turns < 10; turns++) await turn();
    expect(wire.messages.map(({ fields }) => fields[0])).toEqual(Array.from({ length: 20 }, (_, i) => i));
    expect([wire.holds, over]).toEqual([0, []]);
  });

  it('watches what could be a reply', () => {
    const { over, watchers, say } = inletOf();
    say('watch', ['x'.repeat(64)]);
    expect([watchers.size, over]).toEqual([1, []]);
    say('watch', ['x'.repeat(65)]);
    expect(over).toMatchObject([{ code: 'bad_message' }]);
  });

  it('takes as many replies at a time as it may, and no piece of one that it has refused', async () => {
    const { wire, say } = inletOf();
    for (let i = 1; i <= 65; i++) say('give', [i, i, false]);
    say('piece', [66, 65, true]);
    await turn();
    const types = wire.messages.map(({ type, fields }) => [type, fields[0]]);
    expect(types.filter(([type]) => type === 'done')).toHaveLength(64);
    expect(types.filter(([type]) => type === 'fail')).toEqual([
      ['fail', 65],
      ['fail', 66],
    ]);
  });

  it('reads lists in pieces, and forgets the oldest of too many', async () => {
    const { wire, say } = inletOf({ list: () => Array.from({ length: 150 }, () => ENTRY) });
    for (let i = 1; i <= 257; i++) say('list', [i, i, 'o']);
    await turn();
    expect(wire.messages.every(({ type, fields }) => type === 'done' && fields[1] === false)).toBe(true);
    say('next', [1_000, 1]);
    say('next', [1_001, 2]);
    await turn();
    const [first, second] = wire.messages.slice(-2);
    expect([first?.type, first?.fields[0]]).toEqual(['fail', 1_000]);
    expect([second?.type, second?.fields]).toEqual(['done', [1_001, true]]);
  });
});
