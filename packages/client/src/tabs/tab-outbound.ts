import type {
  Body,
  Limits,
  Message,
  ReplyStream,
  RequestOptions,
  SendOptions,
  SessionReset,
  SessionStats,
  UnconfirmedBody,
} from '@parlance/protocol';
import {
  atOnce,
  type BlobBody,
  type Clock,
  type Content,
  contentOf,
  isBlob,
  limitsWithin,
  ownContent,
  ProtocolError,
  readBlob,
  type StreamQueue,
  sizeOf,
  type UserOutbound,
  whenAborted,
} from '@parlance/protocol/client';
import { Allowance, chargeOf, MAX_REPLIES, MAX_UPLOAD } from './bounds.js';
import { unpackError } from './packed-error.js';
import { chargeOfMessage, SharedMessage } from './packed-message.js';
import type { Pipe } from './pipe.js';
import type { Call, FromHost, FromTab, Status } from './protocol.js';
import { TabReply } from './tab-reply.js';

export interface TabOutboundOptions {
  readonly pipe: Pipe;
  readonly limits: Limits;
  readonly status: () => Status | undefined;
  readonly traceparent: (() => string | undefined) | undefined;
  readonly clock: Pick<Clock, 'now' | 'after'>;
  readonly Queue: typeof StreamQueue<number>;
  /** The host sends the counters of the session with every end of a call. */
  readonly onStats: (stats: SessionStats) => void;
}

type End = Extract<FromHost, { type: 'end' }>;

/** A call that is not complete. */
interface OpenCall {
  readonly kind: UnconfirmedBody['kind'] | 'flush';
  readonly charge: number;
  /** The body waits at the host, or is under way to it. */
  isUploading: boolean;
  /** Clock reading in milliseconds when its time is over, `Infinity` if never; measured here until the host has the call. */
  readonly deadline: number;
  stopTimer?: () => void;
  readonly reply?: TabReply;
  onEnd(end: End): void;
  onFailed(error: Error): void;
}

/** A `Blob` is read when its turn comes. */
type WaitingCall = Omit<Call, 'body'> & { body: Call['body'] | BlobBody };

/** Sends for one tab over a shared session, as long as it has the same host. */
export class TabOutbound implements UserOutbound {
  readonly #options: TabOutboundOptions;
  readonly #calls = new Map<number, OpenCall>();
  readonly #uploads = new Allowance(MAX_UPLOAD);
  /** Requests that wait until the host takes another one, in order. They hold back no messages. */
  readonly #queue: StreamQueue<number>;
  /** Requests that the host has, or will have next, and has not ended. */
  readonly #begun = new Set<number>();
  /** Calls that wait for room at the host, in order. */
  #waiting: WaitingCall[] = [];
  /** The call whose `Blob` is being read, or was. */
  #read: WaitingCall | undefined;
  #last = 0;
  #ended: Error | undefined;
  #onProgress = (): void => {};

  constructor(options: TabOutboundOptions) {
    this.#options = options;
    this.#queue = new options.Queue({
      free: () => MAX_REPLIES - this.#begun.size,
      limit: () => `all ${MAX_REPLIES} requests that a tab with a shared session may have at a time`,
      most: options.limits.sessionMemory,
    });
  }

  /** Those of the session. */
  get limits(): Limits {
    const { limits, status } = this.#options;
    return limitsWithin(limits, status()?.negotiated?.maxPayloadSize ?? 0);
  }

  send(body: Body, options: SendOptions, agent: string | undefined): Promise<void> {
    const { signal, to: _, ...rest } = options;
    const content = contentOf(body);
    return new Promise((resolve, reject) => {
      const isAbortable = signal !== undefined;
      const call = this.#open('send', content, { ...rest, ...(isAbortable && { isAbortable }) }, agent, {
        kind: 'message',
        onEnd: ({ error }) => {
          free();
          if (error === undefined) resolve();
          else reject(signal?.aborted && error.code === 'cancelled' ? signal.reason : unpackError(error));
        },
        onFailed: (error) => {
          free();
          reject(error);
        },
      });
      const onAbort = (): void => {
        // The host knows whether some of it is written already.
        if (this.#withdraw(call)) reject(signal?.reason);
        else this.#post({ type: 'cancel', call });
      };
      const free = whenAborted(signal, onAbort);
    });
  }

  request(body: Body, options: RequestOptions, agent: string | undefined): Promise<Message> {
    const { signal, to: _, ...rest } = options;
    const content = contentOf(body);
    return new Promise((resolve, reject) => {
      const call = this.#open('request', content, this.#traced(rest), agent, {
        kind: 'request',
        onEnd: ({ error, message }) => {
          free();
          if (message !== undefined) {
            this.#post({ type: 'received', charge: chargeOfMessage(message) });
            return resolve(new SharedMessage(message, { limits: this.limits }));
          }
          reject(error === undefined ? new ProtocolError('internal', 'no reply') : unpackError(error));
        },
        onFailed: (error) => {
          free();
          reject(error);
        },
      });
      const onAbort = (): void => {
        this.#cancel(call);
        reject(signal?.reason);
      };
      const free = whenAborted(signal, onAbort);
    });
  }

  stream(body: Body, options: RequestOptions, agent: string | undefined): ReplyStream {
    const { signal, to: _, ...rest } = options;
    const content = contentOf(body);
    let call = 0;
    let free = (): void => {};
    const reply = new TabReply({
      limits: this.limits,
      onTaken: (charge) => this.#post({ type: 'taken', call, charge }),
      onCancelled: () => {
        free();
        this.#cancel(call);
      },
    });
    call = this.#open('stream', content, this.#traced(rest), agent, {
      kind: 'request',
      reply,
      onEnd: ({ error, head }) => {
        free();
        reply.handleHead(head);
        reply.handleEnd(error && unpackError(error));
      },
      onFailed: (error) => {
        free();
        reply.handleEnd(error as ProtocolError);
      },
    });
    free = whenAborted(signal, () => reply.abort(signal?.reason));
    return reply;
  }

  readonly perform: UserOutbound['perform'] = (_send, { what }) => {
    const message = `${what} cannot be sent over a shared session; connect without shared for them`;
    return Promise.reject(new ProtocolError('unsupported', message));
  };

  flush(): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#open('flush', '', {}, undefined, {
        kind: 'flush',
        onEnd: ({ error }) => (error === undefined ? resolve() : reject(unpackError(error))),
        onFailed: reject,
      });
    });
  }

  // --- from the host

  handleBegun({ call, id }: Extract<FromHost, { type: 'begun' }>): void {
    const open = this.#calls.get(call);
    if (open?.reply !== undefined) open.reply.id = id;
    if (open !== undefined) this.#release(open);
  }

  handlePart({ call, message, head }: Extract<FromHost, { type: 'part' }>): void {
    const reply = this.#calls.get(call)?.reply;
    reply?.handleHead(head);
    reply?.handlePart(message);
  }

  handleEnd(end: End): void {
    this.#options.onStats(end.stats);
    this.#handleOver(end.call);
    const open = this.#calls.get(end.call);
    if (open === undefined) return this.#received(end);
    this.#calls.delete(end.call);
    open.onEnd(end);
    this.#release(open);
    this.#onProgress();
  }

  /** The host has room for another request. */
  #handleOver(call: number): void {
    if (this.#begun.delete(call)) this.#queue.wake();
  }

  /** Resolves when the session has taken every message. */
  async sent(): Promise<void> {
    while (this.#isSending) {
      await new Promise<void>((resolve) => {
        this.#onProgress = resolve;
      });
    }
  }

  /** Messages and requests that are not complete. */
  get openCalls(): number {
    return this.#calls.size;
  }

  get #isSending(): boolean {
    return [...this.#calls.values()].some(({ kind }) => kind === 'message');
  }

  /** Calls that are not known to be delivered. */
  unconfirmed(): Pick<SessionReset, 'notSent' | 'unknown'> {
    const waiting = new Set(this.#waiting.map(({ call }) => call));
    const bodies = (isWaiting: boolean) =>
      [...this.#calls].flatMap(([call, { kind, reply }]): UnconfirmedBody[] =>
        kind === 'flush' || (waiting.has(call) || this.#queue.has(call)) !== isWaiting
          ? []
          : [{ kind, streamId: reply?.id ?? 0 }],
      );
    return { notSent: bodies(true), unknown: bodies(false) };
  }

  /** The host or the session is gone: every call fails. */
  end(error: Error): void {
    this.#ended ??= error;
    this.#waiting = [];
    const calls = [...this.#calls];
    this.#calls.clear();
    for (const [call, { stopTimer, onFailed }] of calls) {
      this.#queue.leave(call);
      stopTimer?.();
      onFailed(error);
    }
    this.#onProgress();
  }

  // --- to the host

  /** Returns the number of the call. @throws {ProtocolError} `too_many_streams` if too much waits. */
  #open(
    verb: Call['verb'],
    content: Content,
    options: Call['options'],
    agent: string | undefined,
    handlers: Pick<OpenCall, 'kind' | 'reply' | 'onEnd' | 'onFailed'>,
  ): number {
    if (this.#ended !== undefined) throw this.#ended;
    const { clock } = this.#options;
    const { timeoutMs = Infinity } = options;
    const call = ++this.#last;
    const body = ownContent(content) as WaitingCall['body'];
    const charge = chargeOf({ length: sizeOf(body) });
    const open: OpenCall = { ...handlers, charge, isUploading: false, deadline: clock.now() + timeoutMs };
    const isRequest = handlers.kind === 'request';
    const begin = (): void => {
      if (isRequest) this.#begun.add(call);
      this.#waiting.push({ type: 'call', call, verb, body, options, agent });
      this.#upload();
    };
    const isNext = !isRequest || this.#queue.isOpen;
    if (!isNext) this.#queue.enter(call, sizeOf(body), begin);
    this.#calls.set(call, open);
    if (timeoutMs !== Infinity) open.stopTimer = clock.after(timeoutMs, () => this.#expire(call, timeoutMs));
    if (isNext) begin();
    return call;
  }

  /** The time of a call is over that is not at the host yet. */
  #expire(call: number, timeoutMs: number): void {
    const open = this.#calls.get(call);
    const why = this.#queue.has(call) ? `; ${this.#queue.limit} were open` : '';
    this.#withdraw(call);
    open?.onFailed(new ProtocolError('timeout', `no reply within ${timeoutMs} ms${why}`));
  }

  /** Passes on what the host has room for. */
  #upload(): void {
    for (let next = this.#waiting[0]; next !== undefined; next = this.#waiting[0]) {
      const open = this.#calls.get(next.call);
      if (open !== undefined) {
        if (!this.#uploads.hasRoom(open.charge)) return;
        if (isBlob(next.body)) return void this.#readBlob(next, next.body);
        open.isUploading = true;
        this.#uploads.add(open.charge);
      }
      this.#waiting.shift();
      if (open !== undefined) this.#pass(next as Call, open);
    }
  }

  /** One that was withdrawn may never be read, and no other one waits for it. */
  async #readBlob(call: WaitingCall, blob: BlobBody): Promise<void> {
    if (this.#read === call) return;
    this.#read = call;
    try {
      call.body = await readBlob(blob, this.limits.maxMessageSize);
    } catch (error) {
      const open = this.#calls.get(call.call);
      this.#withdraw(call.call);
      open?.onFailed(error as ProtocolError);
    }
    this.#upload();
  }

  #pass(call: Call, open: OpenCall): void {
    try {
      const { body, options } = call;
      const { deadline } = open;
      open.stopTimer?.();
      const timeoutMs = Math.max(1, deadline - this.#options.clock.now());
      const passed = deadline === Infinity ? call : { ...call, options: { ...options, timeoutMs } };
      const view = typeof body === 'string' || body instanceof Uint8Array ? body : body.tokens;
      this.#options.pipe.post(passed, typeof view === 'string' ? [] : [view.buffer as ArrayBuffer]);
    } catch (cause) {
      this.#calls.delete(call.call);
      const message = 'metadata: expected values that can be encoded';
      // The caller does not know the number of the call yet.
      queueMicrotask(() => open.onFailed(new ProtocolError('invalid_argument', message, { cause })));
      this.#uploads.release(open.charge);
      this.#handleOver(call.call);
    }
  }

  #release(open: OpenCall): void {
    if (!open.isUploading) return;
    open.isUploading = false;
    this.#uploads.release(open.charge);
    this.#upload();
  }

  /** Takes a call back that is not at the host yet. */
  #withdraw(call: number): boolean {
    const at = this.#waiting.findIndex((waiting) => waiting.call === call);
    if (at >= 0) this.#waiting.splice(at, 1);
    else if (!this.#queue.leave(call)) return false;
    this.#calls.get(call)?.stopTimer?.();
    this.#calls.delete(call);
    this.#handleOver(call);
    this.#onProgress();
    // It may have been the first one, which the others wait for.
    this.#upload();
    return true;
  }

  #cancel(call: number): void {
    if (!this.#calls.has(call) || this.#withdraw(call)) return;
    const open = this.#calls.get(call);
    this.#post({ type: 'cancel', call });
    this.#calls.delete(call);
    if (open !== undefined) this.#release(open);
  }

  /** The whole reply to a request that was cancelled meanwhile. */
  #received({ message }: End): void {
    if (message !== undefined) this.#post({ type: 'received', charge: chargeOfMessage(message) });
  }

  #post(message: FromTab): void {
    if (this.#ended === undefined) this.#options.pipe.post(message);
  }

  #traced(options: Call['options']): Call['options'] {
    const { metadata } = options;
    if (metadata?.['traceparent'] !== undefined) return options;
    const traceparent = atOnce(this.#options.traceparent?.(), 'traceparent');
    return traceparent === undefined ? options : { ...options, metadata: { ...metadata, traceparent } };
  }
}
