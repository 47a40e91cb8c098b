import type { FrameSocket, FrameTarget } from '../load/frame-socket.js';

export const SYSTEM_NAMES = ['ws', 'ws+cork', 'bound', 'ws+id', 'session', 'socket.io'] as const;
export type SystemName = (typeof SYSTEM_NAMES)[number];

/**
 * One-way messages that the server echoes, requests that it answers with their payload, or requests that it
 * answers with {@link CHUNKS} chunks of that payload.
 */
export type Exchange = 'message' | 'request' | 'stream';

/** The first byte of a request for an answer in chunks of the bytes after it; no payload begins with it. */
export const STREAM_MARK = 1;
/** Chunks of the answer to one such request. */
const CHUNKS = 16;

/** The chunks of an answer, one by one as from a model; every system uses it. */
export async function* chunksOf(payload: Uint8Array): AsyncGenerator<Uint8Array> {
  for (let i = 0; i < CHUNKS; i++) yield payload;
}

/** A server that echoes, and a client for it. */
export interface System {
  /** Listens on a free port of 127.0.0.1. @param onEcho called for every message or chunk sent back. */
  serve(onEcho: () => void): Promise<Serving>;
  readonly target: Omit<FrameTarget, 'port'>;
  speak(socket: FrameSocket, work: Work, events: SpeakerEvents): Speaker;
}

export interface Serving {
  readonly port: number;
  /** Open connections or sessions. */
  count(): number;
}

export interface Work {
  readonly exchange: Exchange;
  /** The request. */
  readonly question: Uint8Array;
  /** The expected answer, whole or in every chunk. */
  readonly payload: Uint8Array;
  /** The most messages, requests or streams that are ever in flight. */
  readonly depth: number;
}

export interface SpeakerEvents {
  /** The connection is ready for the first message. */
  onReady(): void;
  /** The payload came back; it is valid during the call only. */
  onEcho(payload: Uint8Array): void;
  /** The payload came back as a chunk of an answer; it is valid during the call only. */
  onChunk(payload: Uint8Array): void;
  /** The last chunk of an answer has arrived. */
  onEnd(): void;
}

/** The client side of one connection. */
export interface Speaker {
  handleOpen(): void;
  handleFrame(opcode: number, payload: Uint8Array): void;
  /** All frames of one read were handled, and answered with new messages. */
  handleBatch?(): void;
  /** Called now and then. */
  handleTick?(): void;
  /** Sends the payload `count` times. */
  ask(count: number): void;
  /** Closes the connection in the way of this system. */
  close(): void;
}
