import fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import { platform } from '../../testing/this-platform.js';
import { ContextState, MAX_SLOT_SIZE, MAX_UNPACKED, NEWEST, NO_BASE, SLOT } from './state.js';

const bytes = (length: number) => new Uint8Array(length);
const whole = (length: number) => ({ content: bytes(length), isPart: false, replaces: false });
const lengths = (state: ContextState) => state.bases.map(({ content }) => content.length);

/** A body in one frame. */
function pass(
  state: ContextState,
  body: { length: number; isPart?: boolean; replaces?: boolean; on?: number; position?: number },
) {
  const { on = 0, position = NO_BASE } = body;
  state.begin(on, state.baseAt(position, on));
  state.complete(on, {
    content: bytes(body.length),
    isPart: body.isPart ?? false,
    replaces: body.replaces ?? false,
  });
}

beforeAll(() => platform.loadZstd());

describe('the state of a direction', () => {
  it('keeps up to its limits of bytes and messages, and drops the oldest', () => {
    const state = new ContextState({ maxBytes: 100, maxMessages: 3 });
    for (const length of [40, 30, 30]) pass(state, { length });
    expect([lengths(state), state.bytes]).toEqual([[30, 30, 40], 100]);
    pass(state, { length: 1 });
    expect([lengths(state), state.bytes]).toEqual([[1, 30, 30], 61]);
    pass(state, { length: 71 });
    expect([lengths(state), state.bytes]).toEqual([[71, 1], 72]);
  });

  it('accepts a body of exactly its limit of bytes; a larger one neither enters nor evicts', () => {
    const state = new ContextState({ maxBytes: 100, maxMessages: 3 });
    pass(state, { length: 7 });
    pass(state, { length: 101 });
    expect(lengths(state)).toEqual([7]);
    pass(state, { length: 100 });
    expect(lengths(state)).toEqual([100]);
    pass(state, { length: 101, position: NEWEST, replaces: true });
    expect(lengths(state)).toEqual([100]);
  });

  it('pins a base from the first frame of a body to its last', () => {
    const state = new ContextState({ maxBytes: 100, maxMessages: 2 });
    pass(state, { length: 10 });
    pass(state, { length: 20 });
    state.begin(5, state.baseAt(NEWEST + 1, 5));
    pass(state, { length: 30 });
    expect(lengths(state)).toEqual([30, 10]);
    expect(state.baseOf(5)?.content.length).toBe(10);
    state.begin(7, state.baseAt(NEWEST, 7));
    pass(state, { length: 40 });
    expect(lengths(state), 'nothing can make room').toEqual([30, 10]);
    state.complete(5, whole(50));
    expect(lengths(state)).toEqual([50, 30]);
    state.abandon(7);
    pass(state, { length: 50 });
    expect(lengths(state)).toEqual([50, 50]);
  });

  it('lets a body replace its base, unless others need that', () => {
    const state = new ContextState({ maxBytes: 1000, maxMessages: 4 });
    pass(state, { length: 10 });
    pass(state, { length: 20 });
    pass(state, { length: 11, position: NEWEST + 1, replaces: true });
    expect([lengths(state), state.bytes]).toEqual([[11, 20], 31]);
    state.begin(5, state.baseAt(NEWEST, 5));
    pass(state, { length: 12, position: NEWEST, replaces: true });
    expect(lengths(state)).toEqual([12, 11, 20]);
    state.complete(5, { ...whole(13), replaces: true });
    expect([lengths(state), state.bytes]).toEqual([[13, 12, 20], 45]);
  });

  it('keeps the last small part of each stream in a slot of its own, until the stream ends', () => {
    const state = new ContextState({ maxBytes: 10_000, maxMessages: 2 });
    pass(state, { length: MAX_SLOT_SIZE, isPart: true, on: 1 });
    pass(state, { length: 5, isPart: true, on: 3 });
    expect([lengths(state), state.slot(1)?.content.length, state.slot(3)?.content.length]).toEqual([
      [],
      MAX_SLOT_SIZE,
      5,
    ]);
    pass(state, { length: MAX_SLOT_SIZE + 1, isPart: true, on: 1 });
    expect([lengths(state), state.slot(1)?.content.length]).toEqual([[MAX_SLOT_SIZE + 1], MAX_SLOT_SIZE]);
    expect([
      state.baseAt(SLOT, 1)?.content.length,
      state.baseAt(SLOT, 5),
      state.baseAt(NEWEST + 1, 1),
    ]).toEqual([MAX_SLOT_SIZE, undefined, undefined]);
    expect(state.end(1)).toBeTypeOf('number');
    expect([state.slot(1), state.end(1), state.slot(3)?.content.length]).toEqual([undefined, undefined, 5]);
  });

  it('packs the oldest of what exceeds the first MiB, and counts that until it leaves', () => {
    const state = new ContextState({ maxBytes: 4 * MAX_UNPACKED, maxMessages: 3 });
    const packed = () => state.bases.map(({ isPacked }) => isPacked);
    const sum = () => state.bases.reduce((bytes, { packedBytes }) => bytes + packedBytes, 0);
    pass(state, { length: 1000 });
    pass(state, { length: MAX_UNPACKED - 1000 });
    expect([packed(), state.packedBytes]).toEqual([[false, false], 0]);
    pass(state, { length: 1 });
    expect(packed()).toEqual([false, false, true]);
    expect(state.packedBytes).toBeGreaterThan(0);
    expect(state.packedBytes).toBe(sum());
    pass(state, { length: MAX_UNPACKED + 1, position: NEWEST, replaces: true });
    expect([lengths(state), packed()]).toEqual([
      [MAX_UNPACKED + 1, MAX_UNPACKED - 1000, 1000],
      [true, false, true],
    ]);
    expect(state.packedBytes).toBe(sum());
    const known = state.bases[0]?.segmentsOf(MAX_UNPACKED);
    state.begin(0, state.baseAt(NEWEST, 0));
    state.complete(0, { ...whole(MAX_UNPACKED + 2), replaces: true, prefix: MAX_UNPACKED + 1 });
    expect([lengths(state)[0], state.packedBytes]).toEqual([MAX_UNPACKED + 2, sum()]);
    // Their common beginning is not packed again.
    const shared = state.bases[0]?.segmentsOf(MAX_UNPACKED) ?? [];
    expect(shared.map((segment, i) => segment === known?.[i])).toEqual(Array(16).fill(true));
    for (let i = 0; i < 3; i++) pass(state, { length: 5 });
    expect([lengths(state), state.packedBytes]).toEqual([[5, 5, 5], 0]);
  });

  it('computes the CRC of a stream over all its parts, and only over those', () => {
    const state = new ContextState({ maxBytes: 10_000, maxMessages: 2 });
    const say = (text: string, isPart: boolean) => {
      state.begin(1, undefined);
      state.complete(1, { content: new TextEncoder().encode(text), isPart, replaces: false });
    };
    say('no part', false);
    expect(state.end(1)).toBeUndefined();
    say('1234', true);
    say('56789', true);
    // The check value of CRC-32.
    expect(state.end(1)).toBe(0xcbf43926);
  });
});

/** The state of a direction in another form: a list of numbers, rebuilt at every step. */
class Model {
  listed: { id: number; length: number }[] = [];
  slots = new Map<number, number>();
  underWay = new Map<number, number | undefined>();
  private readonly maxBytes: number;
  private readonly maxMessages: number;

  constructor(maxBytes: number, maxMessages: number) {
    this.maxBytes = maxBytes;
    this.maxMessages = maxMessages;
  }

  named(position: number, stream: number): number | undefined {
    return position === 1 ? this.slots.get(stream) : this.listed[position - 2]?.id;
  }

  enter(id: number, length: number, replaced: number | undefined): void {
    const pinned = new Set(this.underWay.values());
    const fits = (list: { length: number }[]) =>
      list.length + 1 <= this.maxMessages &&
      list.reduce((sum, each) => sum + each.length, length) <= this.maxBytes;
    let kept = this.listed.filter((each) => each.id !== replaced || pinned.has(each.id));
    while (!fits(kept)) {
      const oldest = kept.findLast((each) => !pinned.has(each.id));
      if (oldest === undefined) return;
      kept = kept.filter((each) => each !== oldest);
    }
    this.listed = [{ id, length }, ...kept];
  }
}

it('behaves like a simple model in any order of events', () => {
  const step = fc.record({
    stream: fc.nat(3),
    position: fc.nat(6),
    length: fc.oneof(fc.nat(60), fc.constant(MAX_SLOT_SIZE + 1)),
    isPart: fc.boolean(),
    replaces: fc.boolean(),
    what: fc.constantFrom('body', 'body', 'body', 'begin', 'begin', 'complete', 'abandon', 'end'),
  });
  fc.assert(
    fc.property(
      fc.array(step, { maxLength: 60 }),
      fc.constantFrom(100, 5000),
      fc.integer({ min: 0, max: 5 }),
      (steps, maxBytes, maxMessages) => {
        const state = new ContextState({ maxBytes, maxMessages });
        const model = new Model(maxBytes, maxMessages);
        const ids = new Map<Uint8Array, number>();
        let next = 0;

        const begin = (stream: number, position: number) => {
          const base = state.baseAt(position, stream);
          state.begin(stream, base);
          model.underWay.set(stream, model.named(position, stream));
          expect(base && ids.get(base.content)).toBe(model.named(position, stream));
        };
        const complete = (
          stream: number,
          { length, isPart, replaces }: { length: number; isPart: boolean; replaces: boolean },
        ) => {
          const content = bytes(length);
          const id = next++;
          ids.set(content, id);
          state.complete(stream, { content, isPart, replaces });
          const base = model.underWay.get(stream);
          model.underWay.delete(stream);
          if (isPart && length <= MAX_SLOT_SIZE) model.slots.set(stream, id);
          else model.enter(id, length, replaces ? base : undefined);
        };

        for (const { what, stream, position, ...body } of steps) {
          if (what === 'abandon') {
            state.abandon(stream);
            model.underWay.delete(stream);
          } else if (what === 'end') {
            state.end(stream);
            model.underWay.delete(stream);
            model.slots.delete(stream);
          } else if (what === 'complete') {
            if (model.underWay.has(stream)) complete(stream, body);
          } else if (!model.underWay.has(stream)) {
            begin(stream, position);
            if (what === 'body') complete(stream, body);
          }
          expect(state.bases.map(({ content }) => ids.get(content))).toEqual(
            model.listed.map(({ id }) => id),
          );
          expect(state.bytes).toBe(model.listed.reduce((sum, each) => sum + each.length, 0));
          expect(state.bytes).toBeLessThanOrEqual(maxBytes);
          expect(state.bases.length).toBeLessThanOrEqual(maxMessages);
          for (let each = 0; each < 4; each++) {
            const slot = state.slot(each);
            expect(slot && ids.get(slot.content)).toBe(model.slots.get(each));
          }
        }
      },
    ),
    { numRuns: 400 },
  );
});
