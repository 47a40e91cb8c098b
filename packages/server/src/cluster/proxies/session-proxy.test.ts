import { DEFAULT_LIMITS, ProtocolError } from '@parlance/protocol';
import { MemoryBudget } from '@parlance/protocol/internal';
import { beforeEach, describe, expect, it } from 'vitest';
import type { Transport } from '../../transport/transport.js';
import { MAX_WAITING, SessionProxy } from './session-proxy.js';

class FakeWire implements Transport {
  readonly traffic = { sent: 0, received: 0 };
  readonly overhead = 0;
  bufferedAmount = 0;
  holds = 0;
  sent: (Uint8Array | string)[] = [];
  closed: string | undefined;
  failure: Error | undefined;

  send(frame: Uint8Array | string): void {
    if (this.failure !== undefined) throw this.failure;
    this.sent.push(frame);
    this.bufferedAmount += frame.length;
  }
  close(code: number, reason: string): void {
    this.closed ??= `${code} ${reason}`;
  }
  terminate(): void {
    this.closed ??= 'terminated';
  }
  hold(): void {
    this.holds++;
  }
  unhold(): void {
    this.holds--;
  }
  listen(): void {}
  /** Everything has left the process. */
  drain(): void {
    this.bufferedAmount = 0;
  }
}

let near: FakeWire;
let far: FakeWire;
let proxy: SessionProxy;
let ends: number;
let logged: object[];
const budget = new MemoryBudget(1e9);
beforeEach(() => {
  near = new FakeWire();
  far = new FakeWire();
  ends = 0;
  logged = [];
  const log = (fields: object) => logged.push(fields);
  const memory = budget.open(1e6);
  memory.assign(['address test']);
  proxy = new SessionProxy(near, far, {
    limits: DEFAULT_LIMITS,
    memory,
    logger: { debug: log, info: log, warn: log, error: log },
    sessionId: 'sess_x',
    owner: 'aaaaaa',
    origin: { ip: '127.0.0.1', agentId: undefined, headers: {}, isForwarded: false },
    onOver: () => ends++,
  });
});

describe('the proxy of a session', () => {
  it('passes every message on as it is, in both directions', () => {
    const data = new Uint8Array([1, 2, 3]);
    proxy.handleMessage(data);
    proxy.handleMessage('text');
    proxy.onMessage('answer');
    proxy.onMessage(data);
    expect(far.sent).toEqual([data, 'text']);
    expect(near.sent).toEqual(['answer', data]);
    expect(far.sent[0]).toBe(data);
  });

  it.each(['near', 'far'] as const)('reads one end only while the %s one has room', (end) => {
    const [full, other] = end === 'near' ? [near, far] : [far, near];
    const pass = (data: Uint8Array) => (end === 'near' ? proxy.onMessage(data) : proxy.handleMessage(data));
    pass(new Uint8Array(MAX_WAITING));
    expect(other.holds).toBe(0);
    pass(new Uint8Array(1));
    expect(other.holds).toBe(1);
    // A message that was read together with it is passed on.
    pass(new Uint8Array(1));
    expect(other.holds).toBe(1);
    expect(full.sent).toHaveLength(3);
    full.drain();
    if (end === 'near') proxy.handleWritable();
    else proxy.onDrain();
    expect(other.holds).toBe(0);
    expect(full.holds).toBe(0);
    if (end === 'near') proxy.handleWritable();
    else proxy.onDrain();
    expect(other.holds).toBe(0);
  });

  it.each([1000, 1001, 1005, 4408, 4411])('passes the close code %d of the client on', (code) => {
    proxy.handleDisconnected(code, 'why');
    expect(far.closed).toBe(`${code} why`);
    expect([near.closed, ends]).toEqual([undefined, 1]);
  });

  it.each([1000, 1005, 4400, 4409, 4410, 4503])('passes the close code %d of the owner on', (code) => {
    proxy.onClose(code, 'why');
    expect(near.closed).toBe(`${code} why`);
    expect([far.closed, ends]).toEqual([undefined, 1]);
  });

  it('breaks off at the owner if the client was lost', () => {
    proxy.handleDisconnected(1006, '');
    expect(far.closed).toBe('terminated');
  });

  it('tells the client to come back if the owner was lost', () => {
    proxy.onClose(1006, '');
    expect(near.closed).toMatch(/^1012 /);
  });

  it('tells both ends the same if this node leaves', () => {
    proxy.leave('this node is shutting down');
    expect([near.closed, far.closed]).toEqual(Array(2).fill('1012 this node is shutting down'));
  });

  it('ends the session if the client breaks a rule', () => {
    proxy.abort(new ProtocolError('message_too_large', 'too long'));
    expect([near.closed, far.closed]).toEqual(['4413 too long', '4413 too long']);
  });

  it('logs a fault, and lets the client come back', () => {
    near.failure = new Error('bug');
    proxy.onMessage('x');
    expect(near.closed).toMatch(/^1012 /);
    expect(far.closed).toMatch(/^1012 /);
    expect(logged).toMatchObject([{ event: 'session.failed', session: 'sess_x' }]);
  });

  it('is over once, passes nothing on afterwards, and reads what comes, so that the ends can close', () => {
    proxy.onMessage(new Uint8Array(MAX_WAITING + 1));
    proxy.handleMessage(new Uint8Array(MAX_WAITING + 1));
    expect([near.holds, far.holds]).toEqual([1, 1]);
    proxy.leave('bye');
    expect([near.holds, far.holds]).toEqual([0, 0]);
    proxy.handleMessage('late');
    proxy.onMessage('late');
    proxy.onClose(4400, '');
    proxy.handleDisconnected(4400, '');
    proxy.abort(new ProtocolError('timeout', ''));
    proxy.crash(new Error('late'));
    expect([near.sent.length, far.sent.length, ends]).toEqual([1, 1, 1]);
    expect([near.closed, far.closed]).toEqual(['1012 bye', '1012 bye']);
    expect(logged).toEqual([]);
  });

  it('gives its memory back', () => {
    const before = budget.used;
    proxy.memory.tryReserve(100_000);
    expect(budget.used).toBe(before + 100_000);
    proxy.leave('bye');
    expect(budget.used).toBe(before);
  });
});
