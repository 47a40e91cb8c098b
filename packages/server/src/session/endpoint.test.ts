import {
  createSession,
  type ProtocolError,
  resolveLimits,
  resolveTimers,
  Subprotocol,
} from '@parlance/protocol';
import { fencedError, type Wire } from '@parlance/protocol/internal';
import { expect, it } from 'vitest';
import { ServerEndpoint } from './endpoint.js';
import { INPUT_OVERHEAD } from './moving-endpoint.js';

/** A session whose client has said nothing yet. */
function begin(onApplied?: () => void) {
  const time = { now: 0 };
  const limits = resolveLimits();
  const timers = resolveTimers();
  const core = createSession({
    role: 'server',
    subprotocol: Subprotocol.BINARY,
    capabilities: {
      algorithms: ['NONE'],
      encodings: [],
      vocabularies: {},
      extensions: {},
      securityScanning: false,
      maxPayloadSize: 0,
    },
    limits,
    timers,
  });
  const clock = {
    timeOrigin: 0,
    now: () => time.now,
    after: () => () => {},
    soon() {},
    yield: async () => {},
  };
  const endpoint = new ServerEndpoint({ core, clock, limits, role: 'server', onApplied });
  const closed: number[] = [];
  const wire: Wire = { bufferedAmount: 0, send() {}, close: (code) => void closed.push(code) };
  endpoint.handleConnected(wire);
  return { endpoint, closed, time, timers };
}

it('what an event asks for takes effect once, with all that follows from the event', () => {
  let applied = 0;
  const { endpoint } = begin(() => applied++);
  const events = [1, 2].map((expiresInMs) => ({ type: 'granted' as const, expiresInMs }));
  const asked: number[] = [];
  Object.assign(endpoint.options, {
    onGranted(expiresInMs: number) {
      asked.push(expiresInMs);
      endpoint.tell(() => {});
      endpoint.pump();
    },
  });
  Object.defineProperty(endpoint.core, 'hasEvents', { get: () => events.length > 0 });
  endpoint.core.pollEvent = () => events.shift();
  applied = 0;
  endpoint.tell(() => {});
  expect([asked, applied]).toEqual([[1, 2], 1]);
});

it('messages that arrived together take effect once, when all are handled', () => {
  let handled = 0;
  const applied: number[] = [];
  const { endpoint } = begin(() => applied.push(handled));
  const handle = (isPart: boolean) => {
    handled++;
    endpoint.handleMessage(Uint8Array.of(0xff), undefined, 0, isPart);
  };
  endpoint.core.handleMessage = () => {};
  endpoint.isReady = true;
  applied.length = 0;
  handle(true);
  handle(true);
  expect(applied).toEqual([]);
  endpoint.handleRead();
  endpoint.handleRead();
  expect(applied).toEqual([2]);
  handle(true);
  handle(false);
  endpoint.handleRead();
  expect(applied).toEqual([2, 4]);
  // Changes that were applied for another reason are not applied again.
  handle(true);
  endpoint.pump();
  endpoint.handleRead();
  expect(applied).toEqual([2, 4, 5]);
  // Before it is ready, each message is applied by itself.
  endpoint.isReady = false;
  handle(true);
  expect(applied).toEqual([2, 4, 5, 6]);
});

it('a session that is to move handles nothing, until its client has sent too much', () => {
  const { endpoint, closed } = begin();
  endpoint.holdInput();
  // No frame begins with this byte.
  const size = 1024 * 1024 - INPUT_OVERHEAD;
  for (let i = 0; i < 8; i++) endpoint.handleMessage(new Uint8Array(size).fill(0xff));
  expect([endpoint.input.length, closed]).toEqual([8, []]);
  endpoint.handleMessage(Uint8Array.of(0xff));
  expect([endpoint.input.length, closed.length]).toEqual([0, 1]);
});

it('a handler of a session that this node has lost is told so, also when it asks for something later', () => {
  const codeOf = (call: () => void): unknown => {
    try {
      call();
    } catch (error) {
      return (error as ProtocolError).code;
    }
    return undefined;
  };
  const { endpoint } = begin();
  endpoint.giveUp();
  expect([codeOf(() => endpoint.outbound), codeOf(() => (endpoint.data = 1))]).toEqual([
    'draining',
    'draining',
  ]);
  endpoint.forget(fencedError());
  endpoint.forget();
  expect([codeOf(() => endpoint.outbound), codeOf(() => (endpoint.data = 1))]).toEqual(['fenced', 'fenced']);
});
