import { describe, expect, it } from 'vitest';
import { MovableMailbox } from './movable-mailbox.js';

type Item = Parameters<MovableMailbox['push']>[0];
const item = (text: string) => ({ text, release() {} }) as unknown as Item;
const texts = (mailbox: MovableMailbox) => [...mailbox.unread].map(({ text }) => text);

describe('a mailbox that may move', () => {
  it('ends a reader that waits, and keeps what arrives afterwards', async () => {
    const mailbox = new MovableMailbox();
    const waiting = mailbox[Symbol.asyncIterator]().next();
    mailbox.stop();
    expect(await waiting).toEqual({ value: undefined, done: true });
    mailbox.push(item('a'));
    mailbox.push(item('b'));
    expect(texts(mailbox)).toEqual(['a', 'b']);
    expect([...mailbox.unread]).toHaveLength(mailbox.size);
  });

  it('gives nothing to a reader that was stopped, nor to one that begins meanwhile', async () => {
    const mailbox = new MovableMailbox();
    mailbox.push(item('a'));
    const former = mailbox[Symbol.asyncIterator]();
    mailbox.stop();
    const meanwhile = mailbox[Symbol.asyncIterator]();
    expect([(await former.next()).done, (await meanwhile.next()).done]).toEqual([true, true]);
    mailbox.start();
    expect([(await former.next()).done, (await meanwhile.next()).done]).toEqual([true, true]);
    const next = mailbox[Symbol.asyncIterator]();
    expect((await next.next()).value?.text).toBe('a');
    expect(texts(mailbox)).toEqual([]);
  });

  it('has one reader at a time, and another one after it has left', async () => {
    const mailbox = new MovableMailbox();
    const first = mailbox[Symbol.asyncIterator]();
    expect(() => mailbox[Symbol.asyncIterator]()).toThrow(
      expect.objectContaining({ code: 'invalid_argument' }),
    );
    await first.return?.();
    mailbox.push(item('a'));
    expect((await mailbox[Symbol.asyncIterator]().next()).value?.text).toBe('a');
  });
});
