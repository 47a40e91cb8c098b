import { once } from 'node:events';
import {
  type ControlMessage,
  decodeControl,
  decodeLinkFrame,
  encodeControl,
  encodeControlJson,
  type HelloPayload,
  LinkKind,
  Subprotocol,
} from '@parlance/protocol';
import WebSocket from 'ws';

/** A client that follows no protocol, and the frames that it sends. */

/** HMAC key of the server with `security`; no attacker has it. */
export const KEY = new Uint8Array(32).fill(7);

/** Secret of the cluster; only attackers that play one of its nodes have it. */
export const CLUSTER_SECRET = 'a secret of the attacked cluster';

/** Token and principal of the neighbour. */
export const NEIGHBOUR = 'echo.neighbour';

export function varint(value: number): number[] {
  const bytes: number[] = [];
  for (; value >= 0x80; value = Math.floor(value / 0x80)) bytes.push((value % 0x80) | 0x80);
  return [...bytes, value];
}

function readVarint(bytes: Uint8Array): number {
  let value = 0;
  for (let i = 0; i < bytes.length; i++) value += ((bytes[i] as number) & 0x7f) * 2 ** (7 * i);
  return value;
}

export interface FrameParts {
  readonly stream?: number;
  readonly codec?: number;
  readonly flags?: number;
  /** Number of the receiving agent; sets ADDRESSED. */
  readonly to?: number;
  /** Size of the whole body, if this is the first of several frames. */
  readonly total?: number;
  /** Decompressed size, for a compressing codec. */
  readonly original?: number;
  /** A MessagePack map; sets META. */
  readonly meta?: Uint8Array;
}

/** A frame of kind message, request, response or chunk. */
export function bodyFrame(kind: number, body: Uint8Array | string, parts: FrameParts = {}): Buffer {
  const { stream = 0, codec = 0, to, total, original, meta } = parts;
  const flags =
    (parts.flags ?? 0) |
    (to === undefined ? 0 : 0x40) |
    (total === undefined ? 0 : 0x10) |
    (meta === undefined ? 0 : 0x80);
  return Buffer.concat([
    Uint8Array.from([
      0x10 | kind,
      ...varint(stream),
      codec | flags,
      ...(to === undefined ? [] : varint(to)),
      ...(total === undefined ? [] : varint(total)),
      ...(original === undefined ? [] : varint(original)),
      ...(meta === undefined ? [] : varint(meta.length)),
    ]),
    meta ?? new Uint8Array(0),
    Buffer.from(body as string),
  ]);
}

/** A frame of a kind without a codec. */
export function signalFrame(kind: number, id: number, rest: Uint8Array | string = ''): Buffer {
  return Buffer.concat([Uint8Array.from([0x10 | kind, ...varint(id)]), Buffer.from(rest as string)]);
}

/** Any control message, including those that our own encoder would never write. */
export function control(type: string, payload: unknown = {}, sessionId: string | null = null): Buffer {
  return Buffer.from(msgpack({ type, session_id: sessionId, timestamp: 1_700_000_000_000, payload }));
}

/** MessagePack of plain values, each in its short form. */
export function msgpack(value: unknown): Uint8Array {
  if (value === null) return Uint8Array.of(0xc0);
  if (typeof value === 'boolean') return Uint8Array.of(value ? 0xc3 : 0xc2);
  if (typeof value === 'number') return value < 128 ? Uint8Array.of(value) : numbered(0xcf, 8, value);
  if (typeof value === 'string') {
    const bytes = Buffer.from(value);
    const head = bytes.length < 32 ? Uint8Array.of(0xa0 | bytes.length) : numbered(0xdb, 4, bytes.length);
    return Buffer.concat([head, bytes]);
  }
  if (Array.isArray(value)) return Buffer.concat([numbered(0xdd, 4, value.length), ...value.map(msgpack)]);
  const entries = Object.entries(value as object);
  return Buffer.concat([
    entries.length < 16 ? Uint8Array.of(0x80 | entries.length) : numbered(0xdf, 4, entries.length),
    ...entries.flatMap(([name, each]) => [msgpack(name), msgpack(each)]),
  ]);
}

function numbered(type: number, size: 4 | 8, value: number): Uint8Array {
  const bytes = Buffer.alloc(1 + size);
  bytes[0] = type;
  if (size === 4) bytes.writeUInt32BE(value, 1);
  else bytes.writeBigUInt64BE(BigInt(value), 1);
  return bytes;
}

type Accepted = Extract<ControlMessage, { type: 'ACCEPT' }>;

export type Offer = Partial<HelloPayload>;

const WINDOW = 4 * 1024 * 1024;
const OFFER: HelloPayload = {
  shape: 'flat',
  version: '1.0',
  algorithms: ['NONE', 'BROTLI', 'M2M', 'TOKEN_NATIVE', 'TOKEN', 'DICTIONARY'],
  encodings: ['CL100K_BASE'],
  preferredEncoding: 'CL100K_BASE',
  securityScanning: false,
  maxPayloadSize: 0,
  supportsStreaming: true,
  extensions: {
    link: JSON.stringify({ max_streams: 128, message_window: WINDOW, stream_window: WINDOW }),
    resume: '{}',
  },
};
export const LINK = OFFER.extensions['link'] as string;

export function hello(offer: Offer = {}): Uint8Array {
  return encodeControl({ type: 'HELLO', sessionId: null, timestamp: 1, payload: { ...OFFER, ...offer } });
}

export interface DialOptions {
  readonly port: number;
  readonly address: string;
  readonly subprotocol?: Subprotocol;
  readonly headers?: Record<string, string>;
  /** Called with the number of bytes sent, including WebSocket headers and masks. */
  readonly onSent?: (bytes: number) => void;
}

/** One WebSocket connection. Received frames are counted, and then dropped unless `onMessage` keeps them. */
export class Peer {
  readonly socket: WebSocket;
  readonly closed: Promise<{ readonly code: number; readonly reason: string }>;
  accepted: { readonly sessionId: string; readonly payload: Accepted['payload'] } | undefined;
  received = 0;
  /** Received frames of each link kind. */
  readonly kinds = new Map<number, number>();
  /** Called with every message. */
  onMessage: (data: Buffer, isBinary: boolean) => void = () => {};
  readonly #onSent: (bytes: number) => void;
  /** How far the server's credit lets each stream be written. */
  readonly #credit = new Map<number, number>();
  #nextStream = 1;

  constructor({ port, address, subprotocol = Subprotocol.BINARY, headers, onSent = () => {} }: DialOptions) {
    this.#onSent = onSent;
    this.socket = new WebSocket(`ws://127.0.0.1:${port}/session`, [subprotocol], {
      localAddress: address,
      ...(headers && { headers }),
    });
    this.closed = new Promise((resolve) =>
      this.socket.once('close', (code, reason) => resolve({ code, reason: reason.toString() })),
    );
    this.socket.on('error', () => {});
    this.socket.on('message', (data: Buffer, isBinary) => {
      this.received += data.length;
      if (isBinary && ((data[0] as number) & 0xf0) === 0x10) {
        const { kind, streamId, rest } = decodeLinkFrame(data);
        this.kinds.set(kind, (this.kinds.get(kind) ?? 0) + 1);
        if (kind === LinkKind.CREDIT) this.#credit.set(streamId, readVarint(rest));
      }
      this.onMessage(data, isBinary);
    });
    onSent(300);
  }

  get isOpen(): boolean {
    return this.socket.readyState === WebSocket.OPEN;
  }

  /** Resolves when the upgrade is complete. @returns false if it was refused. */
  async opened(): Promise<boolean> {
    if (this.isOpen) return true;
    await Promise.race([once(this.socket, 'open').catch(() => {}), this.closed]);
    return this.isOpen;
  }

  send(data: Uint8Array | string): boolean {
    if (!this.isOpen) return false;
    this.#onSent(data.length + (data.length < 126 ? 6 : data.length < 65_536 ? 8 : 14));
    this.socket.send(data);
    return true;
  }

  /** Sends a fragment of an unfinished message. */
  fragment(data: Uint8Array): void {
    this.#onSent(data.length + 14);
    this.socket.send(data, { fin: false, binary: true });
  }

  /** Sends HELLO. @returns whether ACCEPT arrived. */
  async greet(offer: Offer, token: string): Promise<boolean> {
    if (!(await this.opened())) return false;
    const answered = new Promise<boolean>((resolve) => {
      this.onMessage = (data, isBinary) => {
        const message = isBinary && (data[0] as number) >= 0x80 ? decodeControl(data) : undefined;
        if (message?.type === 'REJECT') resolve(false);
        if (message?.type !== 'ACCEPT') return;
        const { sessionId, payload } = message as { sessionId: string; payload: Accepted['payload'] };
        this.accepted = { sessionId, payload };
        this.onMessage = () => {};
        resolve(true);
      };
    });
    this.send(hello({ ...offer, auth: { token } }));
    return Promise.race([answered, this.closed.then(() => false)]);
  }

  /** Opens a stream with a request. @returns the stream's ID. */
  request(body: Uint8Array | string, parts: FrameParts = {}): number {
    const stream = this.#nextStream;
    this.#nextStream += 2;
    this.send(bodyFrame(LinkKind.REQUEST, body, { ...parts, stream }));
    return stream;
  }

  /**
   * Sends a request with a body of any size, as fast as the server grants credit.
   *
   * @returns whether all of it was written before `isOver`.
   */
  async deliver(
    body: Uint8Array,
    parts: FrameParts,
    pieceSize: number,
    isOver: () => boolean,
  ): Promise<boolean> {
    const stream = this.#nextStream;
    this.#nextStream += 2;
    const headLength = 2 + varint(stream).length;
    let used = 16;
    for (let at = 0; at < body.length; ) {
      if (isOver() || !this.isOpen) return false;
      const room = this.creditOf(stream) - used - (at === 0 ? 32 + (parts.meta?.length ?? 0) : 0);
      const size = Math.min(pieceSize, room, body.length - at);
      if (size < Math.min(1_000, body.length - at) || this.socket.bufferedAmount > 1_000_000) {
        await new Promise((resolve) => setTimeout(resolve, 5));
        continue;
      }
      const isLast = at + size === body.length;
      const frame = bodyFrame(LinkKind.REQUEST, body.subarray(at, at + size), {
        ...(at === 0 ? parts : { codec: parts.codec ?? 0 }),
        stream,
        ...(isLast ? {} : at === 0 ? { total: body.length } : { flags: 0x10 }),
      });
      used += frame.length - headLength;
      at += size;
      this.send(frame);
    }
    return true;
  }

  /** How far the server's credit lets a stream be written, in charges since its beginning. */
  creditOf(stream: number): number {
    return this.#credit.get(stream) ?? this.#streamWindow();
  }

  /** Initial credit of a stream. */
  #streamWindow(): number {
    const link = JSON.parse(this.accepted?.payload.extensions['link'] ?? '{}') as { stream_window?: number };
    return link.stream_window ?? 16 * 1024;
  }

  /** Sends a one-way message. */
  message(body: Uint8Array | string, parts: FrameParts = {}): void {
    this.send(bodyFrame(LinkKind.MESSAGE, body, parts));
  }

  /** Stops reading. */
  stall(): void {
    this.socket.pause();
  }

  /** Cuts the connection, as a network failure does. */
  cut(): void {
    this.socket.terminate();
  }
}

/** The same in `m2m.v1.json`. */
export const helloJson = (offer: Offer, token: string): string =>
  encodeControlJson({
    type: 'HELLO',
    sessionId: null,
    timestamp: 1,
    payload: { ...OFFER, ...offer, auth: { token } },
  });
