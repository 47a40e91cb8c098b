import { holds, Mismatch } from '../expect.js';
import {
  AgreementCache,
  Algorithm,
  BodyCodec,
  CloseCode,
  type ControlMessage,
  createSession,
  DEFAULT_TIMERS,
  Directory,
  EncodingName,
  type Logger,
  ManualClock,
  Policy,
  Relay,
  ServerEndpoint,
  type SessionCore,
  type SessionEvent,
  Subprotocol,
} from '../subject.js';
import { bytesOfText, FUZZ_LIMITS } from './target.js';

/**
 * A server's sessions with its relay, and three agents: two that follow the protocol, and one whose frames
 * come from elsewhere. Everything runs within one call, without sockets; only the server's microtasks run
 * later.
 */

export const STRANGER = 'stranger';
/** The agents that follow the protocol. */
export const AGENTS = ['ada', 'bob'] as const;
export type AgentName = (typeof AGENTS)[number];

/** The most steps until everything is idle. */
const MAX_STEPS = 10_000;
/** The most bytes that may wait at the server for one session: windows of the others, and their messages. */
const MAX_QUEUED = 4 * (FUZZ_LIMITS.sessionWindow + 2 * FUZZ_LIMITS.maxMessageSize);

const EXTENSIONS = { link: '{}', agents: '{}' };
const CAPABILITIES = {
  algorithms: [Algorithm.TOKEN_NATIVE, Algorithm.BROTLI, Algorithm.NONE],
  encodings: [EncodingName.CL100K_BASE],
  vocabularies: {},
  securityScanning: false,
  maxPayloadSize: 0,
  extensions: EXTENSIONS,
};

/** The HELLO of {@link STRANGER}. Its algorithms differ from those of the others, so bodies are recoded. */
export const STRANGERS_HELLO: ControlMessage = {
  type: 'HELLO',
  sessionId: null,
  timestamp: 0,
  payload: {
    shape: 'flat',
    version: '1.0',
    algorithms: [Algorithm.M2M, Algorithm.TOKEN_NATIVE, Algorithm.NONE],
    encodings: [EncodingName.CL100K_BASE],
    preferredEncoding: EncodingName.CL100K_BASE,
    securityScanning: false,
    maxPayloadSize: 0,
    supportsStreaming: true,
    extensions: EXTENSIONS,
  },
};

export function createClient(): SessionCore {
  return createSession({
    role: 'client',
    subprotocol: Subprotocol.BINARY,
    capabilities: CAPABILITIES,
    limits: FUZZ_LIMITS,
    timers: DEFAULT_TIMERS,
  });
}

export const PLAIN = {
  codec: BodyCodec.PLAIN,
  bytes: bytesOfText('ping'),
  originalLength: 4,
  secret: false,
  metadata: undefined,
};

/** Shared by all sessions, as in a server: most clients make the same offer. */
const agreements = new AgreementCache();
/** An internal error counts as a failure even if a guard contained it. */
const FAULTS: readonly unknown[] = ['session.crashed', 'relay.failed'];

/** The server's side of a connection. */
class FakeWire {
  bufferedAmount = 0;
  closed: number | undefined;
  readonly sent: (Uint8Array | string)[] = [];

  send(frame: Uint8Array | string): void {
    // Copies, because the session reuses this memory.
    this.sent.push(typeof frame === 'string' ? frame : frame.slice());
  }
  close(code: number): void {
    this.closed ??= code;
  }
}

interface Party {
  readonly session: ServerEndpoint;
  wire: FakeWire | undefined;
  /** The core of an agent that follows the protocol. */
  readonly client: SessionCore | undefined;
  readonly heard: string[];
}

export interface RelayBenchOptions {
  /** Receives the server's frames to the stranger. @default they are dropped */
  readonly onStranger?: ((frame: Uint8Array | string) => void) | undefined;
}

export class RelayBench {
  readonly #onStranger: RelayBenchOptions['onStranger'];
  readonly #faults: unknown[] = [];
  readonly #logger: Logger = {
    debug() {},
    info() {},
    warn() {},
    error: (fields) => {
      if (FAULTS.includes(fields['event'])) this.#faults.push(fields);
    },
  };
  readonly #clock = new ManualClock();
  readonly #directory: Directory;
  readonly #relay: Relay;
  readonly #parties = new Map<string, Party>();
  #sessions = 0;

  constructor({ onStranger }: RelayBenchOptions = {}) {
    this.#onStranger = onStranger;
    const policy = new Policy({}, this.#logger);
    this.#directory = new Directory({
      onConflict: 'takeOver',
      key: new Uint8Array(32),
      policy,
      limits: FUZZ_LIMITS,
      clock: this.#clock,
      logger: this.#logger,
    });
    this.#relay = new Relay(this.#directory, policy, this.#logger);
    for (const name of AGENTS) this.#join(name, createClient());
    this.#join(STRANGER, undefined);
    this.settle();
  }

  /** The time on the clock that all parties share. */
  get now(): number {
    return this.#clock.now();
  }

  /** Whether the stranger's session has a connection. */
  get isConnected(): boolean {
    return this.#party(STRANGER).wire !== undefined;
  }

  /** Whether the stranger's session continues. */
  get isOpen(): boolean {
    return !this.#party(STRANGER).session.hasEnded;
  }

  /** Sends a frame of the stranger. */
  say(message: Uint8Array | string): void {
    const { session, wire } = this.#party(STRANGER);
    if (wire !== undefined) this.do(() => session.handleMessage(message, wire));
  }

  /** Makes the stranger's connection accept no more data, or accept it again. */
  stall(isStalled: boolean): void {
    const { session, wire } = this.#party(STRANGER);
    if (wire === undefined) return;
    wire.bufferedAmount = isStalled ? Number.MAX_SAFE_INTEGER : 0;
    this.do(() => session.handleWritable());
  }

  cut(): void {
    const party = this.#party(STRANGER);
    const { session, wire } = party;
    party.wire = undefined;
    if (wire !== undefined) this.do(() => session.handleDisconnected(CloseCode.ABNORMAL, 'cut', wire));
  }

  /** Replaces the stranger's session by another one. */
  takeOver(): void {
    this.do(() => this.#join(STRANGER, undefined));
  }

  wait(ms: number): void {
    this.do(() => {
      this.#clock.pass(ms);
      for (const { session, client } of this.#parties.values()) {
        session.handleTick();
        if (client !== undefined && client.nextTimeout() <= this.#clock.now())
          client.handleTimeout(this.#clock.now());
      }
    });
  }

  /** Runs a command of an agent that follows the protocol; it may be refused. */
  command(name: AgentName, command: (core: SessionCore) => void): void {
    this.do(() => command(this.#party(name).client as SessionCore));
  }

  /** Returns what an agent has received since the last call. */
  heard(name: AgentName): readonly string[] {
    return this.#party(name).heard.splice(0);
  }

  /** Runs a call and all that follows from it. No call may throw because of a peer. */
  do(call: () => void): void {
    try {
      call();
      this.settle();
    } catch (error) {
      if (error instanceof Mismatch) throw error;
      const shown = error instanceof Error ? error.stack : String(error);
      throw new Mismatch(`a call threw because of a peer: ${shown}`, { cause: error });
    }
    const [fault] = this.#faults;
    holds(fault === undefined, `a session contained an internal error: ${JSON.stringify(fault)}`);
    for (const name of AGENTS) {
      const { session, client } = this.#party(name);
      holds(session.state === 'established', `${name}'s session is ${session.state}`);
      holds(client?.state === 'established', `${name} is ${client?.state}`);
    }
    for (const [name, { session }] of this.#parties) {
      const { queuedBytes } = session.core;
      holds(queuedBytes >= 0 && queuedBytes <= MAX_QUEUED, `${queuedBytes} bytes wait for ${name}`);
    }
  }

  settle(): void {
    for (let step = 0; this.#step(); step++) holds(step < MAX_STEPS, 'the relay never comes to rest');
  }

  /** Moves everything one step. Returns whether anything moved. */
  #step(): boolean {
    let moved = false;
    for (const party of this.#parties.values()) {
      const { session, wire, client } = party;
      // The relay does its work for other sessions in microtasks.
      if (!session.hasEnded) session.pump();
      for (const frame of wire?.sent.splice(0) ?? []) {
        moved = true;
        if (client !== undefined) client.handleMessage(frame, this.#clock.now());
        else this.#onStranger?.(frame);
      }
      if (client !== undefined) moved = this.#run(party, client) || moved;
      if (wire?.closed === undefined) continue;
      party.wire = undefined;
      session.handleDisconnected(wire.closed, '', wire);
      moved = true;
    }
    return moved;
  }

  /** Runs an agent: answers requests, reads everything, and writes what is pending. */
  #run({ session, wire, heard }: Party, client: SessionCore): boolean {
    let moved = false;
    for (let event = client.pollEvent(); event !== undefined; event = client.pollEvent()) {
      moved = true;
      this.#handle(client, event, heard);
    }
    for (let frame = client.pollTransmit(); frame !== undefined; frame = client.pollTransmit()) {
      moved = true;
      session.handleMessage(typeof frame === 'string' ? frame : frame.slice(), wire);
    }
    return moved;
  }

  #handle(client: SessionCore, event: SessionEvent, heard: string[]): void {
    if ('body' in event) {
      const streamId = 'streamId' in event ? event.streamId : 0;
      client.channel.consume(streamId, event.body.charge);
      heard.push(`${event.type} ${event.body.address ?? ''} ${Buffer.from(event.body.bytes).toString()}`);
      if (event.type === 'request') client.channel.respond(streamId, PLAIN);
    }
    if (event.type === 'piece') {
      const { bytes, charge, offset, totalLength, address: agent } = event.piece;
      if (agent !== undefined) heard.push(`tensor ${agent}`);
      client.channel.consume(event.streamId, charge);
      if (offset + bytes.length === totalLength)
        client.channel.respond(event.streamId, { ...PLAIN, bytes: new Uint8Array(0), originalLength: 0 });
    }
    if (event.type === 'failure') heard.push(`failure ${event.error.code}`);
    if (event.type === 'cancel') client.channel.end(event.streamId);
  }

  #join(name: string, client: SessionCore | undefined): void {
    const id = `sess_${String(this.#sessions++).padStart(20, '0')}`;
    const wire = new FakeWire();
    const core = createSession({
      role: 'server',
      subprotocol: Subprotocol.BINARY,
      capabilities: {
        ...CAPABILITIES,
        algorithms: Object.values(Algorithm),
        extensions: { ...EXTENSIONS, resume: '{}' },
      },
      limits: FUZZ_LIMITS,
      timers: DEFAULT_TIMERS,
      agreements,
    });
    const session: ServerEndpoint = new ServerEndpoint({
      core,
      clock: this.#clock,
      limits: FUZZ_LIMITS,
      role: 'server',
      logger: this.#logger,
      route: {
        take: (event, reservation) => this.#relay.take(session, event, reservation),
        memoryOf: (event) => this.#relay.memoryOf(session, event),
        refuse: (streamId, error) => this.#relay.refuse(session, streamId, error),
        isRelayed: (streamId) => this.#relay.isRelayed(session, streamId),
        handleRebuilt: (confirmed) => this.#relay.handleRebuilt(session, confirmed),
      },
      onHello: ({ hello }) => {
        const admitted = this.#directory.admit(session, hello.extensions);
        if (admitted !== undefined && 'accepted' in admitted) admitted.accepted(session);
        core.accept(id, this.#clock.now(), { agentId: name });
      },
      onReady: () => this.#directory.join(session),
      onEnded: () => {
        this.#directory.leave(session);
        this.#relay.handleEnded(session);
      },
    });
    session.principal = 'fuzz';
    session.agentId = name;
    this.#parties.set(name, { session, wire, client, heard: [] });
    session.handleConnected(wire);
    client?.handleConnected(this.#clock.now());
  }

  #party(name: string): Party {
    return this.#parties.get(name) as Party;
  }
}
