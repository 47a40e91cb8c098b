import type { FrameSocket, FrameTarget } from '../load/frame-socket.js';

export const SYSTEM_NAMES = ['ws', 'ws+cork', 'session', 'socket.io'] as const;
export type SystemName = (typeof SYSTEM_NAMES)[number];

/** One-way messages that the server sends back, or requests that it answers with what they hold. */
export type Exchange = 'message' | 'request';

/** A server that echoes, and how to talk to it. */
export interface System {
  /** Listens on a free port of 127.0.0.1. @param onEcho called for every message sent back. */
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
  readonly payload: Uint8Array;
  /** The most that is ever asked for at once. */
  readonly depth: number;
}

export interface SpeakerEvents {
  /** Everything that has to be said before the first message is said. */
  onReady(): void;
  /** The payload came back; it is valid during the call only. */
  onEcho(payload: Uint8Array): void;
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
