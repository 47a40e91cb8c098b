import { type Message, type RequestContext, resolveLimits } from '@parlance/protocol';
import { SILENT_LOGGER } from '@parlance/protocol/internal';
import { describe, expect, it } from 'vitest';
import type { ServerEndpoint } from '../session/endpoint.js';
import type { Admission } from '../session/hooks.js';
import { Directory } from './directory.js';

/** The parts of a session that a directory uses. */
class FakeSession {
  state = 'established';
  readonly negotiated = { algorithms: ['NONE'], encoding: null, extensions: { agents: '{}' } };
  readonly principal: string;
  readonly agentId: string;
  readonly #listeners: ((state: string) => void)[] = [];

  constructor(principal: string, agentId: string) {
    this.principal = principal;
    this.agentId = agentId;
  }

  readonly listeners = {
    add: (_name: string, listener: (state: string) => void) => void this.#listeners.push(listener),
  };

  become(state: string) {
    this.state = state;
    for (const listener of this.#listeners) listener(state);
  }
}

function bench(isDecided = false) {
  const ticks: { handleTick(): void }[] = [];
  const directory = new Directory({
    onConflict: 'takeOver',
    policy: { isDecided, mayList: (from, to) => isDecided || from.principal === to.principal },
    key: new Uint8Array(32),
    limits: resolveLimits(),
    clock: { soon: (item) => void ticks.push(item) },
    logger: SILENT_LOGGER,
  });
  const join = (principal: string, agentId: string) => {
    const session = new FakeSession(principal, agentId);
    const endpoint = session as never as ServerEndpoint;
    const admitted = directory.admit(endpoint, { agents: '{}' });
    expect(admitted).toEqual({ accepted: expect.any(Function) });
    (admitted as Required<Admission>).accepted(endpoint);
    directory.join(endpoint);
    return session;
  };
  /** The news for a session as text, one part at a time. */
  const watch = (session: FakeSession) => {
    const handler = directory.handlerFor(session as never as ServerEndpoint);
    const request = { json: () => ({ watch: true }) } as never as Message;
    const context = { signal: new AbortController().signal } as RequestContext;
    const pieces = handler(request, context) as AsyncGenerator<{ json: unknown }>;
    return async () => {
      const { value } = await pieces.next();
      const { present, gone } = value.json as { present: { id: string; state: string }[]; gone: string[] };
      return [...present.map(({ id, state }) => `${id} ${state}`), ...gone.map((id) => `${id} gone`)];
    };
  };
  return {
    directory,
    join,
    watch,
    tick: () => ticks.splice(0).forEach((item) => void item.handleTick()),
    ticks,
  };
}

describe('a directory', () => {
  it('does not announce a connection that is lost and resumed at once', async () => {
    const { join, watch, tick, ticks } = bench();
    const [planner, worker] = [join('acme', 'planner'), join('acme', 'worker')];
    const next = watch(planner);
    expect(await next()).toEqual(['worker connected']);
    const news = next();
    for (let i = 0; i < 100; i++) {
      worker.become('suspended');
      worker.become('established');
    }
    expect(ticks).toHaveLength(1);
    tick();
    // The first news about it.
    worker.become('suspended');
    tick();
    expect(await news).toEqual(['worker suspended']);
    const back = next();
    worker.become('established');
    worker.become('suspended');
    worker.become('established');
    tick();
    expect(await back).toEqual(['worker connected']);
    const gone = next();
    worker.become('suspended');
    worker.become('closed');
    tick();
    expect(await gone).toEqual(['worker gone']);
  });

  it('names agents of the same principal by ID, and others by address', async () => {
    const { directory, join, watch } = bench(true);
    const [planner, own] = [join('acme', 'planner'), join('acme', 'worker')];
    const other = join('other', 'worker');
    const next = watch(planner);
    const { address } = directory.agentOf(other as never as ServerEndpoint) ?? {};
    expect((await next()).sort()).toEqual([`worker connected`, `${address} connected`].sort());
    expect(directory.find('acme', 'worker')?.session).toBe(own);
    expect(directory.find('other', 'worker')?.session).toBe(other);
    expect(directory.find('acme', address as string)?.session).toBe(other);
    expect(directory.find('acme', { principal: 'other', id: 'worker' })?.session).toBe(other);
    const gone = next();
    other.become('closed');
    expect(await gone).toEqual([`${address} gone`]);
    expect(directory.find('acme', address as string)).toBeUndefined();
  });

  it('gives every pair of principal and ID a different address', () => {
    const { directory, join } = bench();
    const parts = ['a', 'b', 'ab', '-', '_', 'a_b', 'a-b'];
    const principals = [...parts, ':', '{', '}', '\0', 'a:', 'a\0', '"', '","', '[', '\ud800', '\udbff', ''];
    const addresses = new Set<string>();
    for (const principal of principals)
      for (const id of parts)
        addresses.add(directory.agentOf(join(principal, id) as never as ServerEndpoint)?.address ?? '');
    expect(addresses.size).toBe(principals.length * parts.length);
  });
});
