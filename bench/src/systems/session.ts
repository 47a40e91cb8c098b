import {
  BodyCodec,
  CloseReason,
  type CodedBody,
  createSession,
  LinkKind,
  type Message,
  resolveLimits,
  resolveTimers,
  type SessionCore,
  Subprotocol,
} from '@parlance/protocol';
import { HELLO_OFFER, HELLO_READ, resolveCapabilities, systemClock } from '@parlance/protocol/internal';
import { createServer, type ServerOptions, without } from '@parlance/server';
import { type FrameSocket, maskedFrame, Opcode } from '../load/frame-socket.js';
import { repeated } from '../load/repeated.js';
import { UNLIMITED } from '../unlimited.js';
import {
  chunksOf,
  type Serving,
  type Speaker,
  type SpeakerEvents,
  STREAM_MARK,
  type System,
  type Work,
} from './system.js';

/** The plain codec only: the session is measured, not compression. */
const CAPABILITIES = {
  algorithms: ['NONE'],
  encodings: [],
  extensions: { link: true, context: false },
} as const;

/** HELLO in the upgrade request, as our client has it. All sessions begin with the same one. */
let offers: string | undefined;
function makeOffers(): string {
  const hello = createCore().hello(systemClock.now()) as Uint8Array;
  return [Subprotocol.BINARY, HELLO_READ, HELLO_OFFER + Buffer.from(hello).toString('base64url')].join(', ');
}

/** Messages, requests and streams through the server's public API, used as documented. */
export const session: System = {
  get target() {
    offers ??= makeOffers();
    return { path: '/session', subprotocol: offers };
  },

  serve: (onEcho) => serveSessions(onEcho),

  speak(socket, work, events) {
    const core = createCore();
    core.hello(systemClock.now());
    return new SessionSpeaker(socket, work, events, core, true);
  },
};

/** @param options in addition to those that every measured session server has. */
export async function serveSessions(onEcho: () => void, options: ServerOptions = {}): Promise<Serving> {
  const answer = ({ bytes }: Message) => {
    onEcho();
    return { bytes };
  };
  async function* streamBack({ bytes }: Message) {
    for await (const chunk of chunksOf(bytes.subarray(1))) {
      yield { bytes: chunk };
      onEcho();
    }
  }
  const server = createServer({
    algorithms: CAPABILITIES.algorithms,
    encodings: CAPABILITIES.encodings,
    limits: { ...UNLIMITED, maxStreams: 1_000 },
    ...options,
    features: [without('context'), ...(options.features ?? [])],
    async onSession(session) {
      for await (const message of session) {
        await session.send(message.bytes);
        onEcho();
      }
    },
    onRequest: (request) => (request.bytes[0] === STREAM_MARK ? streamBack(request) : answer(request)),
  });
  const { port } = await server.listen();
  return { port, count: () => server.sessions.size };
}

const MESSAGE_FIRST_BYTE = 0x10 | LinkKind.MESSAGE;

const limits = resolveLimits({ ...UNLIMITED, maxStreams: Infinity });
const capabilities = resolveCapabilities(CAPABILITIES, limits);
const timers = resolveTimers();

/** The client's end of a session. */
export function createCore(): SessionCore {
  return createSession({
    role: 'client',
    subprotocol: Subprotocol.BINARY,
    capabilities,
    limits,
    timers,
    timeOrigin: systemClock.timeOrigin,
  });
}

/**
 * The protocol core over the raw socket, so that everything that a session demands of a client is really
 * done. The promises and iterators of the client API are left out; they would make the load the slower end.
 * The frames of one-way messages are identical, so the core's frame is masked once and then repeated.
 */
export class SessionSpeaker implements Speaker {
  readonly #core: SessionCore;
  readonly #socket: FrameSocket;
  readonly #work: Work;
  readonly #events: SpeakerEvents;
  readonly #body: CodedBody;
  readonly #isSaid: boolean;
  /** Length of a one-way message's frame, and the frame repeated as often as needed. */
  #frameLength = 0;
  #frames: ((count: number) => Uint8Array) | undefined;

  /**
   * @param core a new one, or one whose session the connection resumes.
   * @param isSaid the HELLO of `core` was in the upgrade request.
   */
  constructor(socket: FrameSocket, work: Work, events: SpeakerEvents, core: SessionCore, isSaid = false) {
    this.#isSaid = isSaid;
    this.#socket = socket;
    this.#work = work;
    this.#events = events;
    this.#core = core;
    const { question } = work;
    this.#body = {
      codec: BodyCodec.PLAIN,
      bytes: question,
      originalLength: question.length,
      secret: false,
      metadata: undefined,
    };
  }

  handleOpen(): void {
    this.#core.handleConnected(systemClock.now(), undefined, this.#isSaid);
    this.#transmit();
  }

  handleFrame(opcode: number, payload: Uint8Array): void {
    if (opcode !== Opcode.BINARY) throw new Error(`a session server sent opcode ${opcode}`);
    this.#core.handleMessage(payload, systemClock.now());
    this.#takeEvents();
  }

  /** Sends acknowledgements and credit, and the frames that waited for the server's credit. */
  handleBatch(): void {
    this.#transmit();
  }

  handleTick(): void {
    const now = systemClock.now();
    if (now < this.#core.nextTimeout()) return;
    this.#core.handleTimeout(now);
    this.#takeEvents();
    this.#transmit();
  }

  ask(count: number): void {
    const isMessage = this.#work.exchange === 'message';
    for (let i = 0; i < count; i++) {
      if (isMessage) this.#core.channel.send(this.#body);
      else this.#core.channel.request(this.#body);
    }
    this.#transmit();
  }

  close(): void {
    this.#core.close(CloseReason.CLIENT_SHUTDOWN, '', systemClock.now());
    this.#transmit();
  }

  #takeEvents(): void {
    for (let event = this.#core.pollEvent(); event !== undefined; event = this.#core.pollEvent()) {
      switch (event.type) {
        case 'message':
        case 'response':
          this.#core.channel.consume(event.type === 'message' ? 0 : event.streamId, event.body.charge);
          this.#events.onEcho(event.body.bytes);
          break;
        case 'part':
          this.#core.channel.consume(event.streamId, event.body.charge);
          this.#events.onChunk(event.body.bytes);
          break;
        case 'end':
          this.#events.onEnd();
          break;
        case 'state':
          if (event.state === 'established') this.#events.onReady();
          break;
        case 'failure':
          throw event.error;
        case 'ended':
          if (event.error !== undefined) throw event.error;
          break;
        case 'disconnect':
          this.#socket.close();
          break;
      }
    }
  }

  #transmit(): void {
    let alike = 0;
    for (let frame = this.#core.pollTransmit(); frame !== undefined; frame = this.#core.pollTransmit()) {
      if (typeof frame === 'string') throw new Error('the binary subprotocol has no text frames');
      if (this.#isRepeated(frame)) {
        alike++;
        continue;
      }
      this.#writeRepeated(alike);
      alike = 0;
      this.#socket.write(maskedFrame(Opcode.BINARY, frame));
    }
    this.#writeRepeated(alike);
    // Writing CLOSE may be the last thing to do.
    if (this.#core.hasEvents) this.#takeEvents();
  }

  /** One-way messages are the only frames of their kind here, and always hold the same bytes. */
  #isRepeated(frame: Uint8Array): boolean {
    if (frame[0] !== MESSAGE_FIRST_BYTE) return false;
    if (this.#frames === undefined) {
      this.#frameLength = frame.length;
      this.#frames = repeated(maskedFrame(Opcode.BINARY, frame), this.#work.depth);
    }
    return frame.length === this.#frameLength;
  }

  #writeRepeated(count: number): void {
    if (this.#frames !== undefined && count > 0) this.#socket.write(this.#frames(count));
  }
}
