import { resolveLimits } from '@parlance/protocol';
import { SILENT_LOGGER } from '@parlance/protocol/internal';
import { expect, it } from 'vitest';
import type { ClientPart, Sessions, Setup } from '../session/part.js';
import type { ClientSession } from '../session/session.js';
import { createPart } from './take-up.js';

/** The part of a page with `store`, and what its listeners of `reset` are told. */
async function setUp() {
  const store = { getItem: () => null, setItem: () => {}, removeItem: () => {} };
  const tasks: (() => void)[] = [];
  const clock = {
    after(_ms: number, task: () => void) {
      tasks.push(task);
      return () => {};
    },
  };
  const setup = {
    url: new URL('ws://127.0.0.1/session'),
    options: { store },
    limits: resolveLimits(),
    clock,
    logger: SILENT_LOGGER,
  };
  let part: ClientPart | undefined;
  await createPart(setup as unknown as Setup).open?.(async (given) => {
    part = given;
    return {} as ClientSession;
  });
  const resets: unknown[] = [];
  const listeners = { notify: (_name: string, event: unknown) => void resets.push(event) };
  part?.begin?.({ listeners } as unknown as Sessions, undefined);
  const ready = () => {
    part?.ready?.();
    for (const task of tasks.splice(0)) task();
  };
  return { part: part as ClientPart, resets, ready };
}

it('reports the requests of the former page with the first session that is ready, and not with those that follow it', async () => {
  const { part, resets, ready } = await setUp();
  part.takenUp?.([1, 3]);
  expect(part.isTakenUp).toBe(true);
  ready();
  const unknown = [1, 3].map((streamId) => ({ kind: 'request', streamId }));
  expect(resets).toEqual([{ reason: 'reloaded', notSent: [], unknown }]);
  ready();
  expect(resets).toHaveLength(1);
  await Promise.resolve(part.ended?.(new Error('over') as never));
});

it('reports nothing for a session that this page has begun', async () => {
  const { part, resets, ready } = await setUp();
  ready();
  expect(part.isTakenUp).toBe(false);
  expect(resets).toEqual([]);
  await expect(part.detach?.()).rejects.toMatchObject({ code: 'unsupported' });
});
