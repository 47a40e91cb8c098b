import { describe, expect, it } from 'vitest';
import { errorCode } from '../../../../protocol/src/testing/error-code.js';
import { Seal } from './keys.js';
import { RecordSeal } from './record-seal.js';

const ID = 'sess_one';
const [A, B] = [1, 2].map((byte) => new Uint8Array(32).fill(byte)) as [Uint8Array, Uint8Array];
const KEY = new Seal(A);
const SECRET = 'the patient said';

type Record = Map<string, Uint8Array>;

const bytes = (text: string) => new Uint8Array(Buffer.from(text));
const texts = (fields: Iterable<readonly [string, Uint8Array]>) =>
  Object.fromEntries([...fields].map(([name, value]) => [name, Buffer.from(value).toString()]));

/** One session, as an engine has it after each commit. */
class History {
  readonly states: Record[] = [];
  #seal: RecordSeal;
  #commit = 0;

  constructor(seal = RecordSeal.begin(KEY, ID, 0), before: Record = new Map()) {
    this.#seal = seal;
    this.states.push(before);
  }

  write(set: globalThis.Record<string, string>, remove: string[] = []): this {
    const plain = new Map(Object.entries(set).map(([name, text]) => [name, bytes(text)]));
    const changes = this.#seal.seal(++this.#commit, { set: plain, remove });
    const state = new Map([...this.last, ...changes.set]);
    for (const name of changes.remove) state.delete(name);
    this.states.push(state);
    return this;
  }

  /** Another process continues. */
  takeOver(epoch: number, seal = KEY): History {
    return new History(RecordSeal.open(seal, ID, epoch, this.last).seal, this.last);
  }

  get last(): Record {
    return this.states.at(-1) ?? new Map();
  }
}

/** Two epochs, with everything that a record may have, written more than once. */
const lived = () =>
  new History()
    .write({ begin: SECRET, principal: 'ada', accept: '1 token', state: `${SECRET} 1`, handled: '1' })
    .write({ m1: SECRET, s1: '1', said: '1', 'p1.0': `${SECRET} a`, state: `${SECRET} 2` })
    .write({ 'p1.1': `${SECRET} b`, handled: '2', m2: 'two', said: '2' }, ['m1'])
    .takeOver(1)
    .write({ 'p1.2': 'c', s1: '2 again', accept: '2 other', state: `${SECRET} 3` })
    .write({ x1: 'end', handled: '3', m3: 'three', said: '3' });

const open = (record: Record, seal = KEY, id = ID) => RecordSeal.open(seal, id, 9, record).fields;
const codeOf = (record: Record, seal = KEY, id = ID) => errorCode(() => open(record, seal, id));
const REFUSED = 'authentication_failed';

describe('the sealed record of a durable session', () => {
  it('opens to what was written', () => {
    expect(texts(open(lived().last))).toEqual({
      ...{ begin: SECRET, principal: 'ada', accept: '2 other', state: `${SECRET} 3`, handled: '3' },
      ...{ m2: 'two', m3: 'three', said: '3', s1: '2 again', x1: 'end' },
      ...{ 'p1.0': `${SECRET} a`, 'p1.1': `${SECRET} b`, 'p1.2': 'c' },
    });
  });

  it('opens in part, before it is claimed', () => {
    const { last } = lived();
    const some = new Map(RecordSeal.namesFor(['begin', 'accept']).map((name) => [name, last.get(name)!]));
    expect(texts(RecordSeal.openSome(KEY, ID, some))).toEqual({ begin: SECRET, accept: '2 other' });
    some.set('accept', last.get('begin')!);
    expect(errorCode(() => RecordSeal.openSome(KEY, ID, some))).toBe(REFUSED);
  });

  it('shows nothing of what it holds', () => {
    for (const [name, value] of lived().last) {
      const raw = Buffer.from(value).toString('latin1');
      for (const text of [SECRET, 'ada', 'token', 'again', 'three']) expect(raw, name).not.toContain(text);
    }
  });

  it('is refused with any byte changed', () => {
    const { last } = lived();
    for (const [name, value] of last) {
      for (let i = 0; i < value.length; i++) {
        const changed = value.with(i, value[i]! ^ 1);
        expect(codeOf(new Map(last).set(name, changed)), `${name} ${i}`).toBe(REFUSED);
      }
      expect(codeOf(new Map(last).set(name, value.subarray(0, -1))), name).toBe(REFUSED);
      expect(codeOf(new Map(last).set(name, new Uint8Array(0))), name).toBe(REFUSED);
    }
  });

  it('is refused with any two fields exchanged', () => {
    const { last } = lived();
    const names = [...last.keys()];
    for (const a of names)
      for (const b of names) {
        if (a >= b) continue;
        const exchanged = new Map(last).set(a, last.get(b)!).set(b, last.get(a)!);
        expect(codeOf(exchanged), `${a} ${b}`).toBe(REFUSED);
      }
  });

  it('is refused with a field missing, or one more', () => {
    const history = lived();
    const { last } = history;
    for (const name of last.keys()) {
      const less = new Map(last);
      less.delete(name);
      expect(codeOf(less), name).toBe(REFUSED);
    }
    expect(codeOf(new Map(last).set('m4', bytes('plain')))).toBe(REFUSED);
    expect(codeOf(new Map(last).set('p1.3', last.get('p1.2')!))).toBe(REFUSED);
    expect(codeOf(new Map([['begin', bytes('plain')]]))).toBe(REFUSED);
  });

  it('is refused with any field as it was before', () => {
    const all = new History().write({ begin: 'b', state: '1', handled: '1', m1: '1' });
    all.write({ state: '2', handled: '2', m2: '2' }, ['m1']).write({ state: '3', handled: '3' });
    const later = all.takeOver(1).write({ state: '4', m2: 'again' });
    const states = [...all.states, ...later.states];
    const { last } = later;
    let replayed = 0;
    for (const before of states)
      for (const [name, value] of before) {
        if (Buffer.compare(value, last.get(name) ?? new Uint8Array(0)) === 0) continue;
        replayed++;
        expect(codeOf(new Map(last).set(name, value)), name).toBe(REFUSED);
        // With the sum of that time as well.
        const both = new Map(last).set(name, value).set('seal', before.get('seal')!);
        const isThatTime = [...both].every(([each, now]) => before.get(each) === now);
        if (!isThatTime) expect(codeOf(both), name).toBe(REFUSED);
      }
    expect(replayed).toBeGreaterThan(10);
  });

  it('is refused as the record of another session', () => {
    expect(codeOf(lived().last, KEY, 'sess_two')).toBe(REFUSED);
  });

  it('opens with a key that was replaced, and not without it', () => {
    const replaced = new Seal(B, [A]);
    const { last } = new History()
      .write({ begin: 'b', state: '1' })
      .takeOver(1, replaced)
      .write({ state: '2' });
    expect(texts(open(last, replaced))).toEqual({ begin: 'b', state: '2' });
    expect(texts(open(last, new Seal(A, [B])))).toEqual({ begin: 'b', state: '2' });
    expect(codeOf(last, new Seal(B))).toBe(REFUSED);
    expect(codeOf(last, KEY)).toBe(REFUSED);
    const rewritten = new History().write({ state: '1' }).takeOver(1, replaced).write({ state: '2' });
    // Nothing of the old key is left once another process has taken it over again.
    const { last: free } = rewritten.takeOver(2, replaced).write({ handled: '1' });
    expect(texts(open(free, new Seal(B)))).toEqual({ state: '2', handled: '1' });
  });

  it('has a nonce of its own for each value, and keys of its own for each epoch and process', () => {
    const history = lived();
    const places = new Map<string, string>();
    for (const state of history.states)
      for (const [name, value] of state) {
        if (name === 'keys') continue;
        const place = Buffer.from(value.subarray(0, 3)).toString('hex');
        const spelled = `${name} ${Buffer.from(value).toString('hex')}`;
        expect(places.get(place) ?? spelled).toBe(spelled);
        places.set(place, spelled);
      }
    expect(places.size).toBeGreaterThan(15);
    const [one, two] = [1, 2].map(() => new History().write({ begin: 'b' }).last);
    expect(one?.get('begin')).not.toEqual(two?.get('begin'));
  });

  it('seals no commit twice', () => {
    const seal = RecordSeal.begin(KEY, ID, 0);
    const commit = { set: new Map([['state', bytes('1')]]), remove: [] };
    seal.seal(3, commit);
    expect(errorCode(() => seal.seal(3, commit))).toBe('internal');
    expect(errorCode(() => seal.seal(2, commit))).toBe('internal');
    seal.seal(4, commit);
  });
});
