import { parts } from '#parts';
import { atOnce } from '../base/callbacks.js';
import { Extension, Subprotocol } from '../base/constants.js';
import { withResolvers } from '../base/resolvers.js';
import { whenAborted } from '../base/when-aborted.js';
import type { BodyCoder, BodyCoderOptions } from '../codec/coder.js';
import { LateCoder } from '../codec/late-coder.js';
import type { LaterCodec } from '../control/messages.js';
import type { BodyToSend } from '../link/link.js';
import type { Clock } from '../platform/clock.js';
import { maxMessageSize } from '../session/body-rules.js';
import { GuardedClock, guard } from './guard.js';
import { type EndpointHost, sessionClosed } from './host.js';
import { Backpressure, hasRoom } from './messages/backpressure.js';
import { type BlobBody, isBlob, readBlob } from './messages/blob.js';
import { CodingOrder } from './messages/coding-order.js';
import { type Message, ReceivedMessage } from './messages/message.js';
import { encodeMetadata, type Metadata } from './messages/metadata.js';
import {
  type Body,
  type Content,
  contentOf,
  type EncodeOptions,
  encodeBody,
  ownContent,
  sizeOf,
} from './messages/part.js';
import { LateReply } from './requests/late-reply.js';
import type { Reply, ReplyStream } from './requests/reply.js';
import type { Requester } from './requests/requester.js';
import type { RequestOptions, SendOptions } from './session.js';

/** Callbacks by which a caller inside the library learns the progress of a message or request. */
export interface CallHooks {
  /** It waits to be written, on this stream; 0 for a message. */
  readonly onBegun?: (streamId: number) => void;
  /** All of it is written. */
  readonly onWritten?: () => void;
  /** The bytes of the body do not change any more. @default false: they are copied if they are kept */
  readonly isOwned?: boolean | undefined;
}

/** Sends something of a feature in one session. */
export type Performance<Result> = (outbound: Outbound, host: EndpointHost) => Promise<Result>;

export interface PerformOptions {
  /** The name of the thing that is sent, in the plural, for errors. */
  readonly what: string;
  /** Aborts if it is not to be sent any more. */
  readonly signal?: AbortSignal | undefined;
}

/**
 * The messages, requests and tensors that this end sends in one session, once everything that it agreed on is
 * loaded. Members are created on first use: most sessions of a server wait, and many never send.
 */
export class Outbound {
  /** For the timers of requests and batches; a fault in them ends the session. */
  readonly clock: Clock;
  readonly #host: EndpointHost;
  readonly #backpressure = new Backpressure();
  /** Messages that take long to code, and those after them. */
  readonly order = new CodingOrder();
  #coder: BodyCoder | undefined;
  #requester: Requester | undefined;
  /** Messages with a signal that are not written yet: each entry removes a listener. */
  #withdrawable: Set<() => void> | undefined;
  #hasEnded = false;

  constructor(host: EndpointHost) {
    this.#host = host;
    this.clock = new GuardedClock(host.options.clock, host);
  }

  get coder(): BodyCoder {
    if (this.#coder === undefined) {
      const { core, loading, negotiated } = this.#host;
      const load = (codec: LaterCodec) => loading.request(codec);
      this.#coder =
        this.#createCoder(load) ??
        new LateCoder({
          algorithms: negotiated.algorithms,
          limits: core.limits,
          create: () => this.#createCoder(load),
          load,
        });
    }
    return this.#coder;
  }

  /** The codecs that may be used now have changed. */
  handleCodecs(): void {
    this.#coder?.use(this.#host.loading.usable);
  }

  /** `undefined` until the code is loaded. */
  #createCoder(load: BodyCoderOptions['load']): BodyCoder | undefined {
    if (!parts.coding.isLoaded) return undefined;
    const { core, negotiated, options } = this.#host;
    const largest = maxMessageSize(options.role, negotiated, core.limits);
    const { usable } = this.#host.loading;
    return parts.coding.get().createBodyCoder({
      algorithms: negotiated.algorithms,
      encoding: usable.encoding,
      usable,
      // Servers have loaded everything, so their coders hold nothing of the session.
      load: this.#host.isPreloaded ? undefined : load,
      limits: core.limits,
      security: options.security,
      isPrefixed: negotiated.extensions[Extension.LINK] === undefined,
      maxMessageSize: largest,
      context: core.channel.contextUse && { maxMessageSize: largest },
      yield: options.yield ?? options.clock.yield,
    });
  }

  get requester(): Requester {
    const host = this.#host;
    this.#requester ??= new (parts.requests.get().Requester)({
      core: host.core,
      clock: this.clock,
      coder: this.coder,
      session: host,
    });
    return this.#requester;
  }

  /** Resolves when everything that is being coded was sent; `undefined` if nothing is. */
  get coding(): Promise<void> | undefined {
    return this.order.pending;
  }

  /** Bytes of memory of what waits and is not queued yet. */
  get waitingBytes(): number {
    return this.order.waitingBytes + (this.#requester?.queue.bytes ?? 0);
  }

  /** The number of replies that are not complete. */
  get openReplies(): number {
    return this.#requester?.size ?? 0;
  }

  /** Nothing is being coded, and no call of the application waits for the peer. */
  get isIdle(): boolean {
    return this.coding === undefined && this.openReplies === 0 && !this.#withdrawable?.size;
  }

  /** A message that its reader still has keeps the coder. */
  rest(): void {
    this.#coder?.rest?.();
  }

  get lastSelection(): BodyCoder['lastSelection'] {
    return this.#coder?.lastSelection;
  }

  /** See `Session.send`. @param address of the receiver, if that is not the peer itself. */
  send(body: Body, options: SendOptions & CallHooks, address: string | undefined): Promise<void> {
    const content = contentOf(body);
    const addressed = { ...options, address };
    const isScanned = this.#host.scanner !== undefined && this.statesSecurity;
    // A large message is coded in slices, and a Blob is read; later messages keep their place after it.
    if (isScanned || this.order.pending !== undefined || isBlob(content)) {
      const own = options.isOwned ? content : ownContent(content);
      const encode = () => this.#encode(own, { ...addressed, isOwned: true });
      return this.#sendLater(
        isScanned ? async () => this.withStatus(await encode()) : encode,
        options,
        sizeOf(own),
      );
    }
    const coded = this.#encode(content, addressed);
    return coded instanceof Promise
      ? this.#sendLater(() => coded, options, sizeOf(content))
      : this.#send(coded, options);
  }

  /** See `Session.request`. */
  async request(
    body: Body,
    options: RequestOptions & CallHooks,
    address: string | undefined,
  ): Promise<Message> {
    const metadata = this.#encodeMetadata(options);
    if (parts.requests.isLoaded) return await this.#ask(contentOf(body), options, metadata, address).whole();
    const own = ownContent(contentOf(body));
    await parts.requests.load();
    options.signal?.throwIfAborted();
    return await this.#ask(own, { ...options, isOwned: true }, metadata, address).whole();
  }

  /** See `Session.stream`. */
  stream(body: Body, options: RequestOptions & CallHooks, address: string | undefined): ReplyStream {
    const metadata = this.#encodeMetadata(options);
    if (parts.requests.isLoaded) return this.#ask(contentOf(body), options, metadata, address);
    const own = ownContent(contentOf(body));
    return new LateReply(parts.requests.load, () => {
      options.signal?.throwIfAborted();
      return this.#ask(own, { ...options, isOwned: true }, metadata, address);
    });
  }

  #encodeMetadata({ metadata }: RequestOptions): Uint8Array | undefined {
    return encodeMetadata(this.#traced(metadata), this.#host.options.limits.maxMetadataSize);
  }

  #ask(
    content: Content,
    options: RequestOptions & CallHooks,
    metadata: Uint8Array | undefined,
    address: string | undefined,
  ): Reply {
    const coded = this.#encode(content, { ...options, metadata, address });
    return this.requester.ask(coded, options);
  }

  #encode(content: Content, options: EncodeOptions): BodyToSend | Promise<BodyToSend> {
    if (!isBlob(content)) return encodeBody(content, this.coder, options);
    return this.read(content).then((bytes) => encodeBody(bytes, this.coder, { ...options, isOwned: true }));
  }

  /** The bytes of a `Blob`, if the peer accepts as many. */
  read(blob: BlobBody): Promise<Uint8Array> {
    const { core, negotiated, options } = this.#host;
    return readBlob(blob, maxMessageSize(options.role, negotiated, core.limits));
  }

  /**
   * Sends for a feature what is neither a message nor a request.
   *
   * @param send is called in the session in which that can be sent.
   */
  perform<Result>(send: Performance<Result>, _options: PerformOptions): Promise<Result> {
    return send(this, this.#host);
  }

  /** Resumes senders that waited for room, and requests that waited for a stream, if there is some now. */
  wake(): void {
    this.#backpressure.wake(this.#host.core);
    this.#requester?.queue.wake();
  }

  /** Resolves when a stream has room. @param below see `Backpressure.wait`. */
  room(streamId: number, below?: number): Promise<void> {
    return this.#hasEnded ? RESOLVED : this.#backpressure.wait(this.#host.core, streamId, below);
  }

  /** Whether a stream has room now. */
  hasRoom(streamId: number): boolean {
    return hasRoom(this.#host.core, streamId);
  }

  /** Fails the calls of the application that wait for the peer. */
  failCalls(error: Error): void {
    for (const stop of this.#withdrawable ?? []) stop();
    this.#requester?.abort(error);
  }

  /** The session is over: releases the senders and fails the replies. */
  end(error: Error | undefined): void {
    this.#hasEnded = true;
    this.#backpressure.wake(undefined);
    for (const stop of this.#withdrawable ?? []) stop();
    // Most sessions end without open requests, and creating an error costs more than the rest of their end.
    if (this.#requester !== undefined) this.#requester.end(error ?? sessionClosed(this.#host.core));
  }

  #send(coded: BodyToSend, { signal, onBegun }: SendOptions & CallHooks): Promise<void> {
    if (signal !== undefined) return this.#sendUnlessAborted(coded, signal, onBegun);
    this.#host.core.channel.send(coded);
    onBegun?.(0);
    this.#host.transmit();
    return this.#sent();
  }

  /** Resolves when a message that was sent is recorded, if it has to be, and the next one fits. */
  #sent(): Promise<void> {
    const recorded = this.#host.recorded?.();
    if (recorded === undefined) return this.room(0);
    const sent = recorded.then(() => this.room(0));
    // An application that does not wait for it learns of the end of its session in another way.
    sent.catch(() => {});
    return sent;
  }

  /**
   * Server: codes messages that belong together.
   *
   * @param send is called in the order of the messages of the session, with all of them. @returns as `Session.send`.
   */
  together(bodies: readonly Body[], send: (coded: readonly BodyToSend[]) => void): Promise<void> {
    const coding = bodies.map((body) => this.#encode(contentOf(body), {}));
    const isCoded = (coded: readonly (BodyToSend | Promise<BodyToSend>)[]): coded is readonly BodyToSend[] =>
      coded.every((one) => !(one instanceof Promise));
    const tell = (coded: readonly BodyToSend[]) => {
      send(coded);
      guard(this.#host, () => this.#host.transmit());
      return this.#sent();
    };
    if (this.order.pending === undefined && isCoded(coding)) return tell(coding);
    const all = Promise.all(coding);
    all.catch(() => {});
    return this.#inOrder(() => all, tell, 0);
  }

  /** Withdraws the message if the signal aborts before any of it is written. */
  async #sendUnlessAborted(
    coded: BodyToSend,
    signal: AbortSignal,
    onBegun: CallHooks['onBegun'],
  ): Promise<void> {
    signal.throwIfAborted();
    const host = this.#host;
    const { channel } = host.core;
    const { promise: withdrawn, reject } = withResolvers<never>();
    // It may be withdrawn after the call has resolved.
    withdrawn.catch(() => {});
    const stop = () => {
      release();
      this.#withdrawable?.delete(stop);
    };
    const onWritten = (count: number) => {
      stop();
      coded.onWritten?.(count);
    };
    // A function of its own, because it identifies the message.
    const onDropped = () => stop();
    const onAbort = () =>
      guard(host, () => {
        stop();
        if (!channel.withdraw(onDropped)) return;
        reject(signal.reason);
        host.pump();
      });
    let release = (): void => {};
    channel.send({ ...coded, onWritten, onDropped });
    onBegun?.(0);
    release = whenAborted(signal, onAbort);
    this.#withdrawable ??= new Set();
    this.#withdrawable.add(stop);
    host.transmit();
    await Promise.race([this.#sent(), withdrawn]);
  }

  #sendLater(
    encode: () => BodyToSend | Promise<BodyToSend>,
    options: SendOptions & CallHooks,
    size: number,
  ): Promise<void> {
    return this.#inOrder(encode, (coded) => this.#send(coded, options), size);
  }

  /**
   * Later messages and CLOSE wait until this one is sent, and not for room: a peer that reads nothing gives none.
   *
   * @param size bytes of memory that it takes while it waits.
   */
  #inOrder<Coded>(
    encode: () => Coded | Promise<Coded>,
    send: (coded: Coded) => Promise<void>,
    size: number,
  ): Promise<void> {
    let sent = RESOLVED;
    const begun = this.order.push(async () => {
      sent = send(await encode());
    }, size);
    const all = begun.then(() => sent);
    // A caller that does not wait for it has no unhandled rejection, as with all that is in order.
    all.catch(() => {});
    return all;
  }

  /** Only DATA envelopes have a field for the result of a scan. */
  get statesSecurity(): boolean {
    const { core, negotiated } = this.#host;
    return core.subprotocol === Subprotocol.JSON && negotiated.securityScanning;
  }

  async withStatus(coded: BodyToSend): Promise<BodyToSend> {
    const message = new ReceivedMessage({ ...coded, charge: 0 }, this.coder);
    await this.#host.scanner?.judge(message, 'sent');
    return { ...coded, securityStatus: message.securityStatus };
  }

  #traced(metadata: Metadata | undefined): Metadata | undefined {
    if (metadata?.['traceparent'] !== undefined) return metadata;
    const traceparent = atOnce(this.#host.options.traceparent?.(), 'traceparent');
    return traceparent === undefined ? metadata : { ...metadata, traceparent };
  }
}

const RESOLVED = Promise.resolve();
