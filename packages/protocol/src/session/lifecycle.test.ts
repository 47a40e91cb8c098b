import { describe, expect, it } from 'vitest';
import { getAdjacencyMap, getShortestPaths } from 'xstate/graph';
import { stepLifecycle } from '#lifecycle';
import { resolveLimits, resolveTimers } from '../base/limits.js';
import { encodeControl } from '../control/envelope.js';
import { CloseCode, Subprotocol } from '../index.js';
import { TEST_CAPABILITIES } from '../testing/simulation.js';
import { createSession } from './create.js';
import { LifecycleEvent, type LifecycleState } from './lifecycle.js';
import { sessionMachine } from './lifecycle-machine.js';
import type { ServerSessionCore, SessionCore } from './types.js';

/** Every event in every state, stepped by the machine and by the core alike. */

type Role = 'client' | 'server';
const EVENTS = Object.values(LifecycleEvent).map((type) => ({ type }));

interface Subject {
  readonly core: SessionCore;
  now: number;
}

const envelope = { sessionId: 's', timestamp: 1 } as const;
const accept = encodeControl({
  ...envelope,
  type: 'ACCEPT',
  payload: {
    shape: 'flat',
    version: '1.0',
    algorithms: ['NONE'],
    encoding: null,
    encodings: [],
    securityScanning: false,
    sessionTimeoutMs: 0,
    maxPayloadSize: 0,
    limits: {},
    extensions: {},
  },
});
const reject = encodeControl({
  type: 'REJECT',
  sessionId: null,
  timestamp: 1,
  payload: { code: 'UNKNOWN', message: '' },
});
const close = encodeControl({ ...envelope, type: 'CLOSE', payload: { reason: 'NORMAL', message: '' } });
const ping = encodeControl({ ...envelope, type: 'PING', payload: {} });

function hello(): Uint8Array {
  const client = createSubject('client').core;
  client.handleConnected(0);
  return client.pollTransmit() as Uint8Array;
}

function createSubject(role: Role): Subject {
  const core = createSession({
    role,
    subprotocol: Subprotocol.BINARY,
    capabilities: TEST_CAPABILITIES,
    limits: resolveLimits(),
    timers: resolveTimers(),
  });
  return { core, now: 0 };
}

/** Makes `event` happen to the core; `false` if nothing outside can cause it in this state. */
function stimulate(subject: Subject, role: Role, event: LifecycleEvent): boolean {
  const { core, now } = subject;
  const before = core.lifecycle;
  switch (event) {
    case 'OPEN':
      if (before !== 'initial') return false; // a driver opens a connection once
      core.handleConnected(now);
      return true;
    case 'ACCEPT':
      if (role === 'client') core.handleMessage(accept, now);
      else {
        if (before !== 'awaitingHello') return false; // `accept` throws without a HELLO
        core.handleMessage(hello(), now);
        core.accept('s', now);
      }
      return before !== 'initial' || role === 'client';
    case 'REJECT':
      if (role === 'server') {
        if (before !== 'awaitingHello') return false; // only ever called in answer to a client
        (core as ServerSessionCore).reject({ code: 'UNKNOWN', message: '' }, CloseCode.FORBIDDEN, now);
        return true;
      }
      core.handleMessage(reject, now);
      // A rejected client waits for the close code, which says more.
      core.handleDisconnected(CloseCode.FORBIDDEN, '', now);
      return true;
    case 'LOST':
      core.handleDisconnected(CloseCode.ABNORMAL, '', now);
      return true;
    case 'CLOSE':
      core.close('NORMAL', '', now);
      return true;
    case 'PEER_CLOSE':
      core.handleMessage(close, now);
      return true;
    case 'CLOSE_DONE':
      if (before !== 'closing') return false; // said by the core itself, when both ends have
      core.handleMessage(close, now);
      while (core.pollTransmit() !== undefined);
      return true;
    case 'TIMEOUT':
      if (core.nextTimeout() === Infinity) return false; // no timer runs
      // An established session sends PINGs before it is idle for too long; a client has no idle timeout.
      if (before === 'established' && role === 'client') return false;
      while (core.lifecycle === before && core.nextTimeout() < Infinity) {
        subject.now = core.nextTimeout();
        core.handleTimeout(subject.now);
        // The peer answers PINGs and sends nothing else.
        if (before === 'established' && core.lifecycle === before) core.handleMessage(ping, subject.now);
      }
      return true;
    case 'VIOLATION':
      core.handleMessage(Uint8Array.of(0xff), now);
      return true;
  }
}

describe.each(['client', 'server'] as const)('the lifecycle of a %s', (role) => {
  // Resume is not negotiated yet, so no path leads through `suspended`.
  const input = { role, resumable: false } as const;
  const adjacency = getAdjacencyMap(sessionMachine, { input, events: EVENTS });
  // Paths consist of events that can be caused from outside; see `stimulate`.
  const paths = getShortestPaths(sessionMachine, {
    input,
    events: ({ value }) =>
      EVENTS.filter(
        ({ type }) =>
          role === 'client' || value === 'awaitingHello' || (type !== 'ACCEPT' && type !== 'REJECT'),
      ),
  });

  it('reaches every state that this role can be in', () => {
    const reached = new Set(paths.map((path) => path.state.value));
    const own = role === 'client' ? 'helloSent' : 'awaitingHello';
    expect(reached).toEqual(new Set(['initial', own, 'established', 'closing', 'closed', 'failed']));
  });

  const cases = paths.flatMap((path) => {
    const steps = path.steps
      .map((step) => step.event.type as LifecycleEvent)
      .filter((type) => EVENTS.some((e) => e.type === type));
    const entry = Object.values(adjacency).find(({ state }) => state.value === path.state.value);
    const edges: { state: { value: unknown }; event: { type: string } }[] = Object.values(
      entry?.transitions ?? {},
    );
    return edges.map((edge) => ({
      from: path.state.value as LifecycleState,
      steps,
      event: edge.event.type as LifecycleEvent,
      to: edge.state.value as LifecycleState,
    }));
  });

  it.each(cases)(
    '$from on $event goes to $to, in the machine and in the core',
    ({ steps, event, to, from }) => {
      const subject = createSubject(role);
      for (const step of steps) expect(stimulate(subject, role, step)).toBe(true);
      expect(subject.core.lifecycle).toBe(from);
      expect(stepLifecycle(from, event, { role, resumable: false }).state).toBe(to);
      if (stimulate(subject, role, event)) expect(subject.core.lifecycle).toBe(to);
    },
  );
});

describe('suspension', () => {
  it('follows a lost connection if resume was agreed, and never a violation', () => {
    const step = (event: LifecycleEvent, state: LifecycleState = 'established') =>
      stepLifecycle(state, event, { role: 'client', resumable: true }).state;
    expect(step('LOST')).toBe('suspended');
    expect(step('VIOLATION')).toBe('failed');
    expect(step('ACCEPT', 'suspended')).toBe('established');
    expect(step('TIMEOUT', 'suspended')).toBe('closed');
  });
});
