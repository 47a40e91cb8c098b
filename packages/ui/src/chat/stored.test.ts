import { describe, expect, it } from 'vitest';
import { createTurn, type Turn } from './conversation.js';
import { createPack, NOTHING_OMITTED, ROOM, unpack } from './stored.js';
import type { TurnTraffic } from './traffic.js';

/** The conversation that a tab stores, and the one that it finds again. */

const traffic = (bytes: number): TurnTraffic => ({
  sent: { socket: bytes, http: 10 * bytes, gzip: 5 * bytes },
  received: { socket: 1, http: 2, gzip: 3 },
  parts: 1,
  ms: 100,
});
const turn = (i: number, answer = `answer ${i}`): Turn => ({
  ...createTurn(`question ${i}`),
  answer,
  end: 'stop',
  state: 'done',
  reply: undefined,
  traffic: traffic(i),
});
const turns = (count: number) => Array.from({ length: count }, (_, i) => turn(i + 1));
const whole = (all: readonly Turn[]) => createPack()(all, NOTHING_OMITTED, Infinity);

describe('a conversation that is stored', () => {
  it('is found as it was', () => {
    const all: Turn[] = [
      ...turns(150),
      { ...turn(151, ''), refusal: 'No.', thinking: 'Hm', end: undefined, state: 'elsewhere' },
      { ...createTurn('open'), calls: [{ index: 0, name: 'tool', arguments: '{}' }], state: 'streaming' },
    ];
    expect(unpack(whole(all))).toEqual({ turns: all, omitted: NOTHING_OMITTED });
    expect(unpack(whole([]))).toEqual({ turns: [], omitted: NOTHING_OMITTED });
  });

  it('keeps all that fits, and leaves out the oldest turn if one character does not', () => {
    const all = turns(20);
    const pack = createPack();
    const fits = Array.from({ length: 2 * ROOM }, (_, i) => whole(all).length - ROOM + i).find(
      (length) => unpack(pack(all, NOTHING_OMITTED, length))?.omitted.turns === 0,
    ) as number;
    expect(unpack(pack(all, NOTHING_OMITTED, fits))?.turns).toEqual(all);
    const less = unpack(pack(all, NOTHING_OMITTED, fits - 1));
    expect(less?.turns).toEqual(all.slice(1));
    expect(less?.omitted).toEqual({ turns: 1, traffic: traffic(1) });
    for (let length = 1_000; length < fits; length += 137) {
      const written = pack(all, NOTHING_OMITTED, length);
      expect(written.length).toBeLessThanOrEqual(length);
    }
  });

  it('counts what was left out before and now, so that the sum stays', () => {
    const all = turns(10);
    const pack = createPack();
    const first = unpack(pack(all, NOTHING_OMITTED, 2_500)) ?? expect.fail('it is readable');
    const second = unpack(pack([...first.turns, turn(11)], first.omitted, 2_500)) ?? expect.fail('it is');
    const sum = ({ turns: kept, omitted }: typeof first) =>
      [omitted, ...kept].reduce((bytes, { traffic: { sent } }) => bytes + sent.socket, 0);
    expect(second.omitted.turns).toBeGreaterThan(0);
    expect(sum(first)).toBe(55);
    expect(sum(second)).toBe(66);
    expect(first.omitted.turns + first.turns.length).toBe(10);
    expect(second.omitted.turns + second.turns.length).toBe(11);
  });

  it('has its last turn, however large, and the present text of that', () => {
    const [before, last] = [turn(1), turn(2, 'x'.repeat(5_000))];
    const pack = createPack();
    expect(unpack(pack([before, last], NOTHING_OMITTED, 1_000))?.turns).toEqual([last]);
    last.answer = 'changed';
    expect(unpack(pack([before, last], NOTHING_OMITTED, 10_000))?.turns).toEqual([before, last]);
    const next = turn(3);
    expect(unpack(pack([before, last, next], NOTHING_OMITTED, 10_000))?.turns).toEqual([before, last, next]);
  });

  it('of a former version of the page is found too', () => {
    const { refusal, thinking, calls, ...former } = turn(1);
    const read = { ...former, refusal, thinking, calls };
    expect(unpack(JSON.stringify([former]))?.turns).toEqual([read]);
  });

  it.each(['', 'null', '{', '5', '"text"', '{}', '{"turns":5}', '{"omitted":{},"turns":[]}'])(
    'is not there if %j is',
    (text) => {
      expect(unpack(text)).toBeUndefined();
    },
  );

  it('lacks turns that are none', () => {
    const last = turn(4);
    const bad = [{ ...turn(1), refusal: 5 }, { ...turn(2), calls: [{}] }, { ...turn(3), state: 'odd' }, null];
    const json = JSON.stringify({ omitted: NOTHING_OMITTED, turns: [...bad, last] });
    expect(unpack(json)?.turns).toEqual([last]);
  });
});
