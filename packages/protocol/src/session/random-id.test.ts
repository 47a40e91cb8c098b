import { afterEach, expect, it, vi } from 'vitest';
import { platform } from '#platform';
import {
  incarnationOf,
  newIncarnation,
  newReplyId,
  newResumeToken,
  newSessionId,
  nodeOfReply,
} from './random-id.js';

const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789';

afterEach(() => {
  vi.restoreAllMocks();
});

/** Bytes in order, again and again, instead of the random generator. */
function scriptRandomness(...bytes: number[]): void {
  let at = 0;
  vi.spyOn(platform, 'randomBytes').mockImplementation((length) =>
    Uint8Array.from({ length }, () => bytes[at++ % bytes.length] as number),
  );
}

it('is sess_ and 20 letters or digits', () => {
  for (let i = 0; i < 200; i++) expect(newSessionId()).toMatch(/^sess_[A-Za-z0-9]{20}$/);
});

it('of a resume token is 32 letters or digits', () => {
  for (let i = 0; i < 200; i++) expect(newResumeToken()).toMatch(/^[A-Za-z0-9]{32}$/);
});

it('is never the same twice', () => {
  expect(new Set(Array.from({ length: 20_000 }, newSessionId)).size).toBe(20_000);
});

it('gives each of the 62 characters to the same number of byte values and skips the rest', () => {
  const seen = new Map<string, number>();
  for (let byte = 0; byte < 248; byte++) {
    scriptRandomness(byte);
    const [first, ...others] = newSessionId().slice(5);
    expect(new Set(others)).toEqual(new Set([first]));
    seen.set(first as string, (seen.get(first as string) ?? 0) + 1);
  }
  expect([...seen.keys()].sort()).toEqual([...ALPHABET].sort());
  expect(new Set(seen.values())).toEqual(new Set([4]));

  scriptRandomness(248, 249, 250, 251, 252, 253, 254, 255, 61);
  expect(newSessionId()).toBe(`sess_${'9'.repeat(20)}`);
});

it('uses each random byte once', () => {
  scriptRandomness(...Array.from({ length: 40 }, (_, i) => i));
  expect(newSessionId()).toBe('sess_ABCDEFGHIJKLMNOPQRST');
});

it('names the node of a cluster, and is as long as without one', () => {
  for (let i = 0; i < 200; i++) {
    const incarnation = newIncarnation();
    expect(incarnation).toMatch(/^[A-Za-z0-9]{6}$/);
    const id = newSessionId(incarnation);
    expect(id).toMatch(/^sess_[A-Za-z0-9]{20}$/);
    expect(incarnationOf(id)).toBe(incarnation);
  }
});

it.each(['', 'sess_', `sess_${'a'.repeat(19)}`, `sess_${'a'.repeat(21)}`, `sess_${'a'.repeat(19)}!`])(
  'names no node if it is %j',
  (id) => {
    expect(incarnationOf(id)).toBeUndefined();
  },
);

it('of a kept reply names the node of a cluster, and is as long as without one', () => {
  expect(newReplyId()).toMatch(/^reply_[A-Za-z0-9]{22}$/);
  for (let i = 0; i < 200; i++) {
    const incarnation = newIncarnation();
    const id = newReplyId(incarnation);
    expect(id).toMatch(/^reply_[A-Za-z0-9]{22}$/);
    expect(nodeOfReply(id)).toBe(incarnation);
  }
});

it.each(['', 'reply_', `reply_${'a'.repeat(21)}`, `reply_${'a'.repeat(23)}`, `reply_${'a'.repeat(21)}-`])(
  'of a kept reply names no node if it is %j',
  (id) => {
    expect(nodeOfReply(id)).toBeUndefined();
  },
);
