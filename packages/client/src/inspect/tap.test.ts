import { encodeControl } from '@parlance/protocol';
import type { InspectionEvent } from '@parlance/protocol/inspect';
import { afterEach, describe, expect, it, vi } from 'vitest';
import type { WebSocketLike } from '../connection/web-socket.js';
import { tap } from './tap.js';

type Listener = (event: { type: string; data?: unknown; code?: number; reason?: string }) => void;

class FakeSocket implements WebSocketLike {
  binaryType = 'arraybuffer';
  readonly sent: unknown[][] = [];
  readonly #listeners = new Map<string, Listener[]>();

  readonly url: string;

  constructor(url: string, _protocols: string[]) {
    this.url = url;
  }
  send(...given: unknown[]): void {
    this.sent.push(given);
  }
  close(): void {}
  addEventListener(type: string, listener: Listener): void {
    this.#listeners.set(type, [...(this.#listeners.get(type) ?? []), listener]);
  }
  emit(type: string, event: object = {}): void {
    for (const listener of this.#listeners.get(type) ?? []) listener({ type, ...event });
  }
}

function open(sink: (event: InspectionEvent) => void): FakeSocket {
  const Tapped = tap(FakeSocket, sink);
  return new Tapped('ws://host/session', ['m2m.v1']) as FakeSocket;
}

const request = () => Uint8Array.of(0x11, 1, 0, 0x68, 0x69);

describe('a tapped WebSocket', () => {
  afterEach(() => vi.restoreAllMocks());

  it('tells each frame before the client handles it, and is the same socket otherwise', () => {
    const order: string[] = [];
    const socket = open((event) =>
      order.push(event.event === 'frame' ? `${event.direction} ${event.label}` : event.event),
    );
    socket.addEventListener('message', () => order.push('handled'));
    socket.emit('open');
    const [frame, onWritten] = [request(), () => {}];
    socket.send(frame);
    socket.send(frame, onWritten);
    socket.emit('message', { data: request().buffer });
    socket.emit('message', { data: '{}' });
    socket.emit('close', { code: 1000, reason: 'done' });
    expect(order).toEqual([
      'connection',
      'connection',
      'sent request',
      'sent request',
      'received request',
      'handled',
      'received text',
      'handled',
      'connection',
    ]);
    expect(socket).toBeInstanceOf(FakeSocket);
    expect(socket.sent).toEqual([[frame], [frame, onWritten]]);
    expect(socket.sent[0]?.[0]).toBe(frame);
  });

  it('does not show memory that the session uses again', () => {
    const events: InspectionEvent[] = [];
    const socket = open((event) => events.push(event));
    const bytes = encodeControl({ type: 'PING', sessionId: 's', timestamp: 1, payload: {} }).slice();
    socket.send(bytes);
    bytes.fill(0);
    expect(events.at(-1)).toMatchObject({ label: 'PING' });
  });

  it('counts the connections of one class', () => {
    const opened: number[] = [];
    const Tapped = tap(FakeSocket, (event) => {
      if (event.event === 'connection') opened.push(event.connection);
    });
    new Tapped('ws://host/', []);
    new Tapped('ws://host/', []);
    expect(opened).toEqual([1, 2]);
  });

  it('keeps errors of the sink away from the session, and prints the first', () => {
    const printed = vi.spyOn(console, 'error').mockImplementation(() => {});
    const socket = open(() => {
      throw new Error('sink');
    });
    socket.send(request());
    socket.emit('message', { data: request().buffer });
    expect(socket.sent).toHaveLength(1);
    expect(printed).toHaveBeenCalledTimes(1);
  });
});
