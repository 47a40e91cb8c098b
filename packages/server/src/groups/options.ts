import { type Logger, ProtocolError } from '@parlance/protocol';
import { ask, assertOptions, loggable, type OptionKinds } from '@parlance/protocol/internal';
import type { ServerSession } from '../session/served-session.js';

export interface GroupsOptions {
  /**
   * Whether a session may be a member of a group: called by each `add` that makes it one, so it must return synchronously.
   * Throwing refuses. It is not called again at the node where the session continues.
   *
   * @default any session, as only the code of the server adds one
   */
  readonly authorize?: ((session: ServerSession, group: string) => boolean) | undefined;
  /** Groups of one session. @default 256 */
  readonly maxGroups?: number | undefined;
  /** Members that one group has at one node. @default 100_000 */
  readonly maxMembers?: number | undefined;
  /** Bytes of the names of all groups of one session, in UTF-8. @default 16_384 */
  readonly maxNameBytes?: number | undefined;
  /** Bytes of the JSON that a member shows of itself, at most 1,024. @default 1_024 */
  readonly maxDataBytes?: number | undefined;
}

export type ResolvedGroupsOptions = ReturnType<typeof resolveGroupsOptions>;

const KINDS: OptionKinds<GroupsOptions> = {
  authorize: 'function',
  maxGroups: 'number',
  maxMembers: 'number',
  maxNameBytes: 'number',
  maxDataBytes: 'number',
};
/** Bytes of the data of a member, as other nodes take them. */
export const MAX_DATA = 1_024;
/** Groups of a session, as other nodes take them. */
export const MAX_GROUPS = 10_000;
const BOUNDS = {
  maxGroups: { value: 256, most: MAX_GROUPS },
  maxMembers: { value: 100_000, most: Number.MAX_SAFE_INTEGER },
  maxNameBytes: { value: 16 * 1024, most: Number.MAX_SAFE_INTEGER },
  maxDataBytes: { value: MAX_DATA, most: MAX_DATA },
} as const;

/** @throws {ProtocolError} `invalid_option`. */
export function resolveGroupsOptions(options: GroupsOptions) {
  assertOptions(options, KINDS, 'groups');
  const bound = (name: keyof typeof BOUNDS): number => {
    const { value, most } = BOUNDS[name];
    const given = options[name] ?? value;
    if (Number.isSafeInteger(given) && given >= 0 && given <= most) return given;
    throw new ProtocolError('invalid_option', `groups.${name} must be a whole number from 0 to ${most}`);
  };
  return {
    authorize: options.authorize,
    maxGroups: bound('maxGroups'),
    maxMembers: bound('maxMembers'),
    maxNameBytes: bound('maxNameBytes'),
    maxDataBytes: bound('maxDataBytes'),
  };
}

/** Whether a session may be a member. */
export function mayJoin(
  { authorize }: Pick<ResolvedGroupsOptions, 'authorize'>,
  session: ServerSession,
  group: string,
  logger: Logger,
): boolean {
  if (authorize === undefined) return true;
  const onThrown = (error: unknown) => {
    const fields = { event: 'groups.authorize_failed', err: loggable(error) };
    logger.error(fields, 'groups.authorize threw; the session is not added');
    return false;
  };
  return ask(
    () => authorize(session, group),
    (answer) => answer === true,
    onThrown,
  );
}
