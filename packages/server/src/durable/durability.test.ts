import type { Body, Message } from '@parlance/protocol';
import type { BodyToSend, DurableSession } from '@parlance/protocol/internal';
import { describe, expect, it } from 'vitest';
import { errorCode } from '../../../protocol/src/testing/error-code.js';
import type { CommitRecorder } from './commit-recorder.js';
import { Durability } from './durability.js';

function setUp() {
  const calls: string[] = [];
  const waiting: (() => void)[] = [];
  let handled = 0;
  const open = new Set<number>();
  const durable: Partial<DurableSession> = {
    get handled() {
      return handled;
    },
    handle(number) {
      if (number <= handled) return;
      handled = number;
      calls.push(`handled ${number}`);
    },
    isOpen: (number) => open.has(number),
    settle: (number) => void open.delete(number),
    commit(number, state, bodies) {
      calls.push(`commit ${number}: ${state === undefined ? 'no' : 'a'} state, ${bodies.length} messages`);
      handled = Math.max(handled, number);
    },
    afterCommit: (then) => void waiting.push(then),
  };
  const recorder = { close: () => void calls.push('closed') } as unknown as CommitRecorder;
  /** Resolves when the bodies are coded. */
  let coded: Promise<unknown> = Promise.resolve();
  const together = async (bodies: readonly Body[], send: (coded: readonly BodyToSend[]) => void) => {
    await coded;
    send(bodies as unknown as BodyToSend[]);
  };
  const durability = new Durability(
    { outbound: { together }, handled: ({ text }) => void calls.push(`told ${text}`) },
    durable as DurableSession,
    recorder,
    () => void calls.push('over'),
  );
  const record = () => {
    for (const then of waiting.splice(0)) then();
  };
  const wait = (work: Promise<unknown>) => {
    coded = work;
  };
  return { durability, calls, record, wait, open };
}

const messageOf = (number: number) => ({ number, text: `message ${number}` }) as Message;

describe('a durable session', () => {
  it('passes over messages for other agents that have not got them', () => {
    const { durability, calls, open } = setUp();
    for (const number of [1, 2, 4]) open.add(number);
    durability.handleDone(3);
    expect(calls).toEqual(['handled 3']);
    durability.handleDone(1);
    durability.handleDone(4);
    expect([calls.slice(1), [...open]]).toEqual([['handled 4'], [2]]);
  });

  it('has handled messages up to the first one that is not', () => {
    const { durability, calls } = setUp();
    for (const number of [2, 4, 1, 3]) durability.handleDone(number);
    expect(calls).toEqual(['handled 2', 'handled 4']);
  });

  it('tells parts of each message once, when it is handled and not before', () => {
    const { durability, calls, open } = setUp();
    for (const number of [1, 2, 3]) durability.handleTaken(number, messageOf(number));
    durability.handleDone(2);
    expect(calls).toEqual([]);
    durability.handleDone(1);
    expect(calls).toEqual(['handled 2', 'told message 1', 'told message 2']);
    durability.handledUpTo(3);
    durability.handleDone(3);
    expect([calls.slice(3), [...open]]).toEqual([['handled 3', 'told message 3'], []]);
  });

  it('handles the message that was read last with what is committed', async () => {
    const { durability, calls } = setUp();
    durability.handleTaken(1, messageOf(1));
    await durability.commit(new Uint8Array(0), ['a', 'b'], () => calls.push('done'));
    durability.handleDone(1);
    durability.handleTaken(2, messageOf(2));
    await durability.commit(undefined, [], () => {});
    expect(calls).toEqual([
      ...['commit 1: a state, 2 messages', 'told message 1', 'done'],
      ...['commit 2: no state, 0 messages', 'told message 2'],
    ]);
  });

  it('handles no message before what is committed with it, if that takes time to code', async () => {
    const { durability, calls, wait } = setUp();
    let code = () => {};
    wait(
      new Promise<void>((resolve) => {
        code = resolve;
      }),
    );
    durability.handleTaken(1, messageOf(1));
    const committed = durability.commit(undefined, ['a'], () => {});
    durability.handleDone(1);
    durability.handleTaken(2, messageOf(2));
    durability.handleDone(2);
    expect(calls).toEqual([]);
    code();
    await committed;
    await Promise.resolve();
    expect(calls).toEqual([
      ...['commit 1: no state, 1 messages', 'told message 1', 'handled 2', 'told message 2'],
    ]);
  });

  it('does not get messages that the application has handled elsewhere', () => {
    const { durability, calls } = setUp();
    durability.handledUpTo(3);
    expect([3, 4].map((number) => durability.hasHandled(number))).toEqual([true, false]);
    durability.handledUpTo(2);
    expect(durability.hasHandled(3)).toBe(true);
    expect(calls).toEqual(['handled 3']);
    for (const wrong of [-1, 1.5, Number.NaN, '1'])
      expect(errorCode(() => durability.handledUpTo(wrong as number))).toBe('invalid_argument');
  });

  it('resolves what waits for its record, or rejects it at the end', async () => {
    const { durability, calls, record } = setUp();
    const first = durability.recorded();
    record();
    await first;
    const second = durability.recorded();
    durability.end(new Error('fenced'));
    await expect(second).rejects.toThrow('fenced');
    expect(calls).toEqual(['closed', 'over']);
  });

  it('leaves the record to another node, and so neither writes nor forgets anything', async () => {
    const { durability, calls } = setUp();
    const waiting = durability.recorded();
    durability.leave();
    durability.end(new Error('given up'));
    await expect(waiting).rejects.toThrow('given up');
    expect(calls).toEqual(['closed', 'closed']);
  });
});
