import {
  type CodedBody,
  type KeepOptions,
  type Limits,
  type Logger,
  ProtocolError,
} from '@parlance/protocol';
import {
  decodeFailure,
  encodeFailure,
  endpointOf,
  type KeptBefore,
  type KeptRequest,
  loggable,
  newReplyId,
  type ReplyKeeper,
  type ReplyRecorder,
  resolveKeepOptions,
  type TakenUp,
} from '@parlance/protocol/internal';
import type { EngineHead } from '../engine/logs/logs.js';
import type { ReplyHead } from '../engine/logs/reply.js';
import type { ServerEndpoint } from '../session/endpoint.js';
import type { Following } from './following.js';
import type { ReplyLog } from './log.js';
import type { ResolvedRepliesOptions } from './options.js';
import type { Owners } from './owners.js';
import { Recording, type RecordingOptions } from './recording.js';
import { recordsOf, yieldedOf } from './yielded.js';

export interface KeepingHost {
  readonly options: {
    readonly replies: ResolvedRepliesOptions;
    readonly limits: Limits;
    readonly logger: Logger;
  };
  /** Milliseconds of the process, for all that lasts. */
  readonly now: () => number;
  /** Unix milliseconds, for what is written down. */
  readonly date: () => number;
  /** A handler whose reply was kept has ended. */
  readonly onOver: () => void;
  readonly owners: Owners;
  readonly following: Following;
  readonly log: ReplyLog;
}

/** Begins the records of replies whose handlers run here, and continues those of nodes that have died. */
export class Keeping implements ReplyKeeper {
  /** Handlers whose replies are being recorded. */
  readonly running = new Map<string, Recording>();
  /** Replies that were to be kept and are not. */
  unkept = 0;
  readonly #host: KeepingHost;
  /** Sessions that another node continues. */
  readonly #left = new WeakSet<ServerEndpoint>();

  constructor(host: KeepingHost) {
    this.#host = host;
  }

  keep(
    request: KeptRequest,
    options: KeepOptions | undefined,
    { freed, id: known, yielded = [], isLost = false }: KeptBefore,
  ): ReplyRecorder | undefined {
    const { replies, limits } = this.#host.options;
    const { name, ttlMs, abandonAfterMs, share } = resolveKeepOptions(options, replies.ttlMs);
    if (ttlMs > replies.maxTtlMs) {
      throw new ProtocolError(
        'invalid_option',
        `keep.ttlMs: at most ${replies.maxTtlMs} ms are allowed here`,
      );
    }
    const { owners, date } = this.#host;
    const session = endpointOf(request.session) as ServerEndpoint;
    const id = known ?? newReplyId(this.#host.log.incarnation);
    const head: EngineHead = {
      id,
      owner: owners.of(session),
      principal: session.isAnonymous ? undefined : session.principal,
      name,
      share,
      encoding: session.negotiated.encoding ?? undefined,
      ttlMs,
      startedAt: date(),
      epoch: session.epoch,
      source: session.isDurable ? { session: session.id, stream: request.streamId } : undefined,
    };
    if (isLost) return this.#bury(head, session);
    const begun: { recording?: Recording } = {};
    const open = () => this.#host.log.open(head, (error, why) => begun.recording?.handleFailed(error, why));
    let opened: Promise<void> | undefined;
    try {
      opened = this.#open(open, request, id, freed);
    } catch (error) {
      this.#handleUnkept(session, id, error);
      return undefined;
    }
    begun.recording = this.#record(head, session, { request, abandonAfterMs, opened });
    for (const record of recordsOf(yielded, limits.maxJsonDepth)) void begun.recording.appendRecord(record);
    return begun.recording;
  }

  /**
   * No part can be read before the ID of the reply is recorded with its session. So a process that continues the
   * session knows of all parts that others have read.
   *
   * @throws {ProtocolError} `too_many_replies`, `over_budget`.
   */
  #open(
    open: () => Promise<void> | void,
    request: KeptRequest,
    id: string,
    freed: Promise<void> | undefined,
  ): Promise<void> | undefined {
    const marked = request.mark(id);
    const before = marked === undefined ? freed : marked.then(() => freed);
    return (before === undefined ? open() : before.then(open)) ?? undefined;
  }

  /** Continues the reply of a node that has died. Never rejects. */
  async takeUp(request: KeptRequest, id: string, yielded: readonly CodedBody[]): Promise<TakenUp> {
    const session = endpointOf(request.session) as ServerEndpoint;
    try {
      const records = recordsOf(yielded, this.#host.options.limits.maxJsonDepth);
      const taken = await this.#goOn(request, session, id, records);
      if (taken.state === 'unkept') this.#handleUnkept(session, id, undefined);
      return taken;
    } catch (error) {
      this.#handleUnkept(session, id, error);
      return { state: 'unkept' };
    }
  }

  /**
   * As long as the engine does not answer, this node cannot know which parts others have read, so the handler waits. The requester gets
   * all of them, also if the log takes no more.
   *
   * @param records the parts that are recorded with the session.
   */
  async #goOn(
    request: KeptRequest,
    session: ServerEndpoint,
    id: string,
    records: readonly Uint8Array[],
  ): Promise<TakenUp> {
    const { limits } = this.#host.options;
    const begun: { recording?: Recording } = {};
    const gone = await this.#host.log.goOn(id, {
      epoch: session.epoch,
      after: records.length,
      onFailed: (error, why) => begun.recording?.handleFailed(error, why),
      isWanted: () => !session.hasEnded && request.isWanted(),
    });
    if (!('head' in gone)) {
      if (gone.outcome === 'ended') return { state: 'unkept' };
      return { state: gone.outcome === 'gone' && records.length === 0 ? 'unbegun' : 'lost' };
    }
    const { outcome, head, from, end } = gone;
    const rest = gone.rest.map(yieldedOf);
    if (outcome !== 'done') {
      const parts = records.length + rest.length;
      const recorder = this.#record(head, session, { request, parts, isOver: true });
      recorder.isFull = outcome === 'given_up';
      if (recorder.isFull) return { state: 'unkept', recorder, rest };
      const failure = end?.failure;
      const error = failure && decodeFailure(failure, limits.maxJsonDepth);
      return { state: 'found', recorder, rest, end: { error, metadata: end?.metadata } };
    }
    const recorder = this.#record(head, session, { request, parts: from.parts });
    begun.recording = recorder;
    if (session.hasEnded) return this.#letGo(recorder, session);
    for (const record of records.slice(from.parts)) void recorder.appendRecord(record);
    return { state: 'found', recorder, rest };
  }

  /** The session has ended while the engine was asked for the reply. */
  #letGo(recorder: Recording, session: ServerEndpoint): TakenUp {
    if (this.#left.has(session)) recorder.leave(left());
    else recorder.stop(new ProtocolError('interrupted', 'the session ended before its handler continued'));
    return { state: 'unkept' };
  }

  /** The record of the reply is lost. Followers of its name get an error that says so, and no other reply. */
  #bury(head: ReplyHead, session: ServerEndpoint): undefined {
    const error = new ProtocolError(
      'interrupted',
      'the record of the reply was lost with the node that had it',
    );
    this.#handleUnkept(session, head.id, error);
    const end = { at: this.#host.date(), failure: encodeFailure(error), metadata: undefined };
    const log = this.#host.log;
    try {
      const opened = log.open(head, () => {});
      if (opened === undefined) void log.end(head.id, end);
      else opened.then(() => log.end(head.id, end)).catch(() => {});
    } catch {
      // There is no room, not even for that.
    }
  }

  #record(
    head: EngineHead,
    session: ServerEndpoint,
    rest: Pick<RecordingOptions, 'request' | 'parts' | 'isOver' | 'opened'> & {
      readonly abandonAfterMs?: number;
    },
  ): Recording {
    const { id, ttlMs } = head;
    const { options, now, date, owners, following, onOver } = this.#host;
    const handleEnded = rest.isOver === true ? () => {} : owners.handleKept(session);
    const recording: Recording = new Recording({
      abandonAfterMs: ttlMs,
      ...rest,
      id,
      log: this.#host.log,
      logger: options.logger,
      now,
      date,
      read: (after) => following.present({ ...head, parts: 0, end: undefined }, session, after),
      onUnkept: (error) => this.#handleUnkept(session, id, error),
      onOver: () => {
        if (this.running.get(id) === recording) this.running.delete(id);
        handleEnded(now() + ttlMs);
        onOver();
      },
    });
    if (rest.isOver !== true) this.running.set(id, recording);
    return recording;
  }

  #handleUnkept(session: ServerEndpoint, id: string, error: unknown): void {
    this.unkept++;
    const fields = { event: 'reply.unkept', reply: id, session: session.id, err: error && loggable(error) };
    this.#host.options.logger.warn(fields, 'a reply is not kept, and is sent as usual');
  }

  /** Stops every handler whose reply is kept. */
  stopAll(reason: ProtocolError): void {
    for (const recording of [...this.running.values()]) recording.stop(reason);
  }

  /** Another node has a session, or will. Handlers that are called again there stop here. */
  handleLeft(session: ServerEndpoint): void {
    this.#left.add(session);
    for (const recording of [...this.running.values()]) {
      if (recording.goesOnFrom(session)) recording.leave(left());
    }
  }
}

const left = () => new ProtocolError('interrupted', 'another node continues the session');
