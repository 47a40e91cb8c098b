import type { FrameSocket, FrameTarget } from '../load/frame-socket.js';

export const SYSTEM_NAMES = ['ws', 'ws+cork', 'ws+id', 'session', 'socket.io'] as const;
export type SystemName = (typeof SYSTEM_NAMES)[number];

/**
 * One-way messages that the server sends back, requests that it answers with what they hold, or requests
 * that it answers with that {@link CHUNKS} times, chunk by chunk.
 */
export type Exchange = 'message' | 'request' | 'stream';

/** The first byte of a request that is answered chunk by chunk, with what follows it; no payload begins so. */
export const STREAM_MARK = 1;
/** Chunks of the answer to one such request. */
const CHUNKS = 16;

/** Where the chunks of every system come from: one by one, as from a model. */
export async function* chunksOf(payload: Uint8Array): AsyncGenerator<Uint8Array> {
  for (let i = 0; i < CHUNKS; i++) yield payload;
}

/** A server that echoes, and how to talk to it. */
export interface System {
  /** Listens on a free port of 127.0.0.1. @param onEcho called for every message or chunk sent back. */
  serve(onEcho: () => void): Promise<Serving>;
  readonly target: Omit<FrameTarget, 'port'>;
  speak(socket: FrameSocket, work: Work, events: SpeakerEvents): Speaker;
}

export interface Serving {
  readonly port: number;
  /** Connections or sessions that are open. */
  count(): number;
}

export interface Work {
  readonly exchange: Exchange;
  /** What is sent. */
  readonly question: Uint8Array;
  /** What comes back, once or in every chunk. */
  readonly payload: Uint8Array;
  /** The most messages, requests or streams that are ever asked for at once. */
  readonly depth: number;
}

export interface SpeakerEvents {
  /** Everything that has to be said before the first message is said. */
  onReady(): void;
  /** The payload came back; it is valid during the call only. */
  onEcho(payload: Uint8Array): void;
  /** The payload came back as a chunk of an answer; it is valid during the call only. */
  onChunk(payload: Uint8Array): void;
  /** The last chunk of an answer has come. */
  onEnd(): void;
}

/** One connection's client side. */
export interface Speaker {
  handleOpen(): void;
  handleFrame(opcode: number, payload: Uint8Array): void;
  /** Everything that came with one read was handed over, and answered with new messages. */
  handleBatch?(): void;
  /** Some time has passed. */
  handleTick?(): void;
  /** Sends the payload `count` times. */
  ask(count: number): void;
  /** Takes leave in the way of this system. */
  close(): void;
}
