import { describe, expect, it } from 'vitest';
import { type Fates, Ledger, type Served } from './ledger.js';

const SESSION = 'sess_aaaaaa01234567890123';
const NONE: Fates = { killed: new Set(), deadlines: new Map(), killedPids: new Set() };
const NODE = 7;

/** One user with three messages and one answer of three parts, all in order. */
function account(change: { echoes?: readonly string[]; parts?: readonly string[] } = {}) {
  const ledger = new Ledger();
  ledger.opened('ann', SESSION);
  for (let i = 0; i < 3; i++) ledger.say('ann');
  for (const echo of change.echoes ?? ['0 1', '1 2', '2 3']) ledger.hear('ann', echo);
  const id = ledger.ask('ann', 3);
  for (const part of change.parts ?? ['0', '1', '2']) ledger.part(id, part);
  return { ledger, id };
}
const served = (id: string, change: Partial<Served> = {}): Served => ({
  id,
  node: NODE,
  times: 1,
  leftAt: undefined,
  ...change,
});

describe('the ledger of a cluster', () => {
  it('finds nothing where there is nothing to find', () => {
    const { ledger, id } = account();
    ledger.ended(id);
    expect(ledger.check([served(id)], NONE)).toEqual([]);
  });

  it.each([
    ['lost', ['0 1', '2 3'], 'lost or early: echo 2, not 1'],
    ['lost at the end', ['0 1', '1 2'], 'lost: 2 of 3 messages came back'],
    ['doubled', ['0 1', '1 2', '1 2', '2 3'], 'doubled or late: echo 1, not 2'],
    ['reordered', ['1 1', '0 2', '2 3'], 'lost or early: echo 1, not 0'],
    [
      'counted from the start',
      ['0 1', '1 2', '2 1'],
      'forgotten: the application has counted 1 messages, not 3',
    ],
    ['damaged', ['0 1', 'x', '2 3'], 'lost or early: echo NaN, not 1'],
  ])('finds a message that is %s', (_name, echoes, fault) => {
    const { ledger, id } = account({ echoes });
    ledger.ended(id);
    expect(ledger.check([served(id)], NONE)[0]).toBe(`ann: ${fault}`);
  });

  it.each([
    ['lost', ['0', '2'], 'lost or early: part 2 of q0, not 1'],
    ['lost at the end', ['0', '1'], 'lost: q0 ended after 2 of 3 parts'],
    ['doubled', ['0', '1', '1', '2'], 'doubled or late: part 1 of q0, not 2'],
    ['reordered', ['0', '2', '1'], 'lost or early: part 2 of q0, not 1'],
  ])('finds a part that is %s', (_name, parts, fault) => {
    const { ledger, id } = account({ parts });
    ledger.ended(id);
    expect(ledger.check([served(id)], NONE)[0]).toBe(`ann: ${fault}`);
  });

  it('finds a reply that never ends, and one that fails', () => {
    const stuck = account();
    expect(stuck.ledger.check([served(stuck.id)], NONE)).toEqual(['ann: stuck: q0 after 3 of 3 parts']);
    const failing = account();
    failing.ledger.failed(failing.id, 'session_lost');
    expect(failing.ledger.check([served(failing.id)], NONE)).toEqual([
      'ann: q0 failed with session_lost after 3 of 3 parts',
    ]);
  });

  it('finds that the upstream was asked too often, too rarely, or for something else', () => {
    const often = account();
    often.ledger.ended(often.id);
    expect(often.ledger.check([served(often.id, { times: 2 })], NONE)).toEqual([
      'ann: the upstream was asked 2 times for q0',
    ]);
    const never = account();
    never.ledger.ended(never.id);
    expect(never.ledger.check([served('q9')], NONE)).toEqual([
      'ann: the upstream was never asked for q0',
      'upstream: q9 was never asked for',
    ]);
  });

  it('finds a handler that is aborted before the deadline of its node, not after it', () => {
    const fates: Fates = { ...NONE, deadlines: new Map([[NODE, 10_000]]) };
    const at = (leftAt: number, deadlines: Fates) => {
      const { ledger, id } = account({ parts: ['0', '1'] });
      ledger.failed(id, 'draining');
      return ledger.check([served(id, { leftAt })], deadlines);
    };
    expect(at(9_000, fates)).toContain('ann: the handler of q0 was aborted before its deadline');
    expect(at(10_000, NONE)).toContain('ann: the handler of q0 was aborted before its deadline');
    expect(at(10_000, fates)).toEqual([]);
  });

  it('excuses a reply that its user has left', () => {
    const { ledger, id } = account({ parts: ['0'] });
    ledger.left(id);
    ledger.ended(id);
    expect(ledger.check([served(id, { leftAt: 5 })], NONE)).toEqual([]);
  });

  it('excuses a session whose node was killed, and no other', () => {
    const outcome = (killed: string) => {
      const { ledger, id } = account({ echoes: ['0 1'], parts: ['0'] });
      ledger.lostSession('ann', 'unknown_session');
      ledger.failed(id, 'session_lost');
      const fates = { ...NONE, killed: new Set([killed]), killedPids: new Set([NODE]) };
      return ledger.check([served(id, { leftAt: 5 })], fates);
    };
    expect(outcome('aaaaaa')).toEqual([]);
    expect(outcome('bbbbbb')[0]).toContain(`ann: lost its session ${SESSION}: unknown_session at `);
  });

  it('finds what is doubled in a session whose node was killed as well', () => {
    const { ledger, id } = account({ parts: ['0', '0'] });
    ledger.failed(id, 'session_lost');
    const fates = { ...NONE, killed: new Set(['aaaaaa']) };
    expect(ledger.check([served(id)], fates)).toEqual(['ann: doubled or late: part 0 of q0, not 1']);
  });
});
