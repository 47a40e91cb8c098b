import { parts } from '#parts';
import { called } from '../../base/callbacks.js';
import { REPLIES } from '../../base/constants.js';
import { ProtocolError } from '../../base/errors.js';
import { assertOptions, type OptionKinds } from '../../base/options.js';
import { NONE } from '../call-options.js';
import type { Session } from '../session.js';
import type { UserOutbound, UserSessionHost } from '../user-session-host.js';
import type { Verbs } from '../verbs.js';
import { canFollow, Following, type FollowOptions, replyTarget } from './follow.js';

/** `session.follow` and `session.replies`. */

export const replyVerbs = {
  follow(host, reply, options = NONE) {
    assertFollowOptions(reply, options);
    const { after = 0, signal } = options;
    signal?.throwIfAborted();
    const target = replyTarget(reply);
    const metadata = { follow: after === 0 ? target : { ...target, after } };
    const stop = () =>
      called(async () => void (await keeperOf(host).request('', { metadata: { stop: target } }, REPLIES)));
    return new Following(keeperOf(host).stream('', { metadata, signal }, REPLIES), after, stop);
  },
  replies: (host) =>
    called(async () => {
      const { readReplies } = await parts.requests.load();
      return await readReplies(keeperOf(host).stream('', { metadata: { list: {} } }, REPLIES));
    }),
} satisfies Verbs<Session, UserSessionHost>;

/** @throws {ProtocolError} `unsupported`, `session_closed`. */
function keeperOf({ outbound, negotiated, reachesAgents }: UserSessionHost): UserOutbound {
  if (!reachesAgents) throw new ProtocolError('unsupported', 'only a client follows replies');
  if (canFollow(negotiated)) return outbound;
  throw new ProtocolError(
    'unsupported',
    'the server keeps no replies: the extension "replies" was not agreed on',
  );
}

const FOLLOW: OptionKinds<FollowOptions> = { after: 'number', signal: 'signal' };
const MAX_REPLY = 128;

/** @throws {ProtocolError} `invalid_option`, `invalid_argument`. */
function assertFollowOptions(reply: unknown, options: FollowOptions): void {
  if (typeof reply !== 'string' || reply === '' || reply.length > MAX_REPLY) {
    throw new ProtocolError('invalid_argument', `reply: expected an ID or a name of 1 to ${MAX_REPLY} bytes`);
  }
  if (options === NONE) return;
  assertOptions(options, FOLLOW);
  const { after = 0 } = options;
  if (Number.isSafeInteger(after) && after >= 0) return;
  throw new ProtocolError('invalid_option', `after: expected a number of parts, not ${after}`);
}
