import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { keyOf } from '../base/keys.js';
import type { ServerEndpoint } from '../session/endpoint.js';
import { ownerOfPrincipal, ownerOfSession } from './owner.js';
import { Owners } from './owners.js';

/** Texts of the characters that keys are made of, and of broken ones. */
const hostile = fc.oneof(
  fc.string({
    unit: fc.constantFrom(':', '{', '}', '%', '0', '3', 'a', '\ud800', '\udc00', '\u0000', 'é', '👩'),
  }),
  fc.string({ unit: 'binary' }),
);

describe('a key', () => {
  it('is different for different lists of texts', () => {
    const lists = fc.array(hostile, { minLength: 1, maxLength: 3 });
    fc.assert(
      fc.property(lists, lists, (a, b) => {
        expect(keyOf(...a) === keyOf(...b)).toBe(
          a.length === b.length && a.every((text, i) => text === b[i]),
        );
      }),
      { numRuns: 5_000 },
    );
    // Characters that move from one text to its neighbour.
    fc.assert(
      fc.property(hostile, fc.nat(), fc.nat(), (text, i, j) => {
        const [at, other] = [i % (text.length + 1), j % (text.length + 1)];
        const cut = (where: number) => keyOf(text.slice(0, where), text.slice(where));
        expect(cut(at) === cut(other)).toBe(at === other);
        expect(keyOf(text)).not.toBe(cut(at));
      }),
      { numRuns: 5_000 },
    );
  });

  it('of a principal is not that of a session, and names of replies do not change owners', () => {
    fc.assert(
      fc.property(hostile, hostile, (one, other) => {
        expect(ownerOfPrincipal(one)).not.toBe(ownerOfSession(other));
        expect(keyOf(ownerOfPrincipal(one), other)).not.toBe(ownerOfPrincipal(`${one}:${other}`));
      }),
    );
  });

  it('has only letters that every engine takes', () => {
    fc.assert(fc.property(hostile, (text) => void expect(keyOf(text, text)).toMatch(/^[A-Za-z0-9_%:-]*$/)));
  });
});

const sessionOf = (
  id: string,
  { token = `token of ${id}`, principal = '', isAnonymous = true, resumes = true } = {},
) =>
  ({
    id,
    principal: isAnonymous ? undefined : principal,
    isAnonymous,
    core: {
      resumeProof: resumes ? { matches: (given: string) => given === token, tokens: [token] } : undefined,
    },
  }) as unknown as ServerEndpoint;
const offerOf = (id: string, token = `token of ${id}`) => ({ sessionId: id, token, received: 0, attempt: 1 });

describe('owners', () => {
  it('are principals, however many sessions each has, and otherwise sessions', () => {
    const owners = new Owners();
    const of = (id: string, principal: string) => owners.of(sessionOf(id, { principal, isAnonymous: false }));
    expect(of('a', 'ada')).toBe(of('b', 'ada'));
    expect(of('a', 'ada')).not.toBe(of('a', 'bob'));
    const [one, two] = [sessionOf('a'), sessionOf('b')];
    expect(owners.of(one)).toBe(owners.of(one));
    expect(owners.of(one)).not.toBe(owners.of(two));
    // A session whose ID looks like a principal.
    expect(owners.of(sessionOf('ada'))).not.toBe(of('ada', 'ada'));
  });

  it('go from session to session by their resume tokens, over many sessions', () => {
    const owners = new Owners();
    const first = sessionOf('s0');
    owners.handleKept(first);
    for (let i = 1; i < 10; i++) {
      const next = sessionOf(`s${i}`);
      owners.adopt(next, offerOf(`s${i - 1}`));
      expect(owners.of(next)).toBe(owners.of(first));
    }
  });

  it.each([
    ['a wrong token', sessionOf('b'), offerOf('a', 'token of b')],
    ['the token of another session', sessionOf('b'), offerOf('a', 'token of c')],
    ['a session that is not known', sessionOf('b'), offerOf('x')],
    ['a principal', sessionOf('b', { isAnonymous: false, principal: 'eve' }), offerOf('a')],
  ])('do not go to a session with %s', (_what, session, offer) => {
    const owners = new Owners();
    const own = sessionOf('a');
    owners.handleKept(own);
    owners.handleKept(sessionOf('c'));
    owners.adopt(session, offer);
    expect(owners.of(session)).not.toBe(owners.of(own));
  });

  it('are told to an engine, and go to a session at another node that proves itself there, and from there on', () => {
    const [here, there] = [new Owners(), new Owners()];
    const claimed: string[] = [];
    here.onClaimed = (sessionId) => claimed.push(sessionId);
    const first = sessionOf('s0');
    const handleEnded = here.handleKept(first);
    expect([claimed, [...here.claimed]]).toEqual([['s0'], ['s0']]);
    const claim = { key: here.of(first), tokens: ['token of s0'] };
    expect(here.claimOf('s0')).toEqual({ ...claim, keptUntil: undefined });
    expect(here.claimOf('s1')).toBeUndefined();
    handleEnded(1_000);
    expect(here.claimOf('s0')).toEqual({ ...claim, keptUntil: 1_000 });

    const second = sessionOf('s1');
    there.assign(second, claim.key, 1_000);
    expect(there.of(second)).toBe(here.of(first));
    const third = sessionOf('s2');
    expect(there.adopt(third, offerOf('s1'))).toBe(true);
    expect(there.of(third)).toBe(here.of(first));
    there.sweep(1_000);
    expect(there.claimOf('s2')).toBeUndefined();
  });

  it('stay who they were if an engine proves them too late, or for a principal', () => {
    const owners = new Owners();
    const session = sessionOf('a');
    const before = owners.of(session);
    owners.assign(session, 'session:b', 1_000);
    expect(owners.of(session)).toBe(before);
    const ada = sessionOf('c', { isAnonymous: false, principal: 'ada' });
    owners.assign(ada, 'session:b', 1_000);
    expect(owners.of(ada)).toBe(ownerOfPrincipal('ada'));
  });

  it('go with a session that moves if its ID does not tell them', () => {
    const [here, there] = [new Owners(), new Owners()];
    const [first, second] = [sessionOf('s0'), sessionOf('s1')];
    here.handleKept(first);
    here.adopt(second, offerOf('s0'));
    expect([here.foreign(first), here.foreign(second)]).toEqual([undefined, here.of(first)]);
    const moved = sessionOf('s1');
    there.restore(moved, here.foreign(second) as string);
    expect(there.of(moved)).toBe(here.of(second));
    expect(there.of(sessionOf('s0'))).toBe(here.of(first));
  });

  it('are proved at the next node of a session that has kept replies, by tokens that only this one has issued', () => {
    const [here, there] = [new Owners(), new Owners()];
    const claimed: string[] = [];
    there.onClaimed = (sessionId) => claimed.push(sessionId);
    const first = sessionOf('s0');
    expect(here.moving(first)).toBeUndefined();
    here.handleKept(first)(1_000);
    const key = here.moving(first) as string;
    expect(key).toBe(here.of(first));
    const moved = sessionOf('s0', { token: 'newer' });
    there.restore(moved, key, 1_000);
    expect([claimed, there.of(moved), there.claimOf('s0')]).toEqual([
      ['s0'],
      key,
      { key, keptUntil: 1_000, tokens: ['newer'] },
    ]);
    const next = sessionOf('s1');
    expect(there.adopt(next, offerOf('s0', 'newer'))).toBe(true);
    expect(there.of(next)).toBe(key);
    // The node before knows no token of that kind, so it has to ask the engine.
    here.leave('s0');
    expect(here.adopt(sessionOf('s2'), offerOf('s0', 'newer'))).toBe(false);
  });

  it('do not take over from a session that kept nothing, or cannot resume', () => {
    const owners = new Owners();
    owners.of(sessionOf('a'));
    owners.handleKept(sessionOf('b', { resumes: false }));
    for (const id of ['a', 'b']) {
      const next = sessionOf(`after ${id}`);
      owners.adopt(next, offerOf(id));
      expect(owners.of(next)).not.toBe(ownerOfSession(id));
    }
  });

  it('are forgotten when their last reply is: after its handler, and at its time', () => {
    const owners = new Owners();
    const session = sessionOf('a');
    const isKnown = () => {
      const next = sessionOf('b');
      owners.adopt(next, offerOf('a'));
      return owners.of(next) === owners.of(session);
    };
    const [first, second] = [owners.handleKept(session), owners.handleKept(session)];
    owners.sweep(1e15);
    first(1_000);
    owners.sweep(1e15);
    expect(isKnown()).toBe(true);
    second(500);
    owners.sweep(999);
    expect(isKnown()).toBe(true);
    owners.sweep(1_000);
    expect(isKnown()).toBe(false);
  });
});
