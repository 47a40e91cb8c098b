import { createHash, randomBytes } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import type { Session } from '@parlance/client';
import type { ServerOptions, ServerSession } from '@parlance/server';
import { expect } from 'vitest';

/** What sessions do besides messages, while their connections are cut. */

const PARTS = 300;
/** Of a part, in bytes and characters. */
const PART_SIZE = 8_000;
const WINDOW = 64 * 1024;
/** The window, and what both ends hold besides. All parts together are 2.4 MB. */
const MAX_AHEAD = (5 * WINDOW) / PART_SIZE;
const TENSOR_SIZE = 1_500_000;

/** Options that the client has to have: what is sent is as long as it is. */
export const CLIENT = { limits: { streamWindow: WINDOW }, algorithms: ['NONE'] } as const;

const partOf = (i: number) => `${i} `.padEnd(PART_SIZE, '.');
const ALL = Array.from({ length: PARTS }, (_, i) => partOf(i));
const hashOf = (data: Uint8Array | undefined) =>
  createHash('sha256')
    .update(data ?? '')
    .digest('hex');

export interface Served {
  /** Parts that the handler of a slow reader has made. */
  made: number;
  /** Requests that were stopped. */
  stopped: number;
  tensors: string[];
}

/** @returns what serves the client of {@link interact}, and what it has seen. */
export function serving(): { readonly served: Served; readonly options: ServerOptions } {
  const served: Served = { made: 0, stopped: 0, tensors: [] };
  return {
    served,
    options: {
      authenticate: () => ({ principal: 'ann' }),
      async *onRequest({ text }, { keep, signal }) {
        if (text === 'keep') keep({ name: 'kept' });
        if (text === 'endless') signal.addEventListener('abort', () => served.stopped++);
        for (let i = 0; i < PARTS || text === 'endless'; i++) {
          if (text === 'slow reader') served.made++;
          if (text !== 'slow reader') await pause(2);
          yield partOf(i);
        }
      },
    },
  };
}

/** Sends a tensor back. */
export async function echoTensor(session: ServerSession, tensor: NonNullable<Tensor>, served: Served) {
  const { data, shape, dtype, payloadType } = tensor;
  served.tensors.push(hashOf(data));
  if (data !== undefined) await session.sendTensor({ data, shape, dtype, payloadType });
}
type Tensor = Awaited<
  ReturnType<ReturnType<Session[typeof Symbol.asyncIterator]>['next']>
>['value']['tensor'];

export interface Cuts {
  cut(): void;
  /** In the middle of what comes next from the server. */
  cutAfter(bytes: number): void;
}

/** A stream for a slow reader, one that is stopped, a tensor and a kept reply, each through cuts. @param other follows the reply. */
export async function interact(
  session: Session,
  other: Session,
  { cut, cutAfter }: Cuts,
  served: Served,
): Promise<void> {
  const parts: string[] = [];
  let ahead = 0;
  for await (const { text } of session.stream('slow reader')) {
    parts.push(text);
    if (parts.length % 60 === 30) cut();
    if (parts.length % 10 === 0) await pause(5);
    ahead = Math.max(ahead, served.made - parts.length);
  }
  expect(parts).toEqual(ALL);
  expect(ahead).toBeLessThanOrEqual(MAX_AHEAD);
  // The window is used up, so that credit alone has held the handler back.
  expect(ahead).toBeGreaterThanOrEqual(Math.floor(WINDOW / PART_SIZE));

  let read = 0;
  for await (const _ of session.stream('endless')) if (++read === 20) break;
  cut();
  await expect.poll(() => served.stopped).toBe(1);

  const data = new Uint8Array(randomBytes(TENSOR_SIZE));
  const incoming = session[Symbol.asyncIterator]();
  await session.sendTensor({ data, shape: [data.length], dtype: 'int8', payloadType: 'hidden_state' });
  cutAfter(TENSOR_SIZE / 3);
  const echo = (await incoming.next()).value?.tensor;
  expect([hashOf(echo?.data), ...served.tensors]).toEqual([hashOf(data), hashOf(data)]);

  const asked = session.stream('keep');
  const own = textsOf(asked);
  await expect.poll(() => asked.position).toBeGreaterThan(10);
  const followed = other.follow('kept');
  const following = textsOf(followed, cut);
  expect([await own, await following]).toEqual([ALL, ALL]);
  expect(followed.keptId).toBe(asked.keptId);
  expect(served.stopped).toBe(1);
}

async function textsOf(reply: AsyncIterable<{ readonly text: string }>, cut?: () => void): Promise<string[]> {
  const texts: string[] = [];
  for await (const { text } of reply) if (texts.push(text) % 60 === 40) cut?.();
  return texts;
}
