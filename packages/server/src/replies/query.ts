import { ProtocolError } from '@parlance/protocol';
import { type Fields, get, isCount, isFields } from '@parlance/protocol/internal';

/** The query of a request to `@replies`, read from its metadata. */
export type ReplyQuery =
  | { readonly kind: 'follow'; readonly target: Fields; readonly after: number }
  | { readonly kind: 'stop'; readonly target: Fields }
  | { readonly kind: 'list' };

/** Members of `follow` and `stop`. Beside these they would have no effect, and a reader would begin at 0. */
const MEMBERS = { follow: ['id', 'name', 'after'], stop: ['id', 'name'] } as const;

/**
 * Reads a query (docs/protocol/replies.md, Requests to `@replies`).
 *
 * @throws {ProtocolError} `unsupported` if there is none, and if it has another member, a member that stands beside
 * it, or an `after` that is no number of parts.
 */
export function readQuery(metadata: Fields): ReplyQuery {
  const [follow, stop] = [get(metadata, 'follow'), get(metadata, 'stop')];
  const beside = MEMBERS.follow.find((member) => get(metadata, member) !== undefined);
  if (beside !== undefined) throw bad(`${beside} belongs into follow, not beside it`);
  if (isFields(follow)) {
    assertMembers(follow, 'follow');
    const after = get(follow, 'after') ?? 0;
    if (!isCount(after)) throw bad('after must be a number of parts');
    return { kind: 'follow', target: follow, after };
  }
  if (isFields(stop)) {
    assertMembers(stop, 'stop');
    return { kind: 'stop', target: stop };
  }
  if (isFields(get(metadata, 'list'))) return { kind: 'list' };
  throw new ProtocolError('unsupported', 'a request to @replies must say follow, stop or list');
}

function assertMembers(target: Fields, kind: keyof typeof MEMBERS): void {
  const known: readonly string[] = MEMBERS[kind];
  const other = Object.keys(target).find((name) => !known.includes(name));
  if (other !== undefined) throw bad(`${kind} has no member ${JSON.stringify(other.slice(0, 64))}`);
}

const bad = (message: string) => new ProtocolError('unsupported', message);
