import { ContextDecoder, DEFAULT_LIMITS, isProtocolError } from '../subject.js';
import { Assembly } from './assembly.js';
import { type Body, type Coder, unpacked } from './bodies.js';
import { type Asked, type Call, isOver } from './calls.js';
import { Credit, type Windows } from './credit.js';
import { Deviation, must } from './deviation.js';
import { failureOf } from './failure.js';
import {
  BODY_CHARGE,
  type BodyToSend,
  bodyFrames,
  Codec,
  Cursor,
  Flag,
  type Frame,
  frame,
  hasBody,
  isCounted,
  Kind,
  kindName,
  MAX_PIECE,
  MAX_TENSOR_PIECE,
  parseFrame,
  parseHead,
  varint,
} from './frames.js';
import { Names, type NamesAgreed } from './names.js';
import type { Changes } from './waiting.js';

/**
 * The kit's end of the frames of a session (section 4), over all of its connections. In every scenario it
 * fails at the first frame of the peer that breaks the rules.
 */

export interface LinkOptions {
  /** The kit opens odd streams. */
  readonly isClient: boolean;
  readonly own: Windows;
  readonly peer: Windows;
  readonly coder: Coder;
  /** How much both ends keep of each direction, if `context` was agreed on. */
  readonly context: { readonly maxBytes: number; readonly maxMessages: number } | undefined;
  readonly names: NamesAgreed;
  /** The largest stream IDs of both ends on the link before, which the session continues above. @default none */
  readonly after?: { readonly own: number; readonly peer: number } | undefined;
  readonly changes: Changes;
  readonly send: (bytes: Uint8Array) => void;
  /** Bodies wait while the session has no connection. */
  readonly isConnected: () => boolean;
}

/** Requests of both ends that continue over a new link, in a durable session. */
export interface GoesOn {
  /** Those of the kit. */
  readonly calls?: readonly Call[];
  /** Those that the peer writes again, by ID. */
  readonly again?: readonly number[];
}

export class Link {
  readonly calls = new Map<number, Call>();
  /** Requests of the peer that no scenario has taken. */
  readonly asked: Asked[] = [];
  readonly messages: Body[] = [];
  /** Frames of the peer, in order, over all connections. */
  readonly log: Uint8Array[] = [];
  /** Frames that count as received. */
  received = 0;
  /** Counted frames of the kit that the peer has acknowledged. */
  confirmed = 0;
  /** The count that was acknowledged to the peer. */
  acknowledged = 0;
  /** Acknowledges at once; `false` leaves it to the scenario. */
  acknowledges = true;
  /** Grants credit for all that arrives; `false` leaves it to the scenario. */
  grants = true;
  /** Called after each counted frame of the peer. */
  onCounted: ((frame: Frame) => void) | undefined;
  /** Called after each credit frame of the peer. */
  onCredit: ((stream: number, limit: number) => void) | undefined;
  /** Called after each counted frame of the kit. */
  onWritten: (() => void) | undefined;
  readonly written: Uint8Array[] = [];
  readonly incoming: Credit;
  readonly names: Names;
  readonly outgoing: Credit;
  readonly #options: LinkOptions;
  readonly #context: ContextDecoder | undefined;
  readonly #assemblies = new Map<number, Assembly>();
  readonly #open = new Map<number, Asked | undefined>();
  readonly #again = new Set<number>();
  #lastOfPeer: number;
  #next: number;

  constructor(options: LinkOptions) {
    this.#options = options;
    this.incoming = new Credit(options.own);
    this.outgoing = new Credit(options.peer);
    const { own, peer } = options.after ?? { own: 0, peer: 0 };
    this.#next = own === 0 ? (options.isClient ? 1 : 2) : own + 2;
    this.#lastOfPeer = peer;
    this.names = new Names(options.names);
    if (options.context !== undefined)
      this.#context = new ContextDecoder(options.context, DEFAULT_LIMITS.maxMessageSize);
  }

  /** The link that follows if both ends begin with a new one: stream IDs continue, and nothing else does. */
  rebuilt({ calls = [], again = [] }: GoesOn = {}): Link {
    const link = new Link({ ...this.#options, after: this.last });
    for (const call of calls) link.calls.set(call.id, call);
    for (const id of again) link.#again.add(id);
    return link;
  }

  /** The largest stream IDs so far. */
  get last(): { readonly own: number; readonly peer: number } {
    return { own: Math.max(0, this.#next - 2), peer: this.#lastOfPeer };
  }

  /** The next stream of the kit, which counts as open. */
  openStream(): Call {
    const call: Call = { id: this.#next, parts: [] };
    this.#next += 2;
    this.calls.set(call.id, call);
    return call;
  }

  // --- writing

  /** Writes frames as they are. Counted ones are written again on the next connection. */
  write(...frames: readonly Uint8Array[]): void {
    for (const bytes of frames) {
      const counts = isCounted((bytes[0] ?? 0) & 0x0f);
      if (counts) this.written.push(bytes);
      this.#options.send(bytes);
      if (counts) this.onWritten?.();
    }
  }

  /** Writes a body as its credit allows. */
  async writeBody(kind: number, stream: number, body: BodyToSend & { own?: number }): Promise<void> {
    const bytes = typeof body.bytes === 'string' ? Buffer.from(body.bytes) : body.bytes;
    const largest = body.codec === Codec.AVP ? MAX_TENSOR_PIECE : MAX_PIECE;
    const head = 24 + (body.metadata?.length ?? 0);
    const window = this.outgoing.windowOf(stream) - BODY_CHARGE - head;
    const pieces = body.pieces ?? [Math.max(1, Math.min(largest, window))];
    for (const piece of bodyFrames(kind, stream, { ...body, bytes, pieces })) {
      const { rest } = parseFrame(piece);
      const isFirst = piece[0] !== undefined && !this.#begun.has(stream);
      const charge = rest.length + (isFirst ? BODY_CHARGE : 0);
      await this.#options.changes.until(
        () => (this.#options.isConnected() && this.outgoing.available(stream) >= charge) || undefined,
        `credit for ${charge} bytes on stream ${stream}`,
      );
      this.#begun.add(stream);
      this.outgoing.spend(stream, charge);
      this.write(piece);
    }
    this.#begun.delete(stream);
    this.outgoing.spend(stream, Math.max(0, (body.own ?? 0) - bytes.length));
  }
  /** Streams with a body of the kit that is not written to its end. */
  readonly #begun = new Set<number>();

  grant(stream: number, limit: number): void {
    this.incoming.raise(stream, limit);
    this.write(frame(Kind.CREDIT, stream, varint(limit)));
  }

  acknowledge(): void {
    this.acknowledged = this.received;
    this.write(frame(Kind.ACK, this.received));
  }

  /**
   * Continues over the next connection.
   *
   * @param confirmed what the peer says that it has.
   */
  resume(confirmed: number): void {
    must(
      confirmed <= this.written.length && confirmed >= this.confirmed,
      `the peer says that it has received ${confirmed} frames; ${this.confirmed} are acknowledged and ${this.written.length} written`,
    );
    this.confirmed = confirmed;
    this.#restate((stream) => stream === 0);
    for (const bytes of this.written.slice(confirmed)) this.#options.send(bytes);
    this.#restate((stream) => stream !== 0);
  }

  #restate(isMeant: (stream: number) => boolean): void {
    for (const [stream, limit] of this.incoming.raised)
      if (isMeant(stream) && (stream === 0 || this.#open.has(stream) || this.calls.has(stream)))
        this.#options.send(frame(Kind.CREDIT, stream, varint(limit)));
  }

  // --- reading

  /** @throws {Deviation} if the frame breaks the protocol. */
  handle(bytes: Uint8Array): void {
    const parsed = parseFrame(bytes);
    if (!isCounted(parsed.kind)) return this.#signal(parsed);
    const index = this.received++;
    const before = this.log[index];
    if (before !== undefined) {
      must(
        Buffer.compare(before, bytes) === 0,
        `counted frame ${index + 1} was written again with other bytes`,
        bytes,
      );
    } else {
      this.log.push(bytes);
      this.#counted(parsed);
    }
    if (this.acknowledges && (this.received - this.acknowledged >= 8 || parsed.kind >= Kind.END))
      this.acknowledge();
    this.onCounted?.(parsed);
  }

  /** Forgets that the last frames have arrived, so that the peer has to write them again. */
  lose(frames: number): void {
    this.received = Math.max(this.acknowledged, this.received - frames);
  }

  #signal({ kind, stream, rest, bytes }: Frame): void {
    if (kind === Kind.ACK) {
      must(rest.length === 0, 'an acknowledgement has trailing bytes', bytes);
      must(
        stream <= this.written.length,
        `${stream} frames are acknowledged, ${this.written.length} were written`,
        bytes,
      );
      this.confirmed = Math.max(this.confirmed, stream);
      return;
    }
    const limit = new Cursor(rest, bytes).varint('the limit');
    const isKnown =
      stream === 0 || (this.#isOwn(stream) ? this.calls.has(stream) : stream <= this.#lastOfPeer);
    must(isKnown, `credit for stream ${stream}, which was never opened`, bytes);
    this.outgoing.raise(stream, limit);
    this.onCredit?.(stream, limit);
  }

  #counted(parsed: Frame): void {
    const { kind, stream, bytes } = parsed;
    if (kind === Kind.ALIAS) return this.names.announce(parsed);
    this.#checkStream(parsed);
    if (hasBody(kind)) return this.#body(parsed);
    if (kind === Kind.CANCEL) return this.#cancel(parsed);
    const call = this.calls.get(stream) as Call;
    // Only a cancel lets an end cut a body short.
    must(
      !this.#assemblies.delete(stream) || kind === Kind.ERROR || this.#isCancelled(stream),
      `${kindName(kind)} inside a body`,
      bytes,
    );
    if (kind === Kind.END) {
      this.#inContext(bytes, (context) => context.end(stream, parsed.rest));
      must(this.#context !== undefined || parsed.rest.length === 0, 'an end has a body', bytes);
      call.end = parsed.rest;
    } else {
      this.#context?.fail(stream);
      call.error = failureOf(parsed);
    }
  }

  #checkStream({ kind, stream, bytes }: Frame): void {
    if (kind === Kind.MESSAGE) return must(stream === 0, `a one-way message on stream ${stream}`, bytes);
    if (kind === Kind.REQUEST || kind === Kind.CANCEL) {
      must(
        stream !== 0 && !this.#isOwn(stream),
        `a ${kindName(kind)} on stream ${stream}, which is not its sender's`,
        bytes,
      );
      if (kind === Kind.CANCEL)
        return must(
          stream <= this.#lastOfPeer,
          `a cancel of stream ${stream}, which was never opened`,
          bytes,
        );
      if (this.#assemblies.has(stream)) return;
      const isNew = stream > this.#lastOfPeer || this.#again.delete(stream);
      must(isNew, `stream ${stream} is opened after ${this.#lastOfPeer}`, bytes);
      this.#lastOfPeer = Math.max(this.#lastOfPeer, stream);
      this.#open.set(stream, undefined);
      must(
        this.#open.size <= this.#options.own.maxStreams,
        `more than ${this.#options.own.maxStreams} open streams`,
        bytes,
      );
      return;
    }
    const call = this.calls.get(stream);
    must(call !== undefined, `a ${kindName(kind)} on stream ${stream}, which the kit has not opened`, bytes);
    must(!isOver(call), `a ${kindName(kind)} after the end of stream ${stream}`, bytes);
  }

  #body(parsed: Frame): void {
    const { kind, stream, codec, flags, bytes } = parsed;
    const begun = this.#assemblies.get(stream);
    const head = begun === undefined ? parseHead(parsed) : undefined;
    if (flags & Flag.ADDRESSED && head !== undefined) {
      must(kind === Kind.MESSAGE || kind === Kind.REQUEST, 'an address on a reply', bytes);
      head.name = this.names.nameOf(head.agent as number, bytes);
    }
    const charge = parsed.rest.length + (head === undefined ? 0 : BODY_CHARGE);
    must(
      charge <= this.incoming.available(stream),
      `${charge} bytes on stream ${stream} although ${this.incoming.available(stream)} are left of its credit`,
      bytes,
    );
    this.incoming.spend(stream, charge);
    const assembly = begun ?? new Assembly(parsed, head as NonNullable<typeof head>);
    if (begun === undefined) {
      if (codec === Codec.CONTEXT)
        this.#inContext(bytes, (context) =>
          context.begin(stream, (head as NonNullable<typeof head>).content),
        );
      this.#assemblies.set(stream, assembly);
    } else begun.add(parsed);
    if (assembly.isComplete(parsed)) {
      this.#assemblies.delete(stream);
      const body = this.#complete(assembly, parsed);
      this.incoming.spend(
        stream,
        codec === Codec.CONTEXT ? Math.max(0, body.content.length - body.coded.length) : 0,
      );
      this.#deliver(kind, stream, body);
    }
    if (this.grants) this.#regrant(stream);
  }

  #complete(assembly: Assembly, { kind, stream, codec, bytes }: Frame): Body {
    const coded = assembly.bytes;
    const metadata = assembly.metadata;
    let content: Uint8Array | undefined;
    if (codec === Codec.CONTEXT)
      this.#inContext(bytes, (context) => {
        content = context.complete(stream, coded, kind === Kind.CHUNK);
      });
    content ??= this.#options.coder.decode(codec, coded, assembly.expanded);
    return {
      codec,
      coded,
      content,
      secret: assembly.secret,
      metadata: metadata === undefined ? undefined : unpacked(metadata, 'metadata', bytes),
      agent: assembly.agent,
      frames: assembly.frames,
    };
  }

  #deliver(kind: Kind, stream: number, body: Body): void {
    if (kind === Kind.MESSAGE) this.messages.push(body);
    else if (kind === Kind.REQUEST) {
      const asked = { id: stream, body, isCancelled: false };
      this.#open.set(stream, asked);
      this.asked.push(asked);
    } else if (kind === Kind.RESPONSE) (this.calls.get(stream) as Call).response = body;
    else this.calls.get(stream)?.parts.push(body);
  }

  #cancel({ stream }: Frame): void {
    this.#context?.abandon(stream);
    this.#assemblies.delete(stream);
    const asked = this.#open.get(stream);
    if (asked !== undefined) asked.isCancelled = true;
  }

  /** The kit has answered a request of the peer to its end. */
  answered(stream: number): void {
    this.#open.delete(stream);
  }

  #regrant(stream: number): void {
    if (this.incoming.available(stream) < this.incoming.windowOf(stream) / 2)
      this.grant(stream, this.incoming.spentOn(stream) + this.incoming.windowOf(stream));
  }

  #inContext(bytes: Uint8Array, act: (context: ContextDecoder) => void): void {
    try {
      if (this.#context !== undefined) act(this.#context);
      else if (parseFrame(bytes).codec === Codec.CONTEXT)
        throw new Deviation('a body in context although context was not agreed on', bytes);
    } catch (error) {
      if (!isProtocolError(error)) throw error;
      throw new Deviation(`context (${error.code}: ${error.message})`, bytes);
    }
  }

  #isCancelled(stream: number): boolean {
    const cancel = frame(Kind.CANCEL, stream);
    return this.written.some((bytes) => Buffer.compare(bytes, cancel) === 0);
  }

  #isOwn(stream: number): boolean {
    return stream % 2 === (this.#options.isClient ? 1 : 0);
  }
}
