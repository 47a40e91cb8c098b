import { ProtocolError } from '@parlance/protocol';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Link, Traffic } from '../link/link.js';
import { decodeLinkMessage, encodeLinkMessage } from '../link/message.js';
import { Handovers, MOVES, type MoveType, STEP_MS } from './handover.js';

/** A node checks the answers of the one to which it hands a session over. */

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

function handing() {
  const sent: unknown[][] = [];
  const state = { unwritten: 0 };
  const link = new Link({ node: 'other0', traffic: new Traffic(), onOver() {} });
  link.open({
    get bufferedAmount() {
      return state.unwritten;
    },
    send: (data) => {
      const { type, fields, bytes } = decodeLinkMessage(data);
      sent.push([type, ...fields, ...(bytes.length > 0 ? [bytes.length] : [])]);
    },
    terminate() {},
  });
  const handovers = link.attach(MOVES, new Handovers(link));
  const say = (type: MoveType, ...fields: readonly unknown[]) =>
    link.onMessage(encodeLinkMessage(MOVES, type, fields));
  return { link, handovers, sent, state, say };
}

describe('a node that hands a session over', () => {
  it('asks for one thing after the other, and sends the bytes in pieces', async () => {
    const { handovers, sent, say } = handing();
    const handover = handovers.begin();
    const held = handover.ask('hold', ['sess'], 'held');
    say('held', 1, 12);
    expect(await held).toEqual([12]);
    const taken = handover.ask('snapshot', ['sess', 100_000, 0, 0], 'taken', new Uint8Array(100_000));
    await vi.advanceTimersByTimeAsync(0);
    say('taken', 1);
    expect(await taken).toEqual([]);
    expect(sent).toEqual([
      ['hold', 1, 'sess'],
      ['snapshot', 1, 'sess', 100_000, 0, 0],
      ['bytes', 1, 65_536],
      ['bytes', 1, 34_464],
    ]);
  });

  it('does not believe that it was taken before it was sent', async () => {
    const { handovers, say } = handing();
    const handover = handovers.begin();
    say('taken', 1);
    await expect(handover.ask('snapshot', [], 'taken')).rejects.toMatchObject({ code: 'bad_message' });
  });

  it('does not take one answer for another', async () => {
    const { handovers, say } = handing();
    const held = handovers.begin().ask('hold', ['sess'], 'held');
    say('taken', 1);
    await expect(held).rejects.toMatchObject({ code: 'bad_message' });
  });

  it('hears a refusal that comes before anything is asked', async () => {
    const { handovers, say } = handing();
    const handover = handovers.begin();
    say('refused', 1, 'draining', 'not now');
    await expect(handover.ask('hold', [], 'held')).rejects.toMatchObject({ code: 'draining' });
  });

  it('does not take the answer about one session for that about another', async () => {
    const { handovers, say } = handing();
    const [first, second] = [handovers.begin(), handovers.begin()];
    const [one, other] = [first.ask('hold', [], 'held'), second.ask('hold', [], 'held')];
    say('held', 2, 5);
    say('refused', 1, 'draining', 'not now');
    expect(await other).toEqual([5]);
    await expect(one).rejects.toMatchObject({ code: 'draining' });
    say('held', 3, 1);
    expect(handovers.size).toBe(2);
  });

  it('sends no more of a session that is refused meanwhile, and says when it changes its mind', async () => {
    const { link, handovers, sent, state, say } = handing();
    const handover = handovers.begin();
    state.unwritten = 1024 * 1024 + 1;
    const taken = handover.ask('snapshot', [], 'taken', new Uint8Array(10));
    say('refused', 1, 'over_budget', 'no');
    await expect(taken).rejects.toMatchObject({ code: 'over_budget' });
    state.unwritten = 0;
    link.onDrain();
    await vi.advanceTimersByTimeAsync(0);
    handover.close();
    expect([sent, handovers.size]).toEqual([
      [
        ['snapshot', 1],
        ['drop', 1],
      ],
      0,
    ]);
  });

  it('waits for an answer for some seconds', async () => {
    const { handovers } = handing();
    const held = handovers.begin().ask('hold', [], 'held');
    const failed = expect(held).rejects.toMatchObject({ code: 'timeout' });
    await vi.advanceTimersByTimeAsync(STEP_MS + 100);
    await failed;
  });

  it('hears that the link is over', async () => {
    const { link, handovers } = handing();
    const handover = handovers.begin();
    const held = handover.ask('hold', [], 'held');
    link.end(new ProtocolError('connection_failed', 'broken'));
    await expect(held).rejects.toMatchObject({ code: 'connection_failed' });
    await expect(handover.ask('hold', [], 'held')).rejects.toMatchObject({ code: 'connection_failed' });
  });

  it('ends the link if an answer is malformed', () => {
    const { link, handovers, say } = handing();
    handovers.begin();
    say('refused', 1, 'x'.repeat(257), '');
    expect(link.isOver).toBe(true);
  });
});
