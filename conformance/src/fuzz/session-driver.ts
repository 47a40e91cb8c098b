import { holds, Mismatch, outcomeOf } from '../expect.js';
import {
  Algorithm,
  type BodyCoder,
  CloseReason,
  type ControlMessage,
  createBodyCoder,
  createSession,
  DEFAULT_TIMERS,
  EncodingName,
  encodeControl,
  encodeControlJson,
  getEncoding,
  type ReceivedBody,
  ReceivedMessage,
  type SessionCore,
  type SessionEvent,
  type SessionOptions,
  Subprotocol,
} from '../subject.js';
import { FUZZ_LIMITS } from './target.js';

/** Bits that determine how a session begins. */
export const SetUp = {
  CLIENT: 0x01,
  JSON: 0x02,
  ESTABLISHED: 0x04,
  LINK: 0x08,
  RESUME: 0x10,
  CONTEXT: 0x20,
} as const;

/** The most frames and events that one call may cause. */
const MAX_EFFECTS = 100_000;

const CAPABILITIES: SessionOptions['capabilities'] = {
  algorithms: Object.values(Algorithm),
  encodings: [EncodingName.CL100K_BASE],
  vocabularies: {},
  securityScanning: false,
  maxPayloadSize: 0,
  extensions: {},
};

/** A HELLO that the server accepts. */
export const HELLO: ControlMessage = {
  type: 'HELLO',
  sessionId: null,
  timestamp: 0,
  payload: {
    shape: 'flat',
    version: '1.0',
    algorithms: CAPABILITIES.algorithms,
    encodings: CAPABILITIES.encodings,
    preferredEncoding: EncodingName.CL100K_BASE,
    securityScanning: false,
    maxPayloadSize: 0,
    supportsStreaming: true,
    extensions: {},
  },
};

/** An ACCEPT that fits {@link HELLO}. */
export function acceptOf(extensions: Readonly<Record<string, string>>): ControlMessage {
  return {
    type: 'ACCEPT',
    sessionId: 'sess_fuzz',
    timestamp: 0,
    payload: {
      shape: 'flat',
      version: '1.0',
      algorithms: CAPABILITIES.algorithms,
      encoding: EncodingName.CL100K_BASE,
      encodings: [],
      securityScanning: false,
      sessionTimeoutMs: 0,
      maxPayloadSize: 0,
      limits: {},
      extensions,
    },
  };
}

/**
 * One end of a session, with its application and its clock. A peer may end the session in any way, but no
 * call may throw because of the peer, and none may run forever.
 */
export class Driver {
  readonly core: SessionCore;
  readonly #coder: BodyCoder;
  readonly #isText: boolean;
  readonly #received: { readonly streamId: number; readonly body: ReceivedBody }[] = [];
  #now = 0;
  #isOver = false;

  constructor(setUp: number) {
    const role = setUp & SetUp.CLIENT ? 'client' : 'server';
    this.#isText = (setUp & SetUp.JSON) !== 0;
    const extensions = {
      ...(setUp & SetUp.LINK && { link: '{}' }),
      ...(setUp & SetUp.RESUME && { resume: '{}' }),
      ...(setUp & SetUp.CONTEXT && { context: '{"max_bytes":4096,"max_messages":3}' }),
    };
    this.core = createSession({
      role,
      subprotocol: this.#isText ? Subprotocol.JSON : Subprotocol.BINARY,
      capabilities: { ...CAPABILITIES, extensions },
      limits: FUZZ_LIMITS,
      timers: DEFAULT_TIMERS,
    });
    this.#coder = createBodyCoder({
      algorithms: CAPABILITIES.algorithms,
      encoding: getEncoding(EncodingName.CL100K_BASE),
      limits: FUZZ_LIMITS,
      security: undefined,
      yield: async () => {},
    });
    this.do(() => this.core.handleConnected(0));
    if (setUp & SetUp.ESTABLISHED) {
      const other =
        role === 'server' ? { ...HELLO, payload: { ...HELLO.payload, extensions } } : acceptOf(extensions);
      this.receive(
        this.#isText ? encodeControlJson(other as ControlMessage) : encodeControl(other as ControlMessage),
      );
    }
  }

  receive(message: Uint8Array | string): void {
    this.do(() => this.core.handleMessage(message, this.#now));
  }

  wait(ms: number): void {
    this.#now += ms;
    this.do(() => this.core.handleTimeout(this.#now));
  }

  /** Advances to the next timeout. */
  timeOut(): void {
    const next = this.core.nextTimeout();
    holds(!Number.isNaN(next), 'the next timeout is not a number');
    if (next !== Infinity) this.wait(Math.max(0, next - this.#now));
  }

  disconnect(code: number): void {
    this.do(() => this.core.handleDisconnected(code, 'cut', this.#now));
  }

  connect(): void {
    if (this.core.state === 'suspended') this.do(() => this.core.handleConnected(this.#now));
  }

  /** Runs a command of the application, which may be refused because the session may be over. */
  command(run: () => void): void {
    outcomeOf(run);
    this.do(() => {});
  }

  consume(): void {
    for (const { streamId, body } of this.#received.splice(0)) {
      this.do(() => this.core.channel.consume(streamId, body.charge));
    }
  }

  close(): void {
    this.do(() => this.core.close(CloseReason.NORMAL, '', this.#now));
  }

  /** Runs a call, then applies all effects. No call may throw because of a peer. */
  do(run: () => unknown): void {
    try {
      run();
      for (let i = 0; this.#drain(); i++) holds(i < MAX_EFFECTS, 'the session never comes to rest');
    } catch (error) {
      if (error instanceof Mismatch) throw error;
      throw new Mismatch(
        `a call threw because of a peer: ${error instanceof Error ? error.stack : String(error)}`,
        {
          cause: error,
        },
      );
    }
    holds(this.core.queuedBytes >= 0, 'the number of queued bytes is negative');
    holds(
      this.core.channel.openStreams <= 2 * FUZZ_LIMITS.maxStreams,
      'more streams are open than are allowed',
    );
  }

  #drain(): boolean {
    const event = this.core.pollEvent();
    if (event !== undefined) this.#handle(event);
    const frame = this.core.pollTransmit();
    return event !== undefined || frame !== undefined;
  }

  #handle(event: SessionEvent): void {
    if (event.type === 'hello') this.core.accept('sess_fuzz', this.#now);
    if (event.type === 'ended') {
      holds(!this.#isOver, 'the session ended twice');
      this.#isOver = true;
    }
    if (!('body' in event)) return;
    const streamId = 'streamId' in event ? event.streamId : 0;
    this.#received.push({ streamId, body: event.body });
    this.#read(event.body);
  }

  /** Reads everything that an application can read of a message. */
  #read(body: ReceivedBody): void {
    const message = new ReceivedMessage(body, this.#coder);
    for (const ask of ['bytes', 'text', 'tokens', 'header', 'tensor', 'metadata'] as const) {
      outcomeOf(() => message[ask]);
    }
    outcomeOf(() => message.json());
  }
}
