import { Extension, ProtocolError } from '@parlance/protocol';
import {
  get,
  isFields,
  listsOf,
  orNull,
  REPLIES,
  REPLY_ID_PREFIX,
  systemClock,
  ValueList,
} from '@parlance/protocol/internal';
import { DURABLE } from '../cluster/durable-sessions.js';
import { sealedReplies } from '../engine/logs/sealed.js';
import type { Feature, Figure } from '../server/features/feature.js';
import { one } from '../server/features/figures.js';
import {
  NODE,
  type OwnHooks,
  type OwnHost,
  type OwnName,
  type ThisNode,
} from '../server/features/own-feature.js';
import type { Slot } from '../server/features/slot.js';
import type { ServerEndpoint } from '../session/endpoint.js';
import { type FollowState, Follows } from './follows.js';
import { type RepliesOptions, resolveRepliesOptions } from './options.js';
import { Replies, type RepliesNode } from './replies.js';

/** Replies that outlive the session that has asked for them. On by default. */
export const keptReplies = (given: RepliesOptions = {}): Feature => ({
  name: 'replies',
  after: ['metrics', 'tracing', 'scan', NODE, DURABLE],
  install(host: OwnHost): OwnHooks {
    const options = resolveRepliesOptions(given);
    const follows = host.slot((session) => new Follows(session));
    const replies = new Replies({
      follows,
      options: { ...host.options, replies: options },
      now: () => systemClock.now(),
      date: Date.now,
      onOver: () => host.settled(),
      node: nodeOf(host),
    });
    return partOf(replies, follows, host);
  },
});

/** The engine, where the replies outlive this process, and all nodes read them. */
function nodeOf(host: OwnHost): RepliesNode {
  const { seal, timers } = host.options;
  const node = host.use(NODE) as ThisNode;
  const recorded = host.use(DURABLE);
  const engine = node.engine?.connectLogs?.();
  if (node.engine !== undefined && engine === undefined)
    throw new ProtocolError(
      'invalid_option',
      "replies: the engine keeps none; use another one, or without('replies')",
    );
  return {
    engine: engine && seal ? sealedReplies(engine, seal) : engine,
    incarnation: node.incarnation,
    isAlive: (other) => node.lives(other),
    // The handler of a requester whose session is recorded is called again.
    ...(recorded && {
      awaitMs: timers.resumeWindowMs,
      isAwaited: (source, id) => recorded.isAwaited(source, id),
    }),
  };
}

function partOf(
  replies: Replies,
  follows: Slot<Follows, ServerEndpoint>,
  { changed, options: { engine } }: OwnHost,
): OwnHooks {
  const name: OwnName = {
    extension: Extension.REPLIES,
    handlerFor: (session, stream, yielded) => replies.handlerFor(session, stream, yielded),
  };
  return {
    extensions: [Extension.REPLIES],
    endpoint: { keeper: replies.keeping },
    names: { [REPLIES]: name },
    figures: [...figuresOf(replies), ...(engine === undefined ? [] : [watchedOf(replies)])],
    drain: {
      get running() {
        return replies.keeping.running.size;
      },
      cut: (reason) => replies.keeping.stopAll(reason),
    },
    wrap: (next) => replies.keepChosen(next),
    admit({ resume }) {
      if (resume === undefined) return undefined;
      return { accepted: (session) => void replies.adopt(session, resume).then(() => changed(session)) };
    },
    leaves: (session, stream, how) => how === 'move' && follows.peek(session)?.has(stream) === true,
    save(session, how) {
      const { owners } = replies;
      const ownerOf = () => (how === 'move' ? owners.moving(session) : owners.foreign(session));
      const owner = session.isAnonymous ? ownerOf() : undefined;
      // A recorded session needs no state of its follows, as replies are recorded themselves.
      const states = (how === 'move' ? follows.peek(session)?.states : undefined) ?? [];
      if (owner === undefined && states.length === 0) return undefined;
      return { owner: orNull(owner), follows: states.map(followValues) };
    },
    load(saved) {
      const fields = isFields(saved) ? saved : {};
      const owner = new ValueList([get(fields, 'owner')], 'the owner').optional((one) => one.text(MAX_OWNER));
      const states = listsOf(get(fields, 'follows'), 'a follower', readFollow);
      return (session, from) => {
        if (owner !== undefined) replies.restoreOwner(session, owner, from !== undefined);
        for (const state of states) replies.resume(session, state);
      };
    },
    ended: (session: ServerEndpoint, error: ProtocolError | undefined) => replies.handleEnded(session, error),
    tick: () => replies.sweep(),
    async close(reason: ProtocolError) {
      replies.keeping.stopAll(reason);
      await replies.close();
    },
  };
}

const MAX_OWNER = 128;
const MAX_ID = 64;
const IS_TOLD = 1;
const HAS_PARTS = 2;

function followValues({ stream, id, next, isTold, hasParts }: FollowState): readonly unknown[] {
  return [stream, id, next, (isTold ? IS_TOLD : 0) | (hasParts ? HAS_PARTS : 0)];
}

function readFollow(list: ValueList): FollowState {
  const stream = list.count(0xffff_ffff);
  const id = list.text(MAX_ID);
  if (!id.startsWith(REPLY_ID_PREFIX)) throw list.bad('of a kept reply');
  const next = list.count(Number.MAX_SAFE_INTEGER);
  const flags = list.count(IS_TOLD | HAS_PARTS);
  return { stream, id, next, isTold: (flags & IS_TOLD) !== 0, hasParts: (flags & HAS_PARTS) !== 0 };
}

function figuresOf(replies: Replies): readonly Figure[] {
  return [
    {
      name: 'replies_kept',
      help: 'Replies that are kept, by whether their handlers run.',
      labels: ['state'],
      read(set) {
        const { size: running } = replies.keeping.running;
        set(running, { state: 'running' });
        set(Math.max(0, replies.usage.replies - running), { state: 'over' });
      },
    },
    one('replies_kept_bytes', 'Bytes of memory of all kept replies.', () => replies.usage.bytes),
    one('replies_followers', 'Sessions that follow a reply whose handler runs.', () => replies.followers),
    one(
      'replies_unkept',
      'Replies that were to be kept, and for which there was no room.',
      () => replies.keeping.unkept,
      COUNT,
    ),
    one(
      'replies_dropped',
      'Kept replies that had to go before their time, to make room.',
      () => replies.dropped,
      COUNT,
    ),
  ];
}

const COUNT = { isCount: true };

const watchedOf = (replies: Replies): Figure =>
  one(
    'replies_read_elsewhere',
    'Kept replies of other nodes that sessions of this one read.',
    () => replies.watched,
  );
