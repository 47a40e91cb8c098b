import {
  type KeepOptions,
  type Limits,
  type Logger,
  type M2MSecurity,
  ProtocolError,
  type RequestContext,
  type RequestHandler,
  type ResumeOffer,
} from '@parlance/protocol';
import {
  type CodedPart,
  endpointOf,
  type Fields,
  get,
  type KeptRequest,
  loggable,
  newReplyId,
  type OwnHandler,
  REPLY_ID_PREFIX,
  type ReplyKeeper,
  type ReplyRecorder,
  resolveKeepOptions,
  toProtocolError,
} from '@parlance/protocol/internal';
import type { RepliesSource } from '../cluster/replies/replies-source.js';
import type { ServerEndpoint } from '../endpoint.js';
import { NO_BODY } from '../no-body.js';
import { ClusterReplies, type RepliesNode } from './cluster-replies.js';
import type { EngineReplyLog } from './engine-log.js';
import { Following, unknownReply } from './following.js';
import type { FollowState } from './follows.js';
import type { HandedOver } from './hand-over.js';
import { isKeptByPolicy, keepReplies } from './keep-policy.js';
import { listReplies } from './list.js';
import type { NodeReplyLog, ReplyEntry, ReplyLog } from './log.js';
import { createReplyLog, type ReplyQuestion, type ResolvedRepliesOptions } from './options.js';
import { Owners } from './owners.js';
import { RecordCoders } from './reader.js';
import { Recording } from './recording.js';
import { Turns } from './turns.js';
import { readWish } from './wish.js';

export interface RepliesHost {
  readonly options: {
    readonly replies: ResolvedRepliesOptions;
    readonly limits: Limits;
    readonly security: M2MSecurity | undefined;
    readonly logger: Logger;
  };
  /** Unix milliseconds. */
  readonly now: () => number;
  /** A handler whose reply was kept has ended. */
  readonly onOver: () => void;
}

/** The replies that a server keeps: it records them, and answers requests to the address `@replies`. */
export class Replies implements ReplyKeeper {
  readonly owners: Owners;
  readonly #host: RepliesHost;
  /** The replies in the memory of this node, and those of all nodes that can be read here. */
  readonly #local: NodeReplyLog;
  #log: ReplyLog;
  /** Where new ones are kept, if that is the engine of the cluster. */
  #engine: EngineReplyLog | undefined;
  #cluster: ClusterReplies | undefined;
  readonly #following: Following;
  /** Replies whose handlers run here. */
  readonly #running = new Map<string, Recording>();
  /** A list may take many questions to the application, so an owner gets one after the other. */
  readonly #lists = new Turns();

  constructor(host: RepliesHost) {
    this.#host = host;
    this.#local = this.#log = createReplyLog(host.options.replies);
    const coders = new RecordCoders(host.options);
    this.#following = new Following({
      limits: host.options.limits,
      coders,
      running: this.#running,
      log: () => this.#log,
      own: () => this.#kept,
    });
    this.owners = new Owners();
  }

  /** Handlers whose replies are being recorded. */
  get running(): number {
    return this.#running.size;
  }

  get followers(): number {
    let count = 0;
    for (const { followers } of this.#running.values()) count += followers;
    return count;
  }

  get usage(): ReplyLog['usage'] {
    return this.#kept.usage;
  }

  /** Where the replies of this node are kept. */
  get #kept(): ReplyLog {
    return this.#engine ?? this.#local;
  }

  /** Replies of other nodes that are read here. */
  get watched(): number {
    return this.#engine?.watched ?? this.#cluster?.watched ?? 0;
  }

  /** Replies that other nodes have taken while this one drained, and that none has. */
  get handedOver(): HandedOver {
    return this.#cluster?.handedOver ?? { moved: 0, lost: 0 };
  }

  /** Makes the replies of all nodes of a cluster one. @returns those of this node, for the others. */
  join(node: RepliesNode): RepliesSource {
    const { logger, replies } = this.#host.options;
    const parts = { log: this.#local, running: this.#running, owners: this.owners, now: this.#host.now };
    this.#cluster = new ClusterReplies({ ...parts, logger, options: replies }, node);
    this.#engine = this.#cluster.engine;
    this.#log = this.#engine ?? this.#cluster.log;
    return this.#cluster.source;
  }

  /** Nothing more is kept or read. Never rejects. */
  async close(): Promise<void> {
    await this.#engine?.close();
  }

  /** A session begins in place of one that is gone, and may go on with its replies. */
  adopt(session: ServerEndpoint, resume: ResumeOffer): void {
    if (!this.owners.adopt(session, resume)) this.#cluster?.prove(session, resume);
  }

  /** Hands what has ended over to other nodes, and later what ends until {@link finishHandOver}. */
  beginHandOver(): void {
    this.#cluster?.beginHandOver();
  }

  /** Resolves when all is handed over, or `timeoutMs` have passed. */
  async finishHandOver(timeoutMs: number): Promise<void> {
    await this.#cluster?.finishHandOver(timeoutMs);
  }

  keep(request: KeptRequest, options: KeepOptions | undefined, freed?: Promise<void>): ReplyRecorder {
    const { replies, logger } = this.#host.options;
    const { name, ttlMs, abandonAfterMs, share } = resolveKeepOptions(options, replies.ttlMs);
    if (ttlMs > replies.maxTtlMs) {
      throw new ProtocolError(
        'invalid_option',
        `keep.ttlMs: at most ${replies.maxTtlMs} ms are allowed here`,
      );
    }
    const session = endpointOf(request.session) as ServerEndpoint;
    const id = newReplyId(this.#cluster?.incarnation);
    const head = {
      id,
      owner: this.owners.of(session),
      principal: session.isAnonymous ? undefined : session.principal,
      name,
      share,
      encoding: session.negotiated.encoding ?? undefined,
      ttlMs,
      startedAt: this.#host.now(),
    };
    const log = this.#kept;
    let recording: Recording | undefined;
    const open = () => log.open(head, (error, isFenced) => recording?.handleFailed(error, isFenced));
    const begun = (freed === undefined ? open() : freed.then(open)) ?? undefined;
    const opened = isKeptByPolicy()
      ? begun?.catch((error: unknown) =>
          recording?.handleFailed(toProtocolError(error, 'internal', 'the log of replies failed'), false),
        )
      : begun;
    const handleEnded = this.owners.handleKept(session);
    recording = new Recording({
      id,
      request,
      abandonAfterMs,
      log,
      logger,
      now: this.#host.now,
      opened,
      read: (after) => this.#following.present({ ...head, parts: 0, end: undefined }, session, after),
      onOver: () => {
        this.#running.delete(id);
        handleEnded(this.#host.now() + ttlMs);
        this.#host.onOver();
      },
    });
    this.#running.set(id, recording);
    return recording;
  }

  /** A handler whose replies are kept if the server's options say so. */
  keepChosen(handler: RequestHandler): RequestHandler {
    const { replies, logger } = this.#host.options;
    return keepReplies(handler, replies.keep, logger);
  }

  /** Answers a request to `@replies`. */
  handlerFor(session: ServerEndpoint, stream: number): OwnHandler {
    return (request, context) => {
      const wish = readWish(request.metadata);
      if (wish.kind === 'follow') return this.#follow(session, stream, wish, context);
      if (wish.kind === 'stop') return this.#stop(session, wish.target).then(() => '');
      return this.#list(session, context.signal);
    };
  }

  /** Stops every handler whose reply is kept. */
  stopAll(reason: ProtocolError): void {
    for (const recording of [...this.#running.values()]) recording.stop(reason);
  }

  /** Call it about once a second. */
  sweep(): void {
    for (const recording of [...this.#running.values()]) recording.checkRead();
    this.#kept.sweep(this.#host.now());
    this.#cluster?.sweep();
    this.owners.sweep(this.#host.now());
  }

  // --- following

  async *#follow(
    session: ServerEndpoint,
    stream: number,
    { target, after }: { readonly target: Fields; readonly after: number },
    context: RequestContext,
  ): AsyncGenerator<CodedPart> {
    const reply = await this.#find(session, target, 'follow');
    yield* this.#following.begin(session, reply, { stream, after }, context);
  }

  /** Goes on with a request of a session that has come from another node. */
  resume(session: ServerEndpoint, state: FollowState): void {
    void session.answer(state.stream, NO_BODY, (_request, context) =>
      this.#following.goOn(session, state, context),
    );
  }

  async #stop(session: ServerEndpoint, target: Fields): Promise<void> {
    const { id, end } = await this.#find(session, target, 'stop');
    const { principal = 'unknown' } = session;
    const recording = this.#running.get(id);
    if (recording !== undefined) recording.stop(new ProtocolError('cancelled', 'the reply was stopped'));
    else if (!this.#local.has(id) && (this.#engine === undefined || end === undefined))
      await this.#cluster?.stop(id, principal);
    this.#host.options.logger.debug({ event: 'reply.stopped', reply: id, principal }, 'a reply was stopped');
  }

  async *#list(session: ServerEndpoint, signal: AbortSignal): AsyncGenerator<{ readonly json: unknown }> {
    await this.#cluster?.proven(session);
    const owner = this.owners.of(session);
    const turn = await this.#lists.next(owner);
    try {
      yield* listReplies(this.#log.list(owner), {
        owner,
        mayFollow: (entry) => this.#mayTouch(session, entry, 'follow'),
        rest: async () => session.options.yield?.(),
        signal,
      });
    } finally {
      turn.over();
    }
  }

  // --- who may

  /** @throws {ProtocolError} `unknown_reply`, also if the session may not do that. */
  async #find(session: ServerEndpoint, target: Fields, action: ReplyQuestion['action']): Promise<ReplyEntry> {
    const [id, name] = [get(target, 'id'), get(target, 'name')];
    await this.#cluster?.proven(session);
    const owner = this.owners.of(session);
    const isId = typeof id === 'string' && id.startsWith(REPLY_ID_PREFIX);
    const found = isId
      ? await this.#log.find({ id })
      : typeof name === 'string'
        ? await this.#log.find({ owner, name })
        : undefined;
    if (found !== undefined && (found.owner === owner || (await this.#mayTouch(session, found, action)))) {
      return found;
    }
    throw unknownReply();
  }

  async #mayTouch(
    { principal, isAnonymous }: ServerEndpoint,
    { id, principal: owner, share }: ReplyEntry,
    action: ReplyQuestion['action'],
  ): Promise<boolean> {
    const { replies, logger } = this.#host.options;
    if (replies.authorize === undefined || share === undefined) return false;
    try {
      const asker = isAnonymous ? undefined : principal;
      const question = {
        principal: asker,
        reply: { id, owner, share: JSON.parse(share) as unknown },
        action,
      };
      return (await replies.authorize(question)) === true;
    } catch (error) {
      const fields = { event: 'reply.unauthorized', reply: id, err: loggable(error) };
      logger.warn(fields, 'replies.authorize threw; the reply is not shown');
      return false;
    }
  }
}
