import { resolveLimits } from '@parlance/protocol';
import { SILENT_LOGGER } from '@parlance/protocol/internal';
import { expect, it } from 'vitest';
import type { ClientModule, Sessions, Setup } from '../session/module.js';
import type { ClientSession } from '../session/session.js';
import { createModule } from './rebuild.js';

/** The module of a page with `store`, and what its listeners of `reset` are told. */
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
  let module: ClientModule | undefined;
  await createModule(setup as unknown as Setup).open?.(async (given) => {
    module = given;
    return {} as ClientSession;
  });
  const resets: unknown[] = [];
  const listeners = { notify: (_name: string, event: unknown) => void resets.push(event) };
  module?.begin?.({ listeners } as unknown as Sessions, undefined);
  const ready = () => {
    module?.ready?.();
    for (const task of tasks.splice(0)) task();
  };
  return { module: module as ClientModule, resets, ready };
}

it('reports the requests of the former page with the first session that is ready, and not with those that follow it', async () => {
  const { module, resets, ready } = await setUp();
  module.rebuilt?.([1, 3]);
  expect(module.isRebuilt).toBe(true);
  ready();
  const unknown = [1, 3].map((streamId) => ({ kind: 'request', streamId }));
  expect(resets).toEqual([{ code: 'reloaded', reason: 'the page was loaded again', notSent: [], unknown }]);
  ready();
  expect(resets).toHaveLength(1);
  await Promise.resolve(module.ended?.(new Error('over') as never));
});

it('reports nothing for a session that this page has begun', async () => {
  const { module, resets, ready } = await setUp();
  ready();
  expect(module.isRebuilt).toBe(false);
  expect(resets).toEqual([]);
  await expect(module.detach?.()).rejects.toMatchObject({ code: 'unsupported' });
});
