import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ProtocolError } from '../../base/errors.js';
import { resolveLimits } from '../../base/limits.js';
import { createBodyCoder } from '../../codec/auto/coder.js';
import { type CodedBody, plainBody } from '../../codec/body.js';
import { decodeMetadata, type Metadata } from '../messages/metadata.js';
import { Cancellation } from './cancellation.js';
import type { KeptBefore, ReplyRecorder, TakenUp } from './keeping.js';
import { KEPT } from './kept-metadata.js';
import { Output, type ReplySink } from './output.js';

const coder = createBodyCoder({
  algorithms: ['NONE'],
  encoding: undefined,
  limits: resolveLimits(),
  security: undefined,
  yield: () => Promise.resolve(),
});

const partOf = (text: string) => plainBody(Buffer.from(text));
const textOf = ({ bytes }: CodedBody) => Buffer.from(bytes).toString();
const microtasks = async (count: number) => {
  for (let i = 0; i < count; i++) await undefined;
};
/** Lets everything happen that waits for nothing but its turn. */
const settle = () => new Promise<void>((resolve) => setImmediate(resolve));

/** A record in memory that answers at once, or when the test says so. */
class Recorder implements ReplyRecorder {
  readonly id = 'reply_test';
  isFull = false;
  isUnbegun = false;
  parts = 0;
  readonly bodies: CodedBody[] = [];
  ending: { readonly error: unknown; readonly metadata: Uint8Array | undefined } | undefined;
  isDiscarded = false;
  /** Whether the requester was sent all of it, once it needs the record no more. */
  released: boolean | undefined;
  /** The part at which the log fails. */
  failsAt = Infinity;
  /** The parts that a reader finds, if the log has lost some. */
  lacks = 0;
  readonly #delay: (() => Promise<void>) | undefined;
  #last: Promise<void> | undefined;
  #metadata: Uint8Array | undefined;

  /** @param delay the log answers after it. @default at once */
  constructor(delay?: () => Promise<void>) {
    this.#delay = delay;
  }

  setMetadata(metadata: Uint8Array): void {
    this.#metadata = metadata;
  }

  append(body: CodedBody): Promise<void> | undefined {
    const metadata = this.#metadata;
    this.#metadata = undefined;
    const add = () => {
      if (this.isFull || this.ending !== undefined) return;
      if (this.parts === this.failsAt) this.isFull = true;
      else {
        this.bodies.push({ ...body, metadata });
        this.parts++;
      }
    };
    return this.#then(add);
  }

  end(error?: unknown): Promise<void> | undefined {
    const metadata = this.#metadata;
    return this.#then(() => {
      this.ending ??= { error, metadata };
    });
  }

  release(isRead: boolean): void {
    this.released = isRead;
  }

  discard(): undefined {
    this.isDiscarded = true;
  }

  /** In two pieces. */
  async *read(after: number): AsyncIterable<CodedBody[]> {
    await this.#delay?.();
    const bodies = this.bodies.slice(after, this.parts - this.lacks);
    yield bodies.slice(0, 2);
    yield bodies.slice(2);
  }

  #then(task: () => void): Promise<void> | undefined {
    if (this.#delay === undefined) return void task();
    const delay = this.#delay;
    const before = this.#last;
    this.#last = (async () => {
      await before;
      await delay();
      task();
    })();
    return this.#last;
  }
}

/** A requester whose stream takes as many bodies as the test gives it room for. */
class Requester implements ReplySink {
  /** Texts of parts, metadata of empty ones, and the end. */
  readonly got: (string | Metadata)[] = [];
  isOver = false;
  hasLeft = false;
  room = Infinity;
  /** `undefined` if there is no room. */
  recorder: ReplyRecorder | undefined = new Recorder();
  /** The record of a process before. */
  former: TakenUp = { state: 'unbegun' };
  before: KeptBefore | undefined;
  #waiting: (() => void)[] = [];

  get parts(): string[] {
    return this.got.filter((each) => typeof each === 'string' && !each.startsWith('!')) as string[];
  }
  get last(): unknown {
    return this.got.at(-1);
  }
  /** The metadata that the requester has at the end. */
  get metadata(): Metadata {
    return (this.got.findLast((each) => typeof each !== 'string') ?? {}) as Metadata;
  }

  give(room: number): void {
    this.room += room;
    for (const wake of this.#waiting.splice(0)) wake();
  }

  leave(): void {
    this.hasLeft = true;
    for (const wake of this.#waiting.splice(0)) wake();
  }

  respond(body: CodedBody): void {
    this.chunk(body);
    this.end();
  }
  chunk(body: CodedBody): void {
    if (this.isOver || this.hasLeft) return;
    if (body.metadata !== undefined) this.got.push(decodeMetadata(body.metadata, 32));
    if (body.bytes.length === 0) return;
    this.room--;
    this.got.push(textOf(body));
  }
  end(): void {
    this.#finish('!end');
  }
  fail(error: unknown): void {
    this.#finish(`!${error instanceof ProtocolError ? error.code : String(error)}`);
  }
  refuse(error: unknown): void {
    this.fail(error);
  }
  isWanted(): boolean {
    return !this.isOver && !this.hasLeft;
  }
  runToCompletion(): void {}
  async ready(): Promise<void> {
    while (this.room <= 0 && this.isWanted()) {
      await new Promise<void>((resolve) => {
        this.#waiting.push(resolve);
      });
    }
  }
  hasRoom(): boolean {
    return this.room > 0;
  }
  keep(_options: unknown, before: KeptBefore): ReplyRecorder | undefined {
    this.before = before;
    return this.recorder;
  }
  async takeUp(): Promise<TakenUp> {
    return this.former;
  }

  #finish(what: string): void {
    if (this.isOver || this.hasLeft) return;
    this.isOver = true;
    this.got.push(what);
    for (const wake of this.#waiting.splice(0)) wake();
  }
}

function begin(recorder = new Recorder(), options: { hasReplies?: boolean; maxMetadataSize?: number } = {}) {
  const requester = new Requester();
  requester.recorder = recorder;
  const cancellation = new Cancellation();
  const output = new Output(requester, cancellation, { coder, maxMetadataSize: 8192, ...options });
  return { output, requester, recorder, cancellation };
}

const NAMES = Array.from({ length: 10 }, (_, i) => `p${i} `);
const stopped = () => new ProtocolError('cancelled', 'stopped');

describe('the requester of a kept reply', () => {
  it('that is behind gets the rest from the record, and directly again when it has caught up', async () => {
    const { output, requester, recorder } = begin();
    output.keep({});
    requester.room = 2;
    for (const name of NAMES.slice(0, 6)) await output.part(partOf(name));
    await settle();
    expect([requester.parts, recorder.parts]).toEqual([NAMES.slice(0, 2), 6]);
    requester.give(3);
    await settle();
    expect(requester.parts).toEqual(NAMES.slice(0, 5));
    requester.give(100);
    await settle();
    // From here on, nothing is read from the record.
    recorder.bodies.length = 0;
    for (const name of NAMES.slice(6)) await output.part(partOf(name));
    await output.end();
    expect(requester.got).toEqual([...NAMES, '!end']);
    expect(recorder.ending).toMatchObject({ error: undefined });
  });

  it('that leaves while it is behind does not keep the record from its end', async () => {
    const { output, requester, recorder } = begin();
    output.keep({});
    requester.room = 1;
    for (const name of NAMES.slice(0, 4)) await output.part(partOf(name));
    requester.leave();
    expect(output.isWanted).toBe(true);
    for (const name of NAMES.slice(4)) await output.part(partOf(name));
    await output.end();
    expect(recorder.bodies.map(textOf)).toEqual(NAMES);
    expect(requester.parts).toEqual(NAMES.slice(0, 1));
  });

  it('gets a part only when it is recorded', async () => {
    let open = (): void => {};
    const gate = new Promise<void>((resolve) => {
      open = resolve;
    });
    const { output, requester, recorder } = begin(new Recorder(() => gate));
    output.keep({});
    const sent = output.part(partOf('a'));
    await settle();
    expect([requester.parts, recorder.parts]).toEqual([[], 0]);
    open();
    await sent;
    expect([requester.parts, recorder.parts]).toEqual([['a'], 1]);
  });

  it.each([0, 1, 3])('gets every part if the log fails at part %i', async (failsAt) => {
    for (const room of [1, Infinity]) {
      const { output, requester, recorder } = begin();
      recorder.failsAt = failsAt;
      output.keep({});
      requester.room = room;
      const writing = (async () => {
        for (const name of NAMES) await output.part(partOf(name));
        await output.end();
      })();
      for (let i = 0; i < 20; i++) {
        await settle();
        requester.give(1);
      }
      await writing;
      expect(requester.got).toEqual([...NAMES, '!end']);
      expect(recorder.bodies.map(textOf)).toEqual(NAMES.slice(0, failsAt));
    }
  });

  it('gets an error if the record has lost what it lacks', async () => {
    const { output, requester, recorder } = begin();
    recorder.lacks = 10;
    output.keep({});
    requester.room = 1;
    await output.part(partOf('a'));
    await output.part(partOf('b'));
    await output.end();
    expect(requester.got).toEqual(['a', '!internal']);
  });

  it.each([0, 1, 2, 5, 10])('gets the reason of an abort after part %i, and nothing after it', async (at) => {
    for (const room of [0, 2, Infinity]) {
      const { output, requester, recorder, cancellation } = begin();
      output.keep({});
      requester.room = room;
      for (const [i, name] of NAMES.entries()) {
        if (i === at) cancellation.abort(stopped());
        if (!output.isWanted) break;
        await output.part(partOf(name));
      }
      if (at === NAMES.length) cancellation.abort(stopped());
      // The handler may end in order, or throw what it likes.
      await (room === 2 ? output.end() : output.fail(new Error('any')));
      requester.give(100);
      await settle();
      expect(requester.got).toEqual([...NAMES.slice(0, Math.min(at, room)), '!cancelled']);
      expect(recorder.bodies.map(textOf)).toEqual(NAMES.slice(0, at));
      expect(recorder.ending?.error).toMatchObject({ code: 'cancelled' });
    }
  });

  it('gets the reason at once if the handler keeps its reply after the abort', () => {
    const { output, requester, recorder, cancellation } = begin();
    cancellation.abort(stopped());
    output.keep({});
    expect(requester.got).toEqual(['!cancelled']);
    expect(recorder.ending?.error).toMatchObject({ code: 'cancelled' });
  });

  it('may be told the whole reply at once, after it is recorded', async () => {
    const { output, requester, recorder } = begin(new Recorder(() => microtasks(5)));
    output.keep({});
    const done = output.respond(partOf('whole'));
    expect(requester.got).toEqual([]);
    await done;
    expect(requester.got).toEqual(['whole', '!end']);
    expect(recorder.bodies.map(textOf)).toEqual(['whole']);
  });
});

describe('metadata of a kept reply', () => {
  it('travels with its part and is recorded with it', async () => {
    const { output, requester, recorder } = begin();
    output.setMetadata({ n: 0 });
    output.keep({});
    await output.part(partOf('a'));
    output.setMetadata({ n: 1 });
    await output.part(partOf('b'));
    output.setMetadata({ n: 2 });
    await output.end();
    expect(requester.got).toEqual([{ n: 0 }, 'a', { n: 1 }, 'b', { n: 2 }, '!end']);
    expect(recorder.bodies.map(({ metadata }) => decodeMetadata(metadata, 8))).toEqual([{ n: 0 }, { n: 1 }]);
    expect(decodeMetadata(recorder.ending?.metadata, 8)).toEqual({ n: 2 });
  });

  it('arrives in order at a requester that is behind, that of the end last', async () => {
    const { output, requester } = begin();
    output.keep({});
    requester.room = 1;
    for (const [i, name] of NAMES.slice(0, 4).entries()) {
      output.setMetadata({ n: i });
      await output.part(partOf(name));
    }
    output.setMetadata({ n: 'end' });
    const ended = output.end();
    await settle();
    requester.give(1);
    await settle();
    requester.give(100);
    await ended;
    const [a, b, c, d] = NAMES;
    expect(requester.got).toEqual([{ n: 0 }, a, { n: 1 }, b, { n: 2 }, c, { n: 3 }, d, { n: 'end' }, '!end']);
  });

  it('of an empty part does not make it disappear for a requester that is behind', async () => {
    const { output, requester } = begin();
    output.keep({});
    requester.room = 1;
    let counted = 0;
    const chunk = requester.chunk.bind(requester);
    requester.chunk = (body) => {
      if (body.bytes.length > 0 || body.metadata === undefined) counted++;
      chunk(body);
    };
    for (const [i, name] of ['a', '', 'b', ''].entries()) {
      output.setMetadata({ n: i });
      await output.part(partOf(name));
    }
    const ended = output.end();
    requester.give(100);
    await ended;
    expect(requester.got).toEqual([{ n: 0 }, 'a', { n: 1 }, { n: 2 }, 'b', { n: 3 }, '!end']);
    expect(counted).toBe(4);
  });

  it('goes to the requester alone if the log fails at its part', async () => {
    const { output, requester, recorder } = begin();
    recorder.failsAt = 1;
    output.keep({});
    await output.part(partOf('a'));
    output.setMetadata({ n: 1 });
    await output.part(partOf('b'));
    output.setMetadata({ n: 2 });
    await output.end();
    expect(requester.got).toEqual(['a', { n: 1 }, 'b', { n: 2 }, '!end']);
  });

  it('names the reply, beside that of the handler or before it if both are too large together', async () => {
    const id = { [KEPT]: { id: 'reply_test' } };
    for (const [size, expected] of [
      [3, [{ ...id, x: 'xxx' }]],
      [90, [id, { x: 'x'.repeat(90) }]],
    ] as const) {
      const { output, requester, recorder } = begin(new Recorder(), {
        hasReplies: true,
        maxMetadataSize: 96,
      });
      output.setMetadata({ x: 'x'.repeat(size) });
      output.keep({});
      await output.part(partOf('a'));
      await output.end();
      expect(requester.got).toEqual([...expected, 'a', '!end']);
      expect(decodeMetadata(recorder.bodies[0]?.metadata, 8)).toEqual({ x: 'x'.repeat(size) });
    }
    // As many entries as metadata can have.
    const { output, requester } = begin(new Recorder(), { hasReplies: true });
    const full = Object.fromEntries(Array.from({ length: 256 }, (_, i) => [`k${i}`, 1]));
    output.setMetadata(full);
    output.keep({});
    await output.part(partOf('a'));
    expect(requester.got).toEqual([id, full, 'a']);
  });

  it('of a whole reply leaves the name out if both are too large together', () => {
    for (const [size, hasId] of [
      [3, true],
      [90, false],
    ] as const) {
      const { output } = begin(new Recorder(), { hasReplies: true, maxMetadataSize: 96 });
      output.keep({});
      output.setMetadata({ x: 'x'.repeat(size) });
      const metadata = decodeMetadata(output.takeMetadata(), 8);
      expect(metadata['x']).toBe('x'.repeat(size));
      expect(KEPT in metadata).toBe(hasId);
    }
  });

  it('may not use the reserved name', () => {
    const { output } = begin();
    expect(() => output.setMetadata({ [KEPT]: 1 })).toThrow(
      expect.objectContaining({ code: 'invalid_argument' }),
    );
  });
});

describe('keep', () => {
  it('again before the first part replaces the record', async () => {
    const { output, requester, recorder } = begin();
    output.keep({});
    const second = new Recorder();
    requester.recorder = second;
    output.keep({});
    await output.part(partOf('a'));
    await output.end();
    expect([recorder.isDiscarded, recorder.parts, second.parts]).toEqual([true, 0, 1]);
    expect(() => output.keep({})).toThrow(expect.objectContaining({ code: 'invalid_argument' }));
  });
});

describe('a kept reply of a process before', () => {
  const kept = 'reply_test';
  const yielded = ['a', 'b'].map(partOf);

  /** A record that has `count` parts of `texts`. */
  const recordOf = (texts: string, count = texts.length): Recorder => {
    const recorder = new Recorder();
    for (const text of [...texts].slice(0, count)) void recorder.append(partOf(text));
    return recorder;
  };

  it('continues in its record, and the requester gets what only that has', async () => {
    const { output, requester } = begin(new Recorder(), { hasReplies: true });
    const recorder = recordOf('abcd');
    requester.former = { state: 'found', recorder, rest: ['c', 'd'].map(partOf) };
    const all = await output.takeUp({ kept, yielded });
    expect(all?.map(textOf)).toEqual(['a', 'b', 'c', 'd']);
    expect(output.keep({ name: 'other' })).toEqual({ id: recorder.id });
    await output.part(partOf('e'));
    await output.end();
    // The session itself tells the parts that it has recorded; a requester that has parts was told the ID.
    expect(requester.got).toEqual(['c', 'd', 'e', '!end']);
    expect(recorder.bodies.map(textOf).join('')).toBe('abcde');
    expect([recorder.ending?.error, recorder.released]).toEqual([undefined, true]);
  });

  it('continues although the handler does not keep it again, and tells a requester without parts its ID', async () => {
    const { output, requester } = begin(new Recorder(), { hasReplies: true });
    const recorder = recordOf('');
    requester.former = { state: 'found', recorder, rest: [] };
    expect(await output.takeUp({ kept, yielded: [] })).toEqual([]);
    await output.part(partOf('a'));
    expect(requester.got).toEqual([{ [KEPT]: { id: recorder.id } }, 'a']);
    expect(recorder.bodies.map(textOf)).toEqual(['a']);
  });

  it.each([
    ['complete', undefined, '!end'],
    ['failed', new ProtocolError('cancelled', 'stopped'), '!cancelled'],
  ])('that had ended, %s, is not begun again', async (_how, error, last) => {
    const { output, requester } = begin();
    const recorder = recordOf('abc');
    const metadata = Uint8Array.from([0x81, 0xa1, 0x61, 1]);
    requester.former = { state: 'found', recorder, rest: [partOf('c')], end: { error, metadata } };
    expect(await output.takeUp({ kept, yielded })).toBeUndefined();
    const rest = error === undefined ? ['c', { a: 1 }, last] : ['c', last];
    expect(requester.got).toEqual(rest);
  });

  it('whose record is not kept any more is sent as usual', async () => {
    const { output, requester } = begin();
    requester.former = { state: 'unkept' };
    await output.takeUp({ kept, yielded });
    expect(output.keep({})).toBeUndefined();
    expect(requester.before).toBeUndefined();
    await output.part(partOf('c'));
    expect(requester.got).toEqual(['c']);
  });

  it('that its record takes no more of still gives the requester what others have read', async () => {
    for (const room of [0, Infinity]) {
      const { output, requester } = begin();
      const recorder = recordOf('abcd');
      recorder.isFull = true;
      requester.room = room;
      requester.former = { state: 'unkept', recorder, rest: ['c', 'd'].map(partOf) };
      const all = await output.takeUp({ kept, yielded });
      expect(all?.map(textOf)).toEqual(['a', 'b', 'c', 'd']);
      expect(output.keep({})).toBeUndefined();
      const written = output.part(partOf('e'));
      requester.give(100);
      await written;
      await output.end();
      expect(requester.got).toEqual(['c', 'd', 'e', '!end']);
      expect(recorder.bodies.map(textOf).join('')).toBe('abcd');
    }
  });

  it('whose record is lost is told so when its name is known', async () => {
    const { output, requester } = begin();
    requester.former = { state: 'lost' };
    requester.recorder = undefined;
    await output.takeUp({ kept, yielded });
    expect(output.keep({ name: 'n' })).toBeUndefined();
    expect(requester.before).toMatchObject({ id: kept, isLost: true });
  });

  it.each([
    ['that nobody has seen is begun under its ID', kept],
    ['that was not kept begins with what was said', undefined],
  ])('%s', async (_what, id) => {
    const { output, requester } = begin(recordOf('ab'));
    await output.takeUp({ kept: id, yielded });
    output.keep({});
    expect(requester.before).toMatchObject({ id, yielded, isLost: false });
    await output.part(partOf('c'));
    expect(requester.got).toEqual(['c']);
  });
});

it('a reply for which there is no room is sent without being kept', async () => {
  const { output, requester } = begin(undefined, { hasReplies: true });
  requester.recorder = undefined;
  expect(output.keep({})).toBeUndefined();
  await output.part(partOf('a'));
  await output.end();
  expect(requester.got).toEqual(['a', '!end']);
});

it('a record that turns out not to have begun is not named', async () => {
  const { output, requester, recorder } = begin(new Recorder(), { hasReplies: true });
  output.keep({});
  recorder.isFull = recorder.isUnbegun = true;
  await output.part(partOf('a'));
  expect(requester.got).toEqual(['a']);
});

describe('in every order of events', () => {
  /** One thing that the requester, the log or the handler does between two parts. */
  const moves = fc.oneof(
    {
      weight: 4,
      arbitrary: fc.record({ kind: fc.constant('give' as const), count: fc.integer({ min: 1, max: 4 }) }),
    },
    { weight: 4, arbitrary: fc.record({ kind: fc.constant('part' as const), metadata: fc.boolean() }) },
    {
      weight: 3,
      arbitrary: fc.record({ kind: fc.constant('turns' as const), count: fc.integer({ min: 0, max: 12 }) }),
    },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant('settle' as const) }) },
  );

  it('the requester gets each part once and in order, and all of them are recorded', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(moves, { minLength: 1, maxLength: 60, size: 'max' }),
        fc.option(fc.array(fc.integer({ min: 0, max: 9 }), { minLength: 1, maxLength: 20 }), {
          nil: undefined,
        }),
        fc.integer({ min: 0, max: 3 }),
        fc.constantFrom('end', 'fail', 'leave'),
        fc.option(fc.nat({ max: 30 }), { nil: Infinity }),
        async (history, delays, room, how, failsAt) => {
          let calls = 0;
          const delay = delays && (() => microtasks(delays[calls++ % delays.length] as number));
          const { output, requester, recorder } = begin(new Recorder(delay), { hasReplies: true });
          recorder.failsAt = failsAt;
          output.keep({});
          requester.room = room;
          const written: string[] = [];
          let noted: Metadata = {};
          // The handler writes a part when the one before it was taken; the requester does not wait for that.
          let writing: Promise<void> = Promise.resolve();
          for (const move of history) {
            if (move.kind === 'give') requester.give(move.count);
            else if (move.kind === 'turns') await microtasks(move.count);
            else if (move.kind === 'settle') await settle();
            else {
              const name = `p${written.length} `;
              const at = written.push(name);
              if (move.metadata) noted = { at };
              writing = writing.then(() => {
                if (move.metadata) output.setMetadata({ at });
                return output.part(partOf(name));
              });
            }
          }
          if (how === 'leave') requester.leave();
          const finished = writing.then(() => (how === 'fail' ? output.fail(new Error('x')) : output.end()));
          await settle();
          requester.give(1_000);
          await finished;
          await settle();
          const recorded = recorder.bodies.map(textOf);
          expect(recorded).toEqual(written.slice(0, failsAt));
          if (how === 'leave') expect(requester.parts).toEqual(written.slice(0, requester.parts.length));
          else {
            expect(requester.parts).toEqual(written);
            expect(requester.last).toBe(how === 'end' ? '!end' : '!Error: x');
            const { [KEPT]: id, ...metadata } = requester.metadata;
            expect(metadata).toEqual(noted);
            if (written.length > 0) expect(requester.got[0]).toMatchObject({ [KEPT]: { id: recorder.id } });
          }
          expect(recorder.ending).toBeDefined();
        },
      ),
      { numRuns: 500 },
    );
  });
});
