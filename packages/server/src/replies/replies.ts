import {
  type CodedBody,
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
  type Fields,
  get,
  loggable,
  type OwnHandler,
  REPLY_ID_PREFIX,
} from '@parlance/protocol/internal';
import { NO_BODY } from '../base/no-body.js';
import type { LocalReplies } from '../engine/logs/local.js';
import type { ReplyLogs } from '../engine/logs/logs.js';
import { memoryReplies } from '../engine/logs/memory.js';
import type { ReplyEntry } from '../engine/logs/reply.js';
import type { Slot } from '../server/features/slot.js';
import type { ServerEndpoint } from '../session/endpoint.js';
import { keepReplies } from '../session/keep-policy.js';
import { Following, unknownReply } from './following.js';
import type { FollowState, Follows } from './follows.js';
import { Keeping } from './keeping.js';
import { listReplies } from './list.js';
import { ReplyLog, type ReplyLogOptions } from './log.js';
import type { ReplyQuestion, ResolvedRepliesOptions } from './options.js';
import { Owners } from './owners.js';
import { OwnershipProof } from './ownership-proof.js';
import { readQuery } from './query.js';
import { RecordCoders } from './reader.js';
import { Turns } from './turns.js';
import { positionIn } from './yielded.js';

export interface RepliesHost {
  readonly options: {
    readonly replies: ResolvedRepliesOptions;
    readonly limits: Limits;
    readonly security: M2MSecurity | undefined;
    readonly logger: Logger;
  };
  /** The replies that each session follows. */
  readonly follows: Slot<Follows, ServerEndpoint>;
  /** Milliseconds of the process, for all that lasts. */
  readonly now: () => number;
  /** Unix milliseconds, for what is written down. */
  readonly date: () => number;
  /** A handler whose reply was kept has ended. */
  readonly onOver: () => void;
  readonly node: RepliesNode;
}

/** The work of one node for the replies of all nodes. */
export interface RepliesNode
  extends Pick<ReplyLogOptions, 'incarnation' | 'isAlive' | 'isAwaited' | 'awaitMs'> {
  /** `undefined` for the memory of the process. */
  readonly engine: ReplyLogs | undefined;
}

/** The replies that a server keeps: it records them, and answers requests to the address `@replies`. */
export class Replies {
  readonly owners = new Owners();
  readonly keeping: Keeping;
  readonly #host: RepliesHost;
  readonly #log: ReplyLog;
  readonly #ownership: OwnershipProof | undefined;
  readonly #following: Following;
  #dropped = 0;
  /** A list may take many questions to the application, so an owner gets one after the other. */
  readonly #lists = new Turns();

  constructor(host: RepliesHost) {
    this.#host = host;
    const { options, now, date: unixNow, node, follows } = host;
    const { logger, limits } = options;
    const { bounds, maxTtlMs } = options.replies;
    const { owners } = this;
    const common = { ...node, logger, bounds, now: unixNow };
    if (node.engine === undefined) {
      const { maxBytes } = bounds;
      const memory = memoryReplies(now, { maxBytes, onDropped: (reply) => this.#handleDropped(reply) });
      this.#log = new ReplyLog({ ...common, engine: memory, local: memory.local });
    } else {
      const { engine } = node;
      this.#log = new ReplyLog({ ...common, engine });
      this.#ownership = new OwnershipProof({ engine, logger, now, owners, maxTtlMs });
    }
    const coders = new RecordCoders(options);
    const recordingOf = (id: string) => this.keeping.running.get(id);
    this.#following = new Following({ limits, coders, follows, owners, recordingOf, log: this.#log });
    this.keeping = new Keeping({ ...host, owners, following: this.#following, log: this.#log });
  }

  /** Ended replies that had to go to make room for others. */
  get dropped(): number {
    return this.#dropped;
  }

  #handleDropped({ id, parts }: ReplyEntry): void {
    this.#dropped++;
    const fields = { event: 'reply.dropped', reply: id, parts };
    this.#host.options.logger.info(fields, 'a kept reply that has ended goes, to make room for others');
  }

  get followers(): number {
    let count = 0;
    for (const { followers } of this.keeping.running.values()) count += followers;
    return count;
  }

  get usage(): LocalReplies['usage'] {
    return this.#log.usage;
  }

  /** Replies of other nodes that are read here. */
  get watched(): number {
    return this.#log.watched;
  }

  /** Nothing more is kept or read. Never rejects. */
  async close(): Promise<void> {
    await this.#log.close();
  }

  /** A session begins in place of one that is gone, and may continue its replies. Resolves when that is known. */
  async adopt(session: ServerEndpoint, resume: ResumeOffer): Promise<void> {
    if (!this.owners.adopt(session, resume)) await this.#ownership?.prove(session, resume);
  }

  /** A handler whose replies are kept if the server's options say so. */
  keepChosen(handler: RequestHandler): RequestHandler {
    const { replies, logger } = this.#host.options;
    return keepReplies(handler, replies.keep, logger);
  }

  /** Answers a request to `@replies`. @param yielded what a node that has died has answered. */
  handlerFor(session: ServerEndpoint, stream: number, yielded: readonly CodedBody[] = []): OwnHandler {
    return (request, context) => {
      if (yielded.length > 0) return this.#goOn(session, stream, yielded, context);
      const query = readQuery(request.metadata);
      if (query.kind === 'follow') return this.#follow(session, stream, query, context);
      if (query.kind === 'stop') return this.#stop(session, query.target).then(() => '');
      return this.#list(session, context.signal);
    };
  }

  /** A session is over here. */
  handleEnded(session: ServerEndpoint, error: ProtocolError | undefined): void {
    this.#ownership?.update(session.id);
    if (session.hasMoved) this.owners.leave(session.id);
    if (session.isDurable && (session.hasMoved || error?.code === 'fenced')) this.keeping.handleLeft(session);
  }

  /** Call it about once a second. */
  sweep(): void {
    for (const recording of [...this.keeping.running.values()]) recording.checkRead();
    this.#log.sweep();
    this.#ownership?.updateAll();
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

  /** Continues a request of a session that was taken from a node that has died. */
  async *#goOn(
    session: ServerEndpoint,
    stream: number,
    yielded: readonly CodedBody[],
    context: RequestContext,
  ): AsyncGenerator<CodedPart> {
    const position = positionIn(yielded, this.#host.options.limits.maxJsonDepth);
    if (position === undefined)
      throw new ProtocolError('interrupted', 'the node that gave the list has died');
    await this.#find(session, position, 'follow');
    yield* this.#following.goOn(session, { ...position, stream, isTold: true }, context);
  }

  /** @param hasMoved it comes from another node, and not from its record. */
  restoreOwner(session: ServerEndpoint, key: string, hasMoved: boolean): void {
    const { now, options } = this.#host;
    this.owners.restore(session, key, hasMoved ? now() + options.replies.maxTtlMs : undefined);
  }

  /** Continues a request of a session that has come from another node. */
  resume(session: ServerEndpoint, state: FollowState): void {
    session.answer(state.stream, NO_BODY, (_request, context) =>
      this.#following.goOn(session, state, context),
    );
  }

  async #stop(session: ServerEndpoint, target: Fields): Promise<void> {
    const { id, end } = await this.#find(session, target, 'stop');
    const { principal = 'unknown' } = session;
    const recording = this.keeping.running.get(id);
    if (recording !== undefined) recording.stop(new ProtocolError('cancelled', 'the reply was stopped'));
    else if (end === undefined) await this.#log.cancel(id);
    this.#host.options.logger.debug({ event: 'reply.stopped', reply: id, principal }, 'a reply was stopped');
  }

  async *#list(session: ServerEndpoint, signal: AbortSignal): AsyncGenerator<{ readonly json: unknown }> {
    await this.#ownership?.proven(session);
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
  async #find(
    session: ServerEndpoint,
    target: Fields | { readonly id: string },
    action: ReplyQuestion['action'],
  ): Promise<ReplyEntry> {
    const [id, name] = [get(target, 'id'), get(target, 'name')];
    await this.#ownership?.proven(session);
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
