import { encodeControl } from '@parlance/protocol';
import type { InspectionEvent } from '@parlance/protocol/inspect';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { MemoryTransport } from '../connection/testing/memory-transport.js';
import type { WatchingClass } from '../connection/transport.js';
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

describe('connections over HTTP of a client with a tapped WebSocket', () => {
  const EVENTS = { onMessage() {}, onWritable() {}, onClose() {} };

  function setUp() {
    const told: unknown[] = [];
    const Tapped = tap(FakeSocket, (event) => {
      if (event.event === 'frame') told.push(`${event.connection} ${event.direction} ${event.label}`);
      if (event.event === 'connection') told.push([event.connection, event.what, event.url ?? event.code]);
    });
    const memory = new MemoryTransport({ takesHello: true }, 'http');
    const http = (Tapped as unknown as WatchingClass).watchTransport(memory);
    const hello = () => encodeControl({ type: 'PING', sessionId: 's', timestamp: 1, payload: {} });
    const open = () => {
      const wire = http.open(new URL('wss://host/session'), hello, {
        ...EVENTS,
        onOpen: () => told.push('opens'),
        onMessage: () => told.push('handles'),
      });
      const connection = memory.connections.at(-1);
      if (connection === undefined) throw new Error('nothing was opened');
      return { wire, connection };
    };
    return { told, http, open, Tapped };
  }

  it('are told as sockets are, with a URL that says so, and are the same otherwise', () => {
    const { told, http, open, Tapped } = setUp();
    new Tapped('ws://host/session', []);
    const { wire, connection } = open();
    expect(wire).toBe(connection);
    expect([http.name, http.ifSilent]).toEqual(['http', expect.any(String)]);
    connection.open();
    wire.send(request());
    connection.receive(request());
    connection.lose();
    expect(told).toEqual([
      [1, 'opening', 'ws://host/session'],
      [2, 'opening', 'https://host/session'],
      [2, 'open', undefined],
      '2 sent PING',
      'opens',
      '2 sent request',
      '2 received request',
      'handles',
      [2, 'closed', 1006],
    ]);
    expect(connection.sent).toHaveLength(2);
  });

  it('end with the code of the server, else with that of the client, which nothing repeats over HTTP', () => {
    const { told, open } = setUp();
    for (const code of [1006, 4409]) {
      const { wire, connection } = open();
      connection.open();
      wire.close(1000, 'done');
      connection.lose(code);
      expect(connection.closedWith).toBe(1000);
    }
    expect(told.filter((each) => Array.isArray(each) && each[1] === 'closed')).toEqual([
      [1, 'closed', 1000],
      [2, 'closed', 4409],
    ]);
  });

  it('are told to each class if a tapped one is tapped again', () => {
    const told: string[] = [];
    const watch = (name: string) => (event: InspectionEvent) => told.push(`${name} ${event.event}`);
    const Tapped = tap(tap(FakeSocket, watch('inner')), watch('outer'));
    const memory = new MemoryTransport({ takesHello: true }, 'http');
    const http = (Tapped as unknown as WatchingClass).watchTransport(memory);
    http.open(new URL('wss://host/session'), () => undefined, { ...EVENTS, onOpen() {} });
    expect(told.sort()).toEqual(['inner connection', 'outer connection']);
  });
});
