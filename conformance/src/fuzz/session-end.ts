import { holds, Mismatch, outcomeOf } from '../expect.js';
import {
  type BodyCoder,
  type BodyToSend,
  createBodyCoder,
  createSession,
  DEFAULT_TIMERS,
  getEncoding,
  type ProtocolError,
  type ReceivedBody,
  ReceivedMessage,
  RequestError,
  type SessionCore,
  type SessionEvent,
  type SessionOptions,
} from '../subject.js';
import type { Choices } from './choices.js';
import type { Offer } from './offers.js';

const CHAT = JSON.stringify({
  model: 'gpt-4o',
  messages: [{ role: 'user', content: 'What travels here, and what did it cost?' }],
});
const CONTENTS: readonly (string | Uint8Array)[] = [
  'ping',
  '',
  CHAT,
  CHAT.replace('travels', 'is said'),
  'Größe 👩‍👩‍👧 und so weiter. '.repeat(4),
  Uint8Array.of(0xff, 0, 1, 2, 3),
  'a longer text '.repeat(40),
];
/** Names that usually no agent has. */
const AGENTS = Array.from({ length: 48 }, (_, i) => `agent-${i}`);
/** Requests that wait for this end's answer; with more of them it answers before it sends new ones. */
const MAX_WAITING = 6;
const TENSOR = new Uint8Array(900);

/** Runs a call that must not throw because of a peer. */
export function unthrown<T>(run: () => T): T {
  try {
    return run();
  } catch (error) {
    if (error instanceof Mismatch) throw error;
    const shown = error instanceof Error ? error.stack : String(error);
    throw new Mismatch(`a call threw because of a peer: ${shown}`, { cause: error });
  }
}

/** A session core and an application that uses all of it, as far as its peer permits. */
export class SessionEnd {
  readonly core: SessionCore;
  readonly offer: Offer;
  readonly #choices: Choices;
  readonly #onHello: (core: SessionCore) => void;
  /** The agents that it sends to, if it may. */
  agents: readonly string[] = AGENTS;
  readonly #unread: { readonly streamId: number; readonly charge: number }[] = [];
  /** Requests of the peer that are not answered completely. */
  readonly #asked = new Set<number>();
  readonly #asking: number[] = [];
  readonly #transfers = new Map<number, number>();
  #coder: BodyCoder | undefined;
  #hasAgents = false;
  failure: ProtocolError | undefined;
  /** The code with which to close the connection. */
  closeCode: number | undefined;
  hasEnded = false;

  constructor(
    role: SessionOptions['role'],
    subprotocol: SessionOptions['subprotocol'],
    offer: Offer,
    choices: Choices,
    onHello: (core: SessionCore) => void,
  ) {
    this.offer = offer;
    this.#choices = choices;
    this.#onHello = onHello;
    const { capabilities, limits } = offer;
    this.core = createSession({ role, subprotocol, capabilities, limits, timers: DEFAULT_TIMERS });
  }

  /** Handles the core's events. Returns whether there were any. */
  takeEvents(): boolean {
    const before = this.core.hasEvents;
    for (;;) {
      const event = unthrown(() => this.core.pollEvent());
      if (event === undefined) return before;
      this.#handle(event);
    }
  }

  /** Reads everything that has arrived. */
  takeAll(): void {
    unthrown(() => this.#consume(this.#unread.length));
  }

  /**
   * A random action of the application, which may be refused.
   *
   * @param asking weight of a request, if that of a message is 8.
   */
  act(asking: number): void {
    const { core } = this;
    if (core.state !== 'established' && core.state !== 'suspended') return;
    const asks = this.#asked.size < MAX_WAITING;
    const action = this.#choices.weighted<() => void>([
      [8, () => core.channel.send(this.#body(true))],
      [asks ? asking : 1, () => void this.#asking.push(core.channel.request(this.#body(true)))],
      [this.#asked.size > 0 ? 24 : 0, () => this.#reply()],
      [2, () => this.#cancel()],
      [1, () => this.#transfer()],
      [this.#transfers.size > 0 ? 2 : 0, () => this.#feed()],
      [8, () => this.#consume(this.#choices.below(4) + 1)],
      [2, () => this.#consume(this.#unread.length)],
    ]);
    // The core refuses what the application may not do.
    outcomeOf(action);
  }

  #handle(event: SessionEvent): void {
    if (event.type === 'hello') unthrown(() => this.#onHello(this.core));
    if (event.type === 'ended') {
      holds(!this.hasEnded, 'the session ended twice');
      this.hasEnded = true;
      this.failure = event.error;
    }
    if (event.type === 'disconnect') this.closeCode ??= event.closeCode;
    if (event.type === 'request') this.#asked.add(event.streamId);
    if (event.type === 'cancel') {
      this.#asked.delete(event.streamId);
      unthrown(() => this.core.channel.end(event.streamId));
    }
    if (event.type === 'piece') {
      const { charge, offset, bytes, totalLength } = event.piece;
      this.#unread.push({ streamId: event.streamId, charge });
      if (offset + bytes.length === totalLength) this.#asked.add(event.streamId);
    }
    if ('body' in event) {
      const streamId = 'streamId' in event ? event.streamId : 0;
      this.#unread.push({ streamId, charge: event.body.charge });
      this.#read(event.body);
    }
  }

  /** Reads everything that an application can read of a message. */
  #read(body: ReceivedBody): void {
    const coder = this.#coderOf();
    if (coder === undefined || !this.#choices.oneIn(4)) return;
    const message = new ReceivedMessage(body, coder);
    for (const ask of ['bytes', 'text', 'tokens', 'header', 'tensor', 'metadata'] as const) {
      outcomeOf(() => message[ask]);
    }
    outcomeOf(() => message.json());
  }

  #coderOf(): BodyCoder | undefined {
    const { negotiated, channel } = this.core;
    const { contextUse } = channel;
    if (negotiated === undefined) return undefined;
    if (this.#coder !== undefined) return this.#coder;
    const { limits } = this.offer;
    this.#hasAgents = negotiated.extensions['agents'] !== undefined;
    this.#coder = createBodyCoder({
      algorithms: negotiated.algorithms,
      encoding: negotiated.encoding === null ? undefined : getEncoding(negotiated.encoding),
      limits,
      security: undefined,
      context: contextUse === undefined ? undefined : { maxMessageSize: limits.maxMessageSize },
      yield: async () => {},
    });
    return this.#coder;
  }

  /** @throws {ProtocolError} if the agreement cannot carry the chosen body. */
  #body(isOpening: boolean): BodyToSend {
    const choices = this.#choices;
    const coder = this.#coderOf() as BodyCoder;
    const { negotiated, channel } = this.core;
    const { contextUse } = channel;
    const codings = [
      'auto',
      contextUse === undefined ? 'auto' : 'CONTEXT',
      ...(negotiated?.algorithms ?? []),
    ];
    const coded = coder.encode(choices.pick(CONTENTS), {
      algorithm: choices.pick(codings) as 'auto',
      compressAlone: choices.oneIn(8),
      metadata: choices.oneIn(8) ? Uint8Array.of(0x81, 0xa1, 0x61, 0x01) : undefined,
    });
    if (!isOpening || !this.#hasAgents || choices.oneIn(3)) return coded;
    return { ...coded, address: choices.pick(this.agents) };
  }

  /** @throws {ProtocolError} as {@link #body}; the request stays unanswered then. */
  #reply(): void {
    const { core } = this;
    const choices = this.#choices;
    const [streamId] = this.#asked;
    if (streamId === undefined) return;
    const kind = choices.weighted([
      [3, 'respond'],
      [6, 'chunk'],
      [3, 'end'],
      [2, 'fail'],
    ] as const);
    if (kind === 'chunk') return core.channel.chunk(streamId, this.#body(false));
    if (kind === 'respond') core.channel.respond(streamId, this.#body(false));
    else if (kind === 'end') core.channel.end(streamId);
    else core.channel.fail(streamId, new RequestError('quota', 'come back tomorrow', { data: { at: CHAT } }));
    this.#asked.delete(streamId);
  }

  #cancel(): void {
    const id = this.#asking.shift();
    if (id !== undefined) this.core.channel.cancel(id);
  }

  #transfer(): void {
    const agent = this.#hasAgents && this.#choices.oneIn(2) ? this.#choices.pick(this.agents) : undefined;
    const first = TENSOR.subarray(0, 1 + this.#choices.below(300));
    const length = TENSOR.length;
    const id = this.core.channel.transfer({
      payloadSize: length,
      totalLength: length,
      first,
      address: agent,
    });
    this.#transfers.set(id, length - first.length);
  }

  #feed(): void {
    const [next] = this.#transfers;
    if (next === undefined) return;
    const [id, left] = next;
    const size = Math.min(left, 1 + this.#choices.below(900));
    this.core.channel.feed(id, TENSOR.subarray(0, size));
    if (size === left) this.#transfers.delete(id);
    else this.#transfers.set(id, left - size);
  }

  #consume(count: number): void {
    for (const { streamId, charge } of this.#unread.splice(0, count))
      this.core.channel.consume(streamId, charge);
  }
}
