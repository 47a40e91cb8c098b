import { afterEach, describe, expect, it, vi } from 'vitest';
import type { DatedEffect } from '../durable/effects.js';
import { AFTERMATH_MS } from './allowed.js';
import { InteractionLedger } from './ledger.js';
import { partOf, type Question } from './settings.js';
import type { Page } from './told.js';

const ANN: Page = { name: 'd0.0', agent: 'd0', session: 'sess_ann' };
const BOB: Page = { name: 'd1.0', agent: 'd1', session: 'sess_bob' };
const PAT: Page = { name: 'p0.0', agent: 'p0', session: 'sess_pat' };
const NODE = 7;
const QUESTION: Question = { id: 'q0', parts: 3, paceMs: 1, keep: 'name', again: true };

/** A reply of three parts that is complete, so that there is one. */
function account() {
  const ledger = new InteractionLedger();
  for (const page of [ANN, BOB, PAT]) ledger.join(page);
  ledger.asks(ANN, QUESTION, undefined);
  for (let i = 0; i < 3; i++) ledger.part('q0', partOf('q0', i, 1));
  ledger.kept('q0', 'reply_1');
  ledger.ended('q0');
  return ledger;
}

/** A reply that ends early with an error. */
function failing(page: Page, code: string, parts: number, question: Partial<Question> = {}) {
  const ledger = account();
  ledger.asks(page, { ...QUESTION, id: 'q1', ...question }, undefined);
  for (let i = 0; i < parts; i++) ledger.part('q1', partOf('q1', i, 1));
  return { ledger, fail: () => ledger.failed('q1', code) };
}

const began: DatedEffect = { at: 0, pid: NODE, effect: ['start', 'q1', 1, 0] };
const had = (session: string): DatedEffect => ({ at: 0, pid: NODE, effect: ['begin', session, 0] });
const judged = (ledger: InteractionLedger, effects: readonly DatedEffect[] = []) =>
  ledger.judge(effects).map(({ what }) => what);

/** Advances the clock of the ledger. */
function pass(ms: number): void {
  if (!vi.isFakeTimers()) vi.useFakeTimers({ toFake: ['Date'] });
  vi.setSystemTime(Date.now() + ms);
}
afterEach(() => void vi.useRealTimers());

describe('the ledger of a history', () => {
  it('finds nothing where there is nothing to find', () => {
    const ledger = account();
    const number = ledger.say(ANN.name);
    ledger.echo(`${ANN.name} ${number} 1`);
    ledger.told.accepted(ANN, 'd1', ledger.told.tell(ANN, 'd1'));
    ledger.told.read(BOB, 'sess_ann d0 1', false);
    const follower = ledger.follows('d1', 'q0', 1);
    ledger.followed(follower, partOf('q0', 1, 1), 2);
    ledger.followed(follower, partOf('q0', 2, 1), 3);
    ledger.followEnded(follower);
    expect(ledger.isWaiting).toBe(false);
    expect(judged(ledger)).toEqual([]);
  });

  describe('of followers', () => {
    it.each([
      ['a hole', [0, 2], 1, 'd1: follows q0 from 0, and read part 2 and not 1'],
      ['a part of a log that begins anew', [2], 1, 'd1: follows q0 from 0, and read part 2 and not 0'],
      ['a part that another call of the handler has said', [0, 1], 2, 'd1: read "q0:0:2 " of q0 as part 0'],
    ])('finds %s', (_what, parts, attempt, fault) => {
      const ledger = account();
      const follower = ledger.follows('d1', 'q0', 0);
      for (const [i, part] of parts.entries()) ledger.followed(follower, partOf('q0', part, attempt), i + 1);
      expect(judged(ledger)).toContainEqual(expect.stringContaining(fault));
    });

    it('finds an end before the last part', () => {
      const ledger = account();
      const follower = ledger.follows('d1', 'q0', 0);
      ledger.followed(follower, partOf('q0', 0, 1), 1);
      ledger.followEnded(follower);
      expect(judged(ledger)).toEqual(['d1: q0 was complete after 1 parts from 0 on, of 3']);
    });

    it('allows an end for what has happened to the handler, however late they come', () => {
      for (const [node, isAllowed] of [
        [NODE, true],
        [NODE + 1, false],
      ] as const) {
        pass(1);
        const ledger = account();
        ledger.asks(ANN, { ...QUESTION, id: 'q1', again: false }, undefined);
        ledger.happened('killed', node).to = Date.now();
        ledger.failed('q1', 'interrupted');
        pass(AFTERMATH_MS + 1);
        const follower = ledger.follows('d1', 'q1', 0);
        ledger.followFailed(follower, BOB.session, 'interrupted', true);
        const found = judged(ledger, [began]).filter((fault) => fault.startsWith('d1'));
        expect([node, found.length === 0]).toEqual([node, isAllowed]);
      }
    });

    it('finds another ID', () => {
      const ledger = account();
      ledger.kept('q0', 'reply_2');
      expect(judged(ledger)).toEqual(['d0: q0 is kept as reply_2, and was as reply_1']);
    });
  });

  describe('of messages between agents', () => {
    /** Three numbers, and what of them is read. */
    const told = (read: (ledger: InteractionLedger) => void) => {
      const ledger = account();
      for (let i = 0; i < 3; i++) ledger.told.accepted(ANN, 'd1', ledger.told.tell(ANN, 'd1'));
      read(ledger);
      return judged(ledger);
    };
    const reads =
      (...numbers: readonly number[]) =>
      (ledger: InteractionLedger) => {
        for (const number of numbers) ledger.told.read(BOB, `sess_ann d0 ${number}`, false);
      };
    const LOST = { to: 'd1', outcome: 'unknown', code: 'peer_gone', first: 2, count: 1 } as const;

    it('finds one that comes again, late, never, or from nobody', () => {
      expect(told(reads(1, 2, 2, 3))).toEqual(['d1.0: read number 2 of d0 (sess_ann) again, unmarked']);
      expect(told(reads(1, 3, 2))).toEqual(['d1.0: read number 2 of d0 (sess_ann) after 3']);
      expect(told(reads(1, 2))).toEqual([
        'd0: told d1 what it has not read, and was told nothing of: 3 (sess_ann to sess_bob)',
      ]);
      expect(told(reads(1, 2, 3, 4))).toEqual([
        'd1.0: read number 4 of d0 (sess_ann), which was not told to it',
      ]);
    });

    it('allows one that comes again and is marked, and one that is reported for a reason', () => {
      const again = (ledger: InteractionLedger) => ledger.told.read(BOB, 'sess_ann d0 2', true);
      expect(told((ledger) => [reads(1, 2, 3), again].map((each) => each(ledger)))).toEqual([]);
      const report = (ledger: InteractionLedger) => ledger.reported(ANN, LOST);
      const kill = (ledger: InteractionLedger) => ledger.happened('killed', NODE);
      expect(told((ledger) => [kill, reads(1, 3), report].map((each) => each(ledger)))).toEqual([]);
      expect(told((ledger) => [reads(1, 3), report].map((each) => each(ledger)))).toEqual([
        expect.stringContaining('1 messages to d1 from 2 on are unknown with peer_gone, which nothing'),
      ]);
    });

    it('allows as many to be missing as were reported without a number, and no more', () => {
      const lost = (count: number) => (ledger: InteractionLedger) =>
        ledger.reported(ANN, { ...LOST, first: undefined, count });
      const kill = (ledger: InteractionLedger) => ledger.happened('killed', NODE);
      expect(told((ledger) => [kill, reads(2), lost(2)].map((each) => each(ledger)))).toEqual([]);
      expect(told((ledger) => [kill, reads(2), lost(1)].map((each) => each(ledger)))).toEqual([
        'd0: told d1 what it has not read, and was told nothing of: 1, 3 (sess_ann to sess_bob)',
      ]);
    });
  });

  describe('of errors', () => {
    it('allows those that the documents allow for what has happened to the node, and no others', () => {
      const again = { again: false };
      for (const [page, code, parts, question, kind, isAllowed] of [
        [ANN, 'interrupted', 1, again, 'killed', true],
        [ANN, 'interrupted', 1, again, 'engine', false],
        [ANN, 'internal', 1, again, 'killed', false],
        // Its handler is called again.
        [ANN, 'interrupted', 1, {}, 'killed', false],
        // That is recorded with its first part.
        [ANN, 'interrupted', 0, {}, 'killed', true],
        [ANN, 'session_lost', 1, again, 'killed', false],
        [PAT, 'session_lost', 1, {}, 'killed', true],
        [PAT, 'session_lost', 1, {}, 'drained', false],
        [PAT, 'draining', 1, {}, 'drained', true],
      ] as const) {
        const { ledger, fail } = failing(page, code, parts, question);
        ledger.happened(kind, NODE);
        fail();
        const faults = judged(ledger, [began, had(page.session)]);
        expect([page.agent, code, parts, kind, faults.length === 0]).toEqual([
          page.agent,
          code,
          parts,
          kind,
          isAllowed,
        ]);
      }
    });

    it('allows that a plain session ends in a drain only if Redis or another node fails meanwhile', () => {
      for (const [kind, isAllowed] of [
        ['engine', true],
        ['paused', true],
        ['reloaded', false],
      ] as const) {
        for (const page of [PAT, ANN]) {
          pass(1);
          const { ledger, fail } = failing(page, 'session_lost', 1);
          ledger.happened(kind, NODE + 1).to = Date.now();
          pass(AFTERMATH_MS);
          ledger.happened('drained', NODE);
          fail();
          const faults = judged(ledger, [began, had(page.session)]);
          expect([kind, page, faults.length === 0]).toEqual([kind, page, isAllowed && page === PAT]);
        }
      }
    });

    it('allows that another session becomes the agent only soon after it has begun', () => {
      for (const [age, isAllowed] of [
        [AFTERMATH_MS - 1, true],
        [AFTERMATH_MS, false],
      ] as const) {
        pass(1);
        const { ledger, fail } = failing(PAT, 'taken_over', 1);
        ledger.happened('engine', undefined);
        pass(age);
        fail();
        ledger.sessionEnded(PAT, 'taken_over', 'a newer session is agent p0');
        const found = judged(ledger).filter((fault) => fault.startsWith('p0'));
        expect([age, found.length === 0]).toEqual([age, isAllowed]);
      }
    });

    it('allows what comes of a node that says that the engine does not answer it', () => {
      const { ledger, fail } = failing(ANN, 'interrupted', 1, { again: false });
      fail();
      const cutOff: DatedEffect = { at: Date.now(), pid: NODE, effect: ['cut off'] };
      expect(judged(ledger, [began, cutOff])).toEqual([]);
      const other = failing(ANN, 'interrupted', 1, { again: false });
      other.fail();
      const fault = expect.stringContaining('q1 ended after 1 of 3 parts with interrupted, which nothing');
      expect(judged(other.ledger, [began, { ...cutOff, pid: NODE + 1 }])).toContainEqual(fault);
      const device = 'sess_device';
      const fenced: DatedEffect = { at: Date.now(), pid: NODE, effect: ['ended', device, 'fenced'] };
      expect(judged(account(), [fenced])).toHaveLength(1);
      const stalled: DatedEffect = { at: Date.now() - 1, pid: NODE, effect: ['stalled'] };
      expect(judged(account(), [stalled, fenced])).toEqual([]);
    });

    it('allows nothing for what happens to another node, or before', () => {
      const elsewhere = failing(ANN, 'interrupted', 1, { again: false });
      elsewhere.ledger.happened('killed', NODE + 1);
      elsewhere.fail();
      const fault = expect.stringContaining('q1 ended after 1 of 3 parts with interrupted, which nothing');
      expect(judged(elsewhere.ledger, [began])).toContainEqual(fault);
      const before = failing(ANN, 'interrupted', 1, { again: false });
      before.ledger.happened('killed', NODE).to = 0;
      before.fail();
      expect(judged(before.ledger, [began])).toContainEqual(fault);
    });

    it.each([
      ['fails by then', 14_000, 1],
      ['fails too late for that', 16_000, 0],
    ])('allows a plain session to end long after its node if the engine %s', (_what, afterMs, allowed) => {
      vi.useFakeTimers({ toFake: ['Date'] });
      const ledger = account();
      ledger.happened('killed', NODE).to = Date.now();
      pass(afterMs);
      const failure = ledger.happened('engine', undefined);
      pass(20_000);
      failure.to = Date.now();
      ledger.asks(PAT, { ...QUESTION, id: 'q1' }, undefined);
      pass(1_000);
      ledger.failed('q1', 'session_lost');
      judged(ledger, [had(PAT.session)]);
      expect(ledger.counts.allowed).toBe(allowed);
    });

    it('allows who follows a reply later to read how it has ended long before', () => {
      vi.useFakeTimers();
      for (const [again, isUnkept, codes] of [
        [false, false, ['interrupted', 'draining']],
        [true, true, ['timeout']],
        [true, false, []],
      ] as const) {
        const { ledger, fail } = failing(ANN, 'interrupted', 1, { again });
        ledger.kept('q1', 'reply_2');
        ledger.happened('killed', NODE).to = Date.now();
        ledger.happened('engine', undefined).to = Date.now();
        fail();
        vi.advanceTimersByTime(60_000);
        for (const code of ['interrupted', 'draining', 'timeout'])
          ledger.followFailed(ledger.follows('d1', 'q1', 0), 'sess_bob', code, true);
        const unkept: DatedEffect = { at: 0, pid: NODE, effect: ['unkept', 'reply_2', 'timeout'] };
        const faults = judged(ledger, isUnkept ? [began, unkept] : [began]);
        const refused = faults.filter((what) => what.startsWith('d1: following q1'));
        expect(refused.length).toBe(3 - codes.length - (isUnkept ? 1 : 0));
        for (const code of codes) expect(refused.join()).not.toContain(`with ${code}`);
      }
      vi.useRealTimers();
    });

    it('allows a plain requester to hear that its node seemed to be gone', () => {
      for (const isUnkept of [true, false]) {
        const { ledger, fail } = failing(PAT, 'interrupted', 1);
        ledger.kept('q1', 'reply_2');
        ledger.happened('paused', NODE);
        fail();
        const unkept: DatedEffect = { at: 0, pid: NODE, effect: ['unkept', 'reply_2', 'interrupted'] };
        const faults = judged(ledger, isUnkept ? [began, unkept] : [began]);
        expect(faults.some((what) => what.includes('q1 ended'))).toBe(!isUnkept);
      }
    });

    it('finds what a node says of itself, and a session that ends for nothing', () => {
      const ledger = account();
      ledger.sessionEnded(ANN, 'internal', 'the session failed');
      const crash: DatedEffect = { at: 0, pid: NODE, effect: ['fault', 'session.crashed: Error'] };
      expect(judged(ledger, [crash])).toEqual([
        'process 7: session.crashed: Error',
        expect.stringContaining(
          'd0: the session sess_ann ended (the session failed) with internal, which nothing',
        ),
      ]);
    });

    it('counts replies that nothing may end, and wants some', () => {
      const { ledger } = failing(ANN, '', 1);
      expect(judged(ledger)).toEqual([
        'd0: q1 is stuck after 1 of 3 parts',
        'replies: only 1 of 2 that nothing may end are complete',
      ]);
      expect(judged(new InteractionLedger())).toEqual([
        'replies: only 0 of 0 that nothing may end are complete',
      ]);
    });
  });

  describe('of messages to the server', () => {
    it('finds one that is lost, doubled or forgotten', () => {
      for (const [echoes, fault] of [
        [['d0.0 1 1'], 'd0.0: lost or early: echo 1, not 0'],
        [['d0.0 0 1', 'd0.0 0 2', 'd0.0 1 3'], 'd0.0: doubled or late: echo 0, not 1'],
        [['d0.0 0 1', 'd0.0 1 1'], 'd0.0: forgotten: the application has counted 1 messages, not 2'],
        [['d0.0 0 1'], 'd0.0: lost: 1 of 2 messages to the server came back'],
      ] as const) {
        const ledger = account();
        for (let i = 0; i < 2; i++) ledger.say(ANN.name);
        for (const echo of echoes) ledger.echo(echo);
        expect(judged(ledger)).toContain(fault);
      }
    });

    it('allows a message that was not sent to go to the session after one that was lost, and no other gap', () => {
      for (const isLost of [true, false]) {
        const ledger = account();
        for (let i = 0; i < 3; i++) ledger.say(PAT.name);
        ledger.echo('p0.0 0 1');
        ledger.happened('killed', 1).to = Date.now();
        if (isLost) ledger.sessionEnded(PAT, 'session_lost', 'its node has died');
        else ledger.pageLeft(PAT);
        ledger.echo('p0.0 2 1');
        const gap = 'p0.0: lost or early: echo 2, not 1';
        expect(judged(ledger).includes(gap)).toBe(!isLost);
      }
    });

    it('counts from one again in the session after one that was lost, and only there', () => {
      for (const isLost of [true, false]) {
        const ledger = account();
        for (let i = 0; i < 4; i++) ledger.say(PAT.name);
        for (const echo of ['p0.0 0 1', 'p0.0 1 2']) ledger.echo(echo);
        ledger.happened('killed', 1).to = Date.now();
        if (isLost) ledger.sessionEnded(PAT, 'session_lost', 'its node has died');
        else ledger.pageLeft(PAT);
        for (const echo of ['p0.0 2 1', 'p0.0 3 2']) ledger.echo(echo);
        const forgotten = 'p0.0: forgotten: the application has counted 1 messages, not 3';
        expect(judged(ledger).includes(forgotten)).toBe(!isLost);
      }
    });

    it('continues in the next page of the same session', () => {
      const ledger = account();
      ledger.say(ANN.name);
      ledger.say(ANN.name);
      ledger.echo('d0.0 0 1');
      ledger.pageLeft(ANN);
      const next = { ...ANN, name: 'd0.1' };
      ledger.join(next);
      ledger.say(next.name);
      ledger.say(next.name);
      // The second message of the page before was lost with it, or was handled.
      for (const echo of ['d0.1 0 2', 'd0.1 1 3']) ledger.echo(echo);
      expect(judged(ledger)).toEqual([]);
    });
  });
});

describe('a session that another one follows without a word', () => {
  it.each([
    ['killed', PAT, []],
    ['reloaded', PAT, [expect.stringContaining('another one followed it without a word) with session_lost')]],
    ['killed', ANN, [expect.stringContaining('another one followed it without a word) with session_lost')]],
  ] as const)('is lost: %s', (kind, page, faults) => {
    const ledger = account();
    ledger.happened(kind, NODE).to = Date.now();
    ledger.say(page.name);
    ledger.join({ ...page, name: 'next', session: 'sess_next' }, page);
    expect(ledger.isWaiting).toBe(false);
    expect(judged(ledger, [had(page.session)])).toEqual(faults);
  });
});
