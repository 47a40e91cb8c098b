import { accepted, fail, holds, Mismatch, outcomeOf, same } from '../expect.js';
import {
  Algorithm,
  type BodyCoder,
  CloseCode,
  CloseReason,
  type ControlMessage,
  createBodyCoder,
  createMessage,
  createSession,
  DEFAULT_TIMERS,
  EncodingName,
  encodeControl,
  encodeControlJson,
  getEncoding,
  LinkCodec,
  ProtocolError,
  type ReceivedBody,
  type SessionCore,
  type SessionEvent,
  type SessionOptions,
  Subprotocol,
} from '../subject.js';
import { seedsFrom } from './seeds.js';
import { bytesOfText, FUZZ_LIMITS, JSON_TOKENS, type Target, textOf } from './target.js';

/**
 * A whole session core, driven by a script: the first byte sets it up, then come records of an
 * operation, a length of two bytes (little-endian) and that many bytes. What a peer sends may end a
 * session in any way; no call may throw because of it, and none may go on for ever.
 */

const SetUp = { CLIENT: 0x01, JSON: 0x02, ESTABLISHED: 0x04, LINK: 0x08, RESUME: 0x10 } as const;

const Operation = {
  BINARY: 0,
  TEXT: 1,
  WAIT: 2,
  TIMEOUT: 3,
  DISCONNECT: 4,
  CONNECT: 5,
  SEND: 6,
  REQUEST: 7,
  REPLY: 8,
  CONSUME: 9,
  CLOSE: 10,
} as const;
const OPERATIONS = 11;

/** Frames and events that one operation may cause. */
const MAX_EFFECTS = 100_000;
const MAX_RECORDS = 64;

const CAPABILITIES: SessionOptions['capabilities'] = {
  algorithms: Object.values(Algorithm),
  encodings: [EncodingName.CL100K_BASE],
  vocabularies: {},
  securityScanning: false,
  maxPayloadSize: 0,
  extensions: {},
};

const HELLO: ControlMessage = {
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

function acceptOf(extensions: Readonly<Record<string, string>>): ControlMessage {
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

/** One end, its application and its clock. */
class Driver {
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

  /** Goes to where the next thing is due. */
  timeOut(): void {
    const next = this.core.nextTimeout();
    holds(!Number.isNaN(next), 'the next timeout is no number');
    if (next !== Infinity) this.wait(Math.max(0, next - this.#now));
  }

  disconnect(code: number): void {
    this.do(() => this.core.handleDisconnected(code, 'cut', this.#now));
  }

  connect(): void {
    if (this.core.state === 'suspended') this.do(() => this.core.handleConnected(this.#now));
  }

  /** What the application does may be refused, as its session may be over. */
  command(run: () => void): void {
    outcomeOf(run);
    this.do(() => {});
  }

  consume(): void {
    for (const { streamId, body } of this.#received.splice(0)) {
      this.do(() => this.core.consume(streamId, body.charge));
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
    holds(this.core.queuedBytes >= 0, 'fewer bytes than none are queued');
    holds(this.core.openStreams <= 2 * FUZZ_LIMITS.maxStreams, 'more streams are open than are allowed');
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

  /** All that an application can ask of a message. */
  #read(body: ReceivedBody): void {
    const message = createMessage(body, this.#coder);
    for (const ask of ['bytes', 'text', 'tokens', 'header', 'tensor', 'metadata'] as const) {
      outcomeOf(() => message[ask]);
    }
    outcomeOf(() => message.json());
  }
}

function reply(core: SessionCore, streamId: number, kind: number): void {
  switch (kind % 5) {
    case 0:
      return core.respond(streamId, PLAIN);
    case 1:
      return core.chunk(streamId, PLAIN);
    case 2:
      return core.end(streamId);
    case 3:
      return core.fail(streamId, new ProtocolError('internal', 'failed'));
    default:
      return core.cancel(streamId);
  }
}

const PLAIN = {
  codec: LinkCodec.PLAIN,
  bytes: bytesOfText('pong'),
  originalLength: 4,
  secret: false,
  metadata: undefined,
};

function play(script: Uint8Array): boolean {
  const driver = new Driver(script[0] ?? 0);
  let at = 1;
  for (let records = 0; at + 3 <= script.length && records < MAX_RECORDS; records++) {
    const operation = (script[at] as number) % OPERATIONS;
    const length = (script[at + 1] as number) | ((script[at + 2] as number) << 8);
    const payload = script.slice(at + 3, at + 3 + length);
    at += 3 + length;
    step(driver, operation, payload);
  }
  const refused = driver.core.state === 'closed';
  // Whatever happened, time ends it.
  for (let i = 0; i < 100 && driver.core.nextTimeout() !== Infinity; i++) driver.timeOut();
  return refused;
}

function step(driver: Driver, operation: number, payload: Uint8Array): void {
  switch (operation) {
    case Operation.BINARY:
      return driver.receive(payload);
    case Operation.TEXT:
      return driver.receive(textOf(payload));
    case Operation.WAIT:
      return driver.wait((payload[0] ?? 1) * 100);
    case Operation.TIMEOUT:
      return driver.timeOut();
    case Operation.DISCONNECT:
      return driver.disconnect(payload.length % 2 === 0 ? CloseCode.ABNORMAL : CloseCode.NORMAL);
    case Operation.CONNECT:
      return driver.connect();
    case Operation.SEND:
      return driver.command(() => driver.core.send(PLAIN));
    case Operation.REQUEST:
      return driver.command(() => driver.core.request(PLAIN));
    case Operation.REPLY:
      return driver.command(() => reply(driver.core, payload[0] ?? 1, payload[1] ?? 0));
    case Operation.CONSUME:
      return driver.consume();
    case Operation.CLOSE:
      return driver.close();
    default:
      return fail(`there is no operation ${operation}`);
  }
}

function record(operation: number, payload: Uint8Array = new Uint8Array(0)): number[] {
  return [operation, payload.length & 0xff, payload.length >> 8, ...payload];
}

function script(setUp: number, ...records: readonly number[][]): Uint8Array {
  return Uint8Array.from([setUp, ...records.flat()]);
}

const hex = (text: string) => new Uint8Array(Buffer.from(text, 'hex'));
const PING = { type: 'PING', sessionId: 's', timestamp: 1, payload: {} } as const;
const CLOSE = {
  type: 'CLOSE',
  sessionId: 's',
  timestamp: 1,
  payload: { reason: CloseReason.NORMAL, message: '' },
} as const;
const LINKED = SetUp.ESTABLISHED | SetUp.LINK;

function seeds(): Uint8Array[] {
  const link = [
    '10000068656c6c6f',
    '1101007b7d',
    '110110',
    '130100',
    '1401',
    '1601',
    '1803',
    '190080808001',
    '1801',
  ];
  const received = record(Operation.BINARY, encodeControl(PING));
  return [
    script(0, record(Operation.BINARY, encodeControl(HELLO)), record(Operation.BINARY, encodeControl(HELLO))),
    script(SetUp.JSON, record(Operation.TEXT, bytesOfText(encodeControlJson(HELLO)))),
    script(LINKED, ...link.map((frame) => record(Operation.BINARY, hex(frame))), record(Operation.CONSUME)),
    script(
      LINKED | SetUp.CLIENT,
      record(Operation.REQUEST),
      record(Operation.BINARY, hex('1301006869')),
      record(Operation.BINARY, hex('1401')),
    ),
    script(
      LINKED,
      record(Operation.BINARY, hex('1101006869')),
      record(Operation.REPLY, Uint8Array.of(1, 1)),
      record(Operation.REPLY, Uint8Array.of(1, 2)),
    ),
    script(
      LINKED,
      record(Operation.SEND),
      record(Operation.TIMEOUT),
      received,
      record(Operation.WAIT, Uint8Array.of(255)),
    ),
    script(
      SetUp.ESTABLISHED,
      record(Operation.TEXT, bytesOfText('plain')),
      record(Operation.CLOSE),
      record(Operation.BINARY, encodeControl(CLOSE)),
    ),
    script(
      LINKED | SetUp.RESUME,
      record(Operation.SEND),
      record(Operation.DISCONNECT),
      record(Operation.CONNECT),
      received,
    ),
    script(
      LINKED | SetUp.RESUME | SetUp.CLIENT,
      record(Operation.DISCONNECT),
      record(Operation.CONNECT),
      received,
    ),
    script(LINKED | SetUp.CLIENT, record(Operation.CLOSE), record(Operation.BINARY, encodeControl(CLOSE))),
    ...seedsFrom('m2m-messages.json', 'hello', 'data', 'response').map((text) =>
      script(SetUp.JSON, record(Operation.TEXT, text)),
    ),
    ...seedsFrom('m2m-frame.json', 'encode_hex')
      .slice(0, 4)
      .map((frame) => script(SetUp.ESTABLISHED, record(Operation.BINARY, frame))),
    ...seedsFrom('avp-frame.json', 'hex')
      .slice(0, 4)
      .map((frame) => script(SetUp.ESTABLISHED, record(Operation.BINARY, frame))),
  ];
}

const session: Target = {
  name: 'session',
  tokens: [
    ...JSON_TOKENS,
    ...[
      encodeControl(HELLO),
      encodeControl(PING),
      encodeControl(CLOSE),
      encodeControl(acceptOf({ link: '{}' })),
    ],
    ...['100000', '110100', '130100', '1401', '1501', '1601', '1801', '190010', '000a', '23'].map(hex),
    ...Object.values(Operation).map((operation) => Uint8Array.from(record(operation))),
  ],
  seeds: seeds(),
  run: play,
  recheck() {
    const driver = new Driver(LINKED);
    same(driver.core.state, 'established', 'a good session');
    driver.receive(hex('10000068656c6c6f'));
    same(driver.core.state, 'established', 'a good session after a message');
    accepted(() => driver.core.send(PLAIN), 'a message');
  },
};

export const SESSION_TARGETS: readonly Target[] = [session];
