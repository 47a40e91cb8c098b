import type { IncomingMessage, ServerResponse } from 'node:http';
import { CloseCode } from '@parlance/protocol';
import { expect, it } from 'vitest';
import { refusedError } from '../../session/admission/identify.js';
import type { OpenSocket, UpgradeTarget } from '../../transport/http/upgrade.js';
import type { Transport, TransportEvents } from '../../transport/transport.js';
import { guardedHttp, guardedUpgrade } from './guarded.js';

/** Features whose hooks `http` and `upgrade` fail, without sockets. */

const REQUEST = {} as IncomingMessage;

class FakeResponse {
  headersSent = false;
  readonly headers: Record<string, unknown> = {};
  status: number | undefined;
  isDestroyed = false;
  writeHead(status: number): void {
    this.headersSent = true;
    this.status = status;
  }
  setHeader(name: string, value: unknown): void {
    this.headers[name] = value;
  }
  end(): void {}
  destroy(): void {
    this.isDestroyed = true;
  }
}

class FakeTransport {
  events: TransportEvents | undefined;
  closed: number | undefined;
  readonly #own = 'private';
  listen(events: TransportEvents): void {
    if (this.#own === 'private') this.events = events;
  }
  close(code: number): void {
    this.closed = code;
  }
}

const fault = () => {
  throw new Error('a fault');
};

function answer(hook: () => unknown) {
  const faults: unknown[] = [];
  const found = guardedHttp(hook, (error) => void faults.push(String(error)));
  const response = new FakeResponse();
  if (typeof found === 'function') void found(REQUEST, response as unknown as ServerResponse);
  return { found, faults, response };
}

it('has nothing at a path for which a hook returns nothing, and a page as it is', () => {
  expect(answer(() => undefined).found).toBeUndefined();
  const page = { type: 'text/plain', read: undefined };
  expect(answer(() => page).found).toBe(page);
});

it.each([
  ['a hook that throws', fault],
  ['a hook that returns something else', () => true],
  ['a hook that returns a promise', async () => undefined],
  ['a handler that throws', () => fault],
])('answers with 500 for %s', (_name, hook) => {
  const { response, faults } = answer(hook);
  expect([response.status, faults.length]).toEqual([500, 1]);
});

it.each([
  [{ message: '', closeCode: CloseCode.UNAUTHENTICATED }, 401, { 'www-authenticate': 'Bearer' }],
  [{ message: '', closeCode: CloseCode.FORBIDDEN }, 403, {}],
  [{ message: '', closeCode: CloseCode.RATE_LIMITED, retryAfterMs: 1_001 }, 429, { 'retry-after': 2 }],
  [{ message: '', closeCode: CloseCode.DRAINING }, 503, {}],
  [{ message: '', closeCode: CloseCode.INTERNAL }, 500, {}],
])('answers with %o as its status says, and reports no fault', async (refusal, status, headers) => {
  const { response, faults } = answer(() => async () => {
    throw refusedError(refusal);
  });
  await new Promise(setImmediate);
  expect([response.status, response.headers, faults]).toEqual([status, headers, []]);
});

it('answers with 500 for a handler that rejects, and cuts off an answer that has begun', async () => {
  const late = answer(() => async () => fault());
  const begun = answer(() => async (_request: unknown, response: FakeResponse) => {
    response.writeHead(200);
    await Promise.resolve();
    fault();
  });
  await new Promise(setImmediate);
  expect([late.response.status, late.faults.length]).toEqual([500, 1]);
  expect([begun.response.status, begun.response.isDestroyed, begun.faults.length]).toEqual([200, true, 1]);
});

function open(target: UpgradeTarget) {
  const faults: unknown[] = [];
  const found = guardedUpgrade(
    () => target,
    (error) => void faults.push(String(error)),
  );
  const transport = new FakeTransport();
  if (typeof found === 'object')
    found.open(transport as unknown as Transport as OpenSocket, { ip: '127.0.0.1', request: REQUEST });
  return { transport, faults };
}

it('says that a feature has failed if its hook throws, or returns no target', () => {
  const report = () => {};
  expect(guardedUpgrade(fault, report)).toBe('failed');
  expect(guardedUpgrade(() => ({}), report)).toBe('failed');
  expect(guardedUpgrade(() => ({ subprotocol: 1, open: fault }), report)).toBe('failed');
  expect(guardedUpgrade(() => undefined, report)).toBeUndefined();
});

it('closes a WebSocket whose target throws when it is opened, later, or on an event', async () => {
  expect(open({ open: fault }).transport.closed).toBe(1011);
  const refused = open({
    open: async () => {
      throw refusedError({ message: 'who?', closeCode: CloseCode.UNAUTHENTICATED });
    },
  });
  const late = open({ open: async () => fault() });
  const listening = open({ open: (socket) => socket.listen({ onMessage: fault }) });
  await new Promise(setImmediate);
  expect([late.transport.closed, late.faults.length]).toEqual([1011, 1]);
  expect([refused.transport.closed, refused.faults]).toEqual([CloseCode.UNAUTHENTICATED, []]);
  expect(listening.transport.closed).toBeUndefined();
  listening.transport.events?.onDrain();
  listening.transport.events?.onMessage('x', 1);
  expect([listening.transport.closed, listening.faults.length]).toEqual([1011, 1]);
});
