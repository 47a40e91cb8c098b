import { Extension, type ProtocolError, type ResumeOffer } from '@parlance/protocol';
import { listsOf, REPLIES, REPLY_ID_PREFIX, type ValueList } from '@parlance/protocol/internal';
import { CLUSTER } from '../cluster/port.js';
import type { ServerEndpoint } from '../endpoint.js';
import type { Feature, Figure, OwnName, Part } from '../parts/part.js';
import type { FollowState } from './follows.js';
import { type RepliesOptions, resolveRepliesOptions } from './options.js';
import { Replies } from './replies.js';

/** Replies that outlive the session that has asked for them. On by default. */
export const keptReplies = (given: RepliesOptions = {}): Feature => ({
  name: 'replies',
  after: ['metrics', 'tracing', 'scan', 'nodes', 'durable'],
  install(host) {
    const options = resolveRepliesOptions(given, host.options.engine);
    const replies = new Replies({
      options: { ...host.options, replies: options },
      now: Date.now,
      onOver: () => host.settled(),
    });
    const cluster = host.use(CLUSTER);
    cluster?.serveReplies(replies, options);
    return partOf(replies, cluster !== undefined);
  },
});

/** @param isShared whether other nodes read the replies. */
function partOf(replies: Replies, isShared: boolean): Part {
  const name: OwnName = {
    extension: Extension.REPLIES,
    handlerFor: (session, stream, said) => replies.handlerFor(session, stream, said),
  };
  return {
    extensions: [Extension.REPLIES],
    endpoint: { keeper: replies },
    names: { [REPLIES]: name },
    figures: [...figuresOf(replies), ...(isShared ? sharedFiguresOf(replies) : [])],
    drain: {
      get running() {
        return replies.running;
      },
      announce: () => replies.beginHandOver(),
      cut: (reason) => replies.stopAll(reason),
      finish: (timeoutMs) => replies.finishHandOver(timeoutMs),
    },
    wrap: (next) => replies.keepChosen(next),
    accepted(session: ServerEndpoint, resume: ResumeOffer | undefined) {
      if (resume !== undefined) replies.adopt(session, resume);
    },
    leaves: (session, stream, how) => how === 'move' && session.follows.has(stream),
    save({ follows: { states } }) {
      return states.length === 0 ? undefined : states.map(followValues);
    },
    load(saved) {
      const states = listsOf(saved, 'a follower', readFollow);
      return (session) => {
        for (const state of states) replies.resume(session, state);
      };
    },
    ended: (session: ServerEndpoint, error: ProtocolError | undefined) => replies.handleEnded(session, error),
    tick: () => replies.sweep(),
    close: (reason: ProtocolError) => replies.stopAll(reason),
  };
}

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
        const { running, usage } = replies;
        set(running, { state: 'running' });
        set(Math.max(0, usage.replies - running), { state: 'over' });
      },
    },
    {
      name: 'replies_kept_bytes',
      help: 'Bytes of memory of all kept replies.',
      read: (set) => set(replies.usage.bytes),
    },
    {
      name: 'replies_followers',
      help: 'Sessions that follow a reply whose handler runs.',
      read: (set) => set(replies.followers),
    },
    {
      name: 'replies_unkept',
      help: 'Replies that were to be kept, and for which there was no room.',
      isCount: true,
      read: (set) => set(replies.unkept),
    },
    {
      name: 'replies_dropped',
      help: 'Kept replies that had to go before their time, to make room.',
      isCount: true,
      read: (set) => set(replies.dropped),
    },
  ];
}

function sharedFiguresOf(replies: Replies): readonly Figure[] {
  return [
    {
      name: 'replies_read_elsewhere',
      help: 'Kept replies of other nodes that sessions of this one read.',
      read: (set) => set(replies.watched),
    },
    {
      name: 'replies_moved',
      help: 'Kept replies that had to go to another node, by whether one took them.',
      labels: ['outcome'],
      isCount: true,
      read(set) {
        const { moved, lost } = replies.handedOver;
        set(moved, { outcome: 'moved' });
        set(lost, { outcome: 'lost' });
      },
    },
  ];
}
