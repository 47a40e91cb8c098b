import {
  CloseCode,
  createSession,
  type HelloPayload,
  type SessionCore,
  type SessionOptions,
} from '@parlance/protocol';
import type { Clock } from '@parlance/protocol/internal';
import type { MemoryConnection, MemoryTransport } from './memory-transport.js';

/** The core of a server with one session, at the other end of the connections of a {@link MemoryTransport}. */
export class MemoryServer {
  readonly core: SessionCore;
  /** The HELLOs with which the session was resumed. */
  readonly hellos: HelloPayload[] = [];
  /** The first byte of each message. */
  readonly messages: number[] = [];
  readonly #transport: Pick<MemoryTransport, 'connections'>;
  readonly #options: Omit<SessionOptions, 'role'>;
  readonly #clock: Pick<Clock, 'now'>;
  /** The connection that the server reads from. */
  #present: MemoryConnection | undefined;

  constructor(
    transport: Pick<MemoryTransport, 'connections'>,
    options: Omit<SessionOptions, 'role'>,
    clock: Pick<Clock, 'now'>,
  ) {
    this.core = createSession({ ...options, role: 'server' });
    this.#transport = transport;
    this.#options = options;
    this.#clock = clock;
  }

  get present(): MemoryConnection | undefined {
    return this.#present;
  }

  /** Takes what the client has sent on `connection`, which begins with HELLO if the server does not know it yet. */
  take(connection: MemoryConnection): void {
    const { core } = this;
    const now = this.#clock.now();
    for (const frame of connection.sent.splice(0)) {
      if (connection === this.#present) core.handleMessage(frame, now);
      else if (((frame[0] as number) & 0xf0) === 0x80) this.#greet(connection, frame as Uint8Array);
    }
    for (let event = core.pollEvent(); event !== undefined; event = core.pollEvent()) {
      if (event.type === 'hello') core.accept('sess_one', now);
      if (event.type === 'message') this.messages.push(event.body.bytes[0] as number);
    }
  }

  /** Everything that the server has to say reaches `to`. */
  answer(to: MemoryConnection | undefined = this.#present): void {
    const { core } = this;
    for (let frame = core.pollTransmit(); frame !== undefined; frame = core.pollTransmit())
      to?.receive(frame);
  }

  /** Takes and answers until both ends have said all that follows at once. */
  exchange(): void {
    for (let round = 0; round < 3; round++) {
      for (const connection of this.#transport.connections) this.take(connection);
      this.answer();
    }
  }

  #greet(connection: MemoryConnection, frame: Uint8Array): void {
    const { core } = this;
    const now = this.#clock.now();
    const former = this.#present;
    this.#present = connection;
    if (former === undefined) {
      core.handleConnected(now);
      return core.handleMessage(frame, now);
    }
    const reader = createSession({ ...this.#options, role: 'server' });
    reader.handleConnected(now);
    reader.handleMessage(frame, now);
    const event = reader.pollEvent();
    if (event?.type !== 'hello' || event.hello.resume === undefined)
      throw new Error('not a HELLO that resumes');
    this.hellos.push(event.hello);
    const refusal = core.checkResume(event.hello, this.#options.subprotocol);
    if (refusal !== undefined) throw new Error(`refused: ${JSON.stringify(refusal)}`);
    core.handleDisconnected(CloseCode.ABNORMAL, '', now);
    core.resume(event.hello.resume, now);
  }
}
