import {
  BodyCodec,
  type ReceivedBody,
  resolveLimits,
  type SessionEvent,
  type Undelivered,
} from '@parlance/protocol';
import { createBodyCoder, type DurableSession } from '@parlance/protocol/internal';
import type { ServerEndpoint } from '../../../session/endpoint.js';
import type { Relay } from '../../relay.js';

/** Sessions without sockets, and what their clients hear and say. */

const PRINCIPAL = 'acme';
/** Bytes that a sender may have under way. */
const WINDOW = 400;
export const LIMITS = resolveLimits();
const NEGOTIATED = { algorithms: ['NONE'], encoding: null, extensions: { agents: '{}' } } as const;

type WatchHandler = (request: unknown, context: { signal: AbortSignal }) => AsyncIterable<{ json: unknown }>;

/** A client, which outlives the places where its session is. */
export class Client {
  readonly name: string;
  /** Numbers of messages, by sender. */
  readonly heard = new Map<string, number[]>();
  /** The reported outcomes of its own messages, by receiver. */
  readonly reported = new Map<string, Map<number, Undelivered['outcome']>>();
  readonly sent = new Map<string, number>();
  /** Parts of each request that it has made; `ended` comes last. */
  readonly replies = new Map<number, string[]>();
  readonly known = new Map<string, string>();
  readonly gone: string[] = [];
  readonly faults: string[] = [];
  /** Messages that were heard after later ones. */
  readonly late: (readonly [from: string, number: number])[] = [];
  isLost = false;
  /** Senders of messages that were not marked. */
  readonly unmarked = new Set<string>();
  /** Messages to each name that were reported without their numbers. */
  readonly unnumbered = new Map<string, number>();

  constructor(name: string) {
    this.name = name;
  }

  takeReport({ to, outcome, first, count }: Undelivered): void {
    if (first === undefined) {
      this.unnumbered.set(to, (this.unnumbered.get(to) ?? 0) + count);
      return;
    }
    const reported = this.reported.get(to) ?? new Map<number, Undelivered['outcome']>();
    this.reported.set(to, reported);
    for (let i = first; i < first + count; i++) {
      if (reported.has(i)) this.faults.push(`${this.name}: ${to} ${i} was reported twice`);
      reported.set(i, outcome);
    }
  }

  /** @param isMarked whether it may have been delivered before, as the server says. */
  takeMessage(from: string, number: number, isMarked = false): void {
    const heard = this.heard.get(from) ?? [];
    this.heard.set(from, heard);
    // A session that knows the sender from its first message on knows what it has heard.
    if (isMarked && this.unmarked.has(from)) this.faults.push(`${this.name}: ${from} ${number} was marked`);
    if (!isMarked) this.unmarked.add(from);
    if (heard.includes(number)) this.faults.push(`${this.name}: ${from} ${number} was heard twice`);
    if (number < Math.max(0, ...heard)) this.late.push([from, number]);
    heard.push(number);
  }
}

export interface Queued {
  readonly stream: number;
  readonly text: string;
  readonly from: string | undefined;
  readonly isMarked?: boolean | undefined;
  readonly onWritten?: ((frame: number) => void) | undefined;
}

/** State of a session that goes to another node with its snapshot. */
interface Carried {
  readonly frames: number;
  readonly confirmed: number;
  readonly spent: number;
  readonly queue: readonly Queued[];
  readonly lastStream: number;
}

/** As the relay uses it. */
interface SimulatedCore {
  readonly awaitedCodecs: ReadonlySet<unknown>;
  readonly channel: Readonly<Record<string, unknown>> & { consume(stream: number, charge: number): boolean };
  readonly record?: Pick<DurableSession, 'afterCommit' | 'hear' | 'heard'>;
}

/** The session of a client at one node, as the relay sees it. */
export class SimulatedSession {
  readonly id: string;
  readonly client: Client;
  readonly principal = PRINCIPAL;
  readonly retentionMs: number = 0;
  readonly negotiated = NEGOTIATED;
  readonly isRemote = false;
  readonly awaitedCodecs = new Set();
  state: 'established' | 'suspended' | 'closed' = 'established';
  relayed = 0;
  /** Another process has the session. */
  get isFenced(): boolean {
    return false;
  }
  /** A snapshot was taken. */
  isFrozen = false;
  /** Credit that is not returned. */
  spent = 0;
  #frames = 0;
  #confirmed = 0;
  protected queue: Queued[] = [];
  #lastStream = 0;
  /** Requests of other agents, with the parts that are still to be said. */
  readonly asked = new Map<number, number>();
  /** Lengths of the pieces of tensors to it. */
  readonly pieces: number[] = [];
  readonly #wanted = new Set<number>();
  /** Credit that its own requests hold, and requests that are over. */
  readonly #own = new Map<number, number>();
  readonly #over = new Set<number>();
  readonly #relay: Relay;
  readonly coder = createBodyCoder({
    algorithms: ['NONE'],
    encoding: undefined,
    limits: LIMITS,
    security: undefined,
    yield: async () => {},
  });
  readonly listeners = { add: () => {} };

  constructor(id: string, client: Client, relay: Relay, carried?: Carried) {
    this.id = id;
    this.client = client;
    this.#relay = relay;
    if (carried === undefined) return;
    this.#frames = carried.frames;
    this.#confirmed = carried.confirmed;
    this.spent = carried.spent;
    this.#lastStream = carried.lastStream;
    // Callbacks do not move.
    this.queue = carried.queue.map(({ stream, text, from, isMarked }) => ({ stream, text, from, isMarked }));
  }

  get agentId(): string {
    return this.client.name;
  }

  get core(): SimulatedCore {
    const frames = () => this.#confirmed;
    const isWanted = (stream: number) => this.#wanted.has(stream);
    return {
      awaitedCodecs: this.awaitedCodecs,
      channel: {
        get framesConfirmed() {
          return frames();
        },
        isWanted,
        queuedOn: () => 0,
        send: (body: Body) => this.put(0, body),
        request: (body: Body) => {
          this.#lastStream += 2;
          this.put(this.#lastStream, body);
          return this.#lastStream;
        },
        transfer: ({ first }: { readonly first: Uint8Array }) => {
          this.#lastStream += 2;
          this.pieces.push(first.length);
          return this.#lastStream;
        },
        feed: (_stream: number, bytes: Uint8Array) => {
          this.pieces.push(bytes.length);
        },
        chunk: (stream: number, body: Body) => this.put(stream, body),
        respond: (stream: number, body: Body) => {
          this.put(stream, body);
          this.#end(stream, 'ended');
        },
        end: (stream: number) => this.#end(stream, 'ended'),
        fail: (stream: number, error: { code?: string } | undefined) =>
          this.#end(stream, `failed ${error?.code}`),
        refuse: (stream: number, { code }: { code: string }) => this.#end(stream, `failed ${code}`),
        cancel: (stream: number) => {
          this.asked.delete(stream);
        },
        consume: (stream: number, charge: number) => {
          if (this.#own.has(stream)) this.#own.set(stream, (this.#own.get(stream) ?? 0) - charge);
          else if (this.#over.has(stream)) return false;
          this.spent -= charge;
          if (this.spent < 0) this.client.faults.push(`${this.client.name}: credit was returned twice`);
          return false;
        },
      },
    };
  }

  perform(command: (core: unknown) => unknown): unknown {
    if (this.state === 'closed') throw new Error('closed');
    if (this.isFrozen) this.client.faults.push(`${this.client.name}: something came after the snapshot`);
    return command(this.core);
  }
  tell(command: (core: unknown) => void): void {
    if (this.state !== 'closed') this.perform(command);
  }
  credit(stream: number, charge: number): boolean {
    return this.core.channel.consume(stream, charge);
  }
  pump(): void {}
  abort(error: { code: string }): void {
    this.client.faults.push(`${this.client.name}: aborted with ${error.code}`);
  }
  crash(error: unknown): void {
    this.client.faults.push(`${this.client.name}: ${String(error)}`);
  }

  /** Continues a watch, whose news the client applies at once. */
  answer(stream: number, body: unknown, handler: WatchHandler): void {
    void this.#answer(stream, body, handler);
  }
  async #answer(_stream: number, _body: unknown, handler: WatchHandler): Promise<void> {
    const request = { json: () => ({ watch: true }) };
    const { known, gone } = this.client;
    for await (const { json } of handler(request, { signal: new AbortController().signal })) {
      if (this.isFrozen) return;
      const news = json as { present: { id: string; state: string }[]; gone: string[] };
      for (const { id, state } of news.present) known.set(id, state);
      for (const id of news.gone) {
        known.delete(id);
        gone.push(id);
      }
    }
  }

  // --- what its client does

  get hasCredit(): boolean {
    return this.spent < WINDOW;
  }

  say(to: string): void {
    const number = (this.client.sent.get(to) ?? 0) + 1;
    this.client.sent.set(to, number);
    this.sayNumbered(number, to);
  }

  protected sayNumbered(number: number, to: string): void {
    this.take({ type: 'message', body: this.bodyOf(`${this.client.name} ${number}`, to) } as SessionEvent);
  }

  ask(to: string, stream: number): void {
    this.#wanted.add(stream);
    this.client.replies.set(stream, []);
    const body = this.bodyOf(`ask ${stream}`, to);
    this.#own.set(stream, body.charge);
    this.take({ type: 'request', streamId: stream, body } as SessionEvent);
  }

  /** Says the next part of a reply, or ends it. */
  reply(stream: number): void {
    const left = this.asked.get(stream) ?? 0;
    if (left > 0) {
      this.asked.set(stream, left - 1);
      const body = this.bodyOf(`part ${4 - left}`, undefined);
      this.take({ type: 'part', streamId: stream, body } as SessionEvent);
      return;
    }
    this.asked.delete(stream);
    this.take({ type: 'end', streamId: stream } as SessionEvent);
  }

  protected take(event: SessionEvent): void {
    if ('body' in event) this.spent += event.body.charge;
    const isRelayed = this.#relay.take(this as never as ServerEndpoint, event, undefined);
    // The request that it answers is over, so the session reads it itself.
    if (!isRelayed && 'body' in event) this.spent -= event.body.charge;
  }

  protected bodyOf(text: string, address: string | undefined): ReceivedBody {
    const bytes = new TextEncoder().encode(text);
    const rest = { originalLength: bytes.length, secret: false, metadata: undefined, address };
    return { codec: BodyCodec.PLAIN, bytes, charge: bytes.length + 8, ...rest };
  }

  // --- what its connection does

  protected put(stream: number, { bytes, address, metadata, onWritten }: Body): void {
    const isMarked = metadata !== undefined;
    this.queue.push({ stream, text: new TextDecoder().decode(bytes), from: address, isMarked, onWritten });
  }

  #end(stream: number, how: string): void {
    // The stream is over, and with it what it holds.
    this.spent -= this.#own.get(stream) ?? 0;
    if (this.#own.delete(stream)) this.#over.add(stream);
    if (this.#wanted.delete(stream)) this.queue.push({ stream, text: `!${how}`, from: undefined });
  }

  get waiting(): number {
    return this.queue.length;
  }

  writeOne(): void {
    const next = this.queue.shift();
    if (next === undefined) return;
    const { stream, text, from, isMarked, onWritten } = next;
    if (text.startsWith('!')) return void this.client.replies.get(stream)?.push(text.slice(1));
    const frame = ++this.#frames;
    if (stream !== 0 && text.startsWith('ask')) this.asked.set(stream, 3);
    else if (stream !== 0) this.client.replies.get(stream)?.push(text);
    else if (from?.startsWith('@')) this.client.takeReport(JSON.parse(text) as Undelivered);
    else this.client.takeMessage(from ?? '', Number(text.split(' ')[1]), isMarked);
    onWritten?.(frame);
  }

  confirm(count: number): void {
    this.#confirmed = Math.min(this.#frames, this.#confirmed + count);
  }

  snapshot(): Carried {
    this.isFrozen = true;
    return {
      frames: this.#frames,
      confirmed: this.#confirmed,
      spent: this.spent,
      queue: this.queue,
      lastStream: this.#lastStream,
    };
  }
}

export type Body = {
  readonly bytes: Uint8Array;
  readonly address?: string | undefined;
  readonly metadata?: Uint8Array | undefined;
  readonly onWritten?: ((frame: number) => void) | undefined;
};
