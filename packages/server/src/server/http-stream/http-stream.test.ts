import { EventEmitter } from 'node:events';
import type { ServerResponse } from 'node:http';
import { RecordReader } from '@parlance/protocol/records';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { TransportEvents } from '../../transport/transport.js';
import { type Flow, HttpStream, KEEP_ALIVE_MS } from './http-stream.js';

/** A response that keeps what is written. */
class Response extends EventEmitter {
  readonly written: Uint8Array[] = [];
  readonly writableLength = 0;
  hasEnded = false;
  destroyed = false;
  writeHead(): void {}
  write(bytes: Uint8Array): void {
    this.written.push(bytes);
  }
  end(bytes?: Uint8Array): void {
    if (bytes !== undefined) this.written.push(bytes);
    this.hasEnded = true;
  }
  destroy(): void {
    this.emit('close');
  }
}

function setUp() {
  const response = new Response();
  const seen: unknown[] = [];
  const stream = new HttpStream({
    response: response as unknown as ServerResponse,
    headers: {},
    key: Uint8Array.of(9),
    origin: undefined,
    closeTimeoutMs: 1_000,
    onOver: () => seen.push('over'),
  });
  const events: Partial<TransportEvents> = { onClose: (code, reason) => seen.push([code, reason]) };
  stream.listen(events as TransportEvents);
  const frames = () => {
    const found: unknown[] = [];
    const reader = new RecordReader(1_000, {
      onRecord: (frame) => found.push([...frame]),
      onClose: (code, reason) => found.push({ code, reason }),
    });
    for (const bytes of response.written) reader.push(bytes);
    return found;
  };
  return { response, stream, seen, frames };
}

const turn = () => new Promise((resolve) => setImmediate(resolve));

it('writes nothing before HELLO has arrived, and then the key and what has waited, as it was', () => {
  const { response, stream, frames } = setUp();
  const frame = Uint8Array.of(1, 2);
  stream.send(frame);
  frame.fill(0);
  expect(response.written).toEqual([]);
  expect(stream.bufferedAmount).toBe(2);
  stream.open(0);
  expect(frames()).toEqual([[9], [1, 2]]);
  expect(stream.bufferedAmount).toBe(0);
});

it('writes the frames of a turn together, and those that wait before it closes', async () => {
  const { response, stream, frames } = setUp();
  stream.open(0);
  for (const byte of [1, 2, 3]) stream.send(Uint8Array.of(byte));
  await turn();
  expect(response.written).toHaveLength(2);
  stream.send(Uint8Array.of(4));
  stream.close(4_408, 'why');
  stream.send(Uint8Array.of(5));
  await turn();
  expect(frames()).toEqual([[9], [1], [2], [3], [4], { code: 4_408, reason: 'why' }]);
  expect(response.hasEnded).toBe(true);
  expect(stream.traffic.sent).toBe(2 + 3 * 2 + 2);
});

it('keeps a silent connection alive', async () => {
  const { response, stream } = setUp();
  stream.keepAlive(KEEP_ALIVE_MS);
  expect(response.written).toEqual([]);
  stream.open(0);
  stream.keepAlive(KEEP_ALIVE_MS - 1);
  expect(response.written).toHaveLength(1);
  stream.keepAlive(KEEP_ALIVE_MS);
  stream.keepAlive(2 * KEEP_ALIVE_MS - 1);
  expect(response.written.slice(1)).toEqual([Uint8Array.of(0, 0, 0, 0)]);
});

it('ends once, with the code of the client, or as lost', () => {
  const { response, stream, seen } = setUp();
  stream.open(0);
  stream.over(1_000, 'done');
  response.destroy();
  expect(seen).toEqual(['over', [1_000, 'done']]);
  const other = setUp();
  other.stream.terminate();
  expect(other.seen).toEqual(['over', [1_006, '']]);
});

describe('a response that breaks off', () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  it('is a lost connection a second later', () => {
    const { response, seen } = setUp();
    response.destroy();
    vi.advanceTimersByTime(999);
    expect(seen).toEqual([]);
    vi.advanceTimersByTime(1);
    expect(seen).toEqual(['over', [1_006, '']]);
  });

  it('leaves the client that second for a close in a request beside it', () => {
    const { response, stream, seen } = setUp();
    response.destroy();
    stream.over(1_001, '');
    vi.advanceTimersByTime(2_000);
    expect(seen).toEqual(['over', [1_001, '']]);
  });

  it('is lost at once if the server has given the connection up', () => {
    const { response, stream, seen } = setUp();
    response.destroy();
    response.destroyed = true;
    stream.terminate();
    expect(seen).toEqual(['over', [1_006, '']]);
  });
});

it('takes the request that is under way when the server closes, and refuses it when the connection is lost', () => {
  const statuses: number[] = [];
  const flow: Flow = { setHeld() {}, abandon: (status) => statuses.push(status) };
  for (const end of ['close', 'terminate'] as const) {
    const { response, stream } = setUp();
    stream.begin(flow);
    stream[end](1_000, '');
    response.destroy();
  }
  expect(statuses).toEqual([204, 404]);
});

it('stops reading as long as anything holds it, also what begins later', () => {
  const { stream } = setUp();
  const held: boolean[] = [];
  const flow: Flow = { setHeld: (isHeld) => held.push(isHeld), abandon() {} };
  stream.hold();
  stream.begin(flow);
  stream.pause();
  stream.unhold();
  stream.resume();
  expect(held).toEqual([true, true, true, false]);
});
