import { type Exchange, type Speaker, STREAM_MARK, type System, type Work } from '../systems/system.js';
import { FrameSocket } from './frame-socket.js';

export interface CrowdOptions {
  readonly port: number;
  readonly connections: number;
  /** Bytes per message. */
  readonly size: number;
  /** Messages, requests or streams in flight per connection. */
  readonly depth: number;
  readonly exchange: Exchange;
}

/** Connections that each keep a fixed number of messages in flight. */
export interface Crowd {
  /** Echoes and chunks received. */
  readonly echoes: number;
  start(): void;
  /** Resolves when everything in flight has come back. */
  stop(): Promise<void>;
  close(): Promise<void>;
}

/** Connections that are opened at the same time. */
const OPENING = 32;
/** A connection that takes longer to close is cut. */
const CLOSE_TIMEOUT_MS = 2000;
const TICK_MS = 50;

/** Opens all connections, each ready to send. */
export async function openCrowd(system: System, options: CrowdOptions): Promise<Crowd> {
  const { connections, port, size, depth, exchange } = options;
  // Valid UTF-8 without repetitions, the same in every run.
  const payload = Uint8Array.from({ length: size }, (_, i) => 32 + ((i * 31 + (i >> 3)) % 95));
  const question = exchange === 'stream' ? Uint8Array.of(STREAM_MARK, ...payload) : payload;
  const work = { exchange, question, payload, depth };
  const members: Member[] = [];
  const crowd = { echoes: 0, underWay: 0, isRunning: false, onIdle: () => {} };

  const open = () =>
    new Promise<void>((resolve, reject) => {
      members.push(new Member(system, port, work, crowd, { resolve, reject }));
    });
  const opener = async () => {
    while (members.length < connections) await open();
  };
  await Promise.all(Array.from({ length: Math.min(OPENING, connections) }, opener));
  const ticks = setInterval(() => {
    for (const member of members) member.speaker.handleTick?.();
  }, TICK_MS);

  return {
    get echoes() {
      return crowd.echoes;
    },
    start() {
      crowd.isRunning = true;
      for (const member of members) member.ask(depth);
    },
    async stop() {
      crowd.isRunning = false;
      if (crowd.underWay > 0) {
        await new Promise<void>((resolve) => {
          crowd.onIdle = resolve;
        });
      }
    },
    async close() {
      clearInterval(ticks);
      const timer = setTimeout(() => {
        for (const member of members) member.socket.destroy();
      }, CLOSE_TIMEOUT_MS);
      await Promise.all(members.map((member) => member.close()));
      clearTimeout(timer);
    },
  };
}

interface Opened {
  readonly resolve: () => void;
  readonly reject: (error: Error) => void;
}

interface Shared {
  echoes: number;
  underWay: number;
  isRunning: boolean;
  onIdle: () => void;
}

class Member {
  readonly socket: FrameSocket;
  readonly speaker: Speaker;
  readonly #crowd: Shared;
  readonly #closed: Promise<void>;
  #isClosing = false;
  /** Echoes and chunks of the current batch, and answers that it completes. */
  #arrived = 0;
  #completed = 0;

  constructor(system: System, port: number, work: Work, crowd: Shared, opened: Opened) {
    this.#crowd = crowd;
    const { payload } = work;
    let isReady = false;
    let isProved = false;
    const onReady = () => {
      isReady = true;
      opened.resolve();
    };
    const onChunk = (echo: Uint8Array) => {
      // Every length is checked, but the bytes only once per connection: comparing them all would dominate
      // the load.
      if (echo.length !== payload.length || (!isProved && Buffer.compare(echo, payload) !== 0))
        throw new Error('the echo differs from what was sent');
      isProved = true;
      this.#arrived++;
    };
    const onEnd = () => {
      this.#completed++;
    };
    const onEcho = (echo: Uint8Array) => {
      onChunk(echo);
      onEnd();
    };
    let onClosed = () => {};
    this.#closed = new Promise((resolve) => {
      onClosed = resolve;
    });
    this.socket = new FrameSocket(
      { port, ...system.target },
      {
        onOpen: () => this.speaker.handleOpen(),
        onFrame: (opcode, frame) => this.speaker.handleFrame(opcode, frame),
        onBatch: () => this.#handleBatch(),
        onClose: (error) => {
          onClosed();
          if (this.#isClosing) return;
          const failure = new Error('a connection was lost', { cause: error });
          // Losing one connection makes the whole run worthless, so this ends the process.
          if (isReady) throw failure;
          opened.reject(failure);
        },
      },
    );
    this.speaker = system.speak(this.socket, work, { onReady, onEcho, onChunk, onEnd });
  }

  ask(count: number): void {
    this.#crowd.underWay += count;
    this.socket.cork();
    this.speaker.ask(count);
    this.socket.uncork();
  }

  async close(): Promise<void> {
    this.#isClosing = true;
    this.speaker.close();
    await this.#closed;
  }

  /** Sends as many new requests as the batch has answers, in one system call. */
  #handleBatch(): void {
    const count = this.#completed;
    this.#crowd.echoes += this.#arrived;
    this.#crowd.underWay -= count;
    this.#arrived = 0;
    this.#completed = 0;
    this.socket.cork();
    if (count > 0 && this.#crowd.isRunning) this.ask(count);
    this.speaker.handleBatch?.();
    this.socket.uncork();
    if (this.#crowd.underWay === 0) this.#crowd.onIdle();
  }
}
