import { ProtocolError } from '@parlance/protocol';
import { assertOptions, DEFAULT_REPLY_TTL_MS, type OptionKinds } from '@parlance/protocol/internal';
import type { KeepPolicy } from '../session/keep-policy.js';
import type { ReplyLogOptions } from './log.js';

/** Asks whether a principal may follow or stop a reply that belongs to another one. */
export interface ReplyQuestion {
  /** The principal that asks; `undefined` without `authenticate`. */
  readonly principal: string | undefined;
  readonly reply: {
    readonly id: string;
    /** The principal to which the reply belongs; `undefined` without `authenticate`. */
    readonly owner: string | undefined;
    /** The value that the handler passed to `keep` as `share`. */
    readonly share: unknown;
  };
  readonly action: 'follow' | 'stop';
}

export interface RepliesOptions {
  /**
   * Keeps every reply (`true` or options), or those for which a function returns `true` or options. A reply that cannot
   * be kept because a bound is met is sent as usual, and logged.
   *
   * @default only replies whose handler calls `keep`
   */
  readonly keep?: KeepPolicy | undefined;
  /**
   * Whether others than the owner may follow or stop a reply whose handler passed `share` to `keep`. Anything but `true`
   * means no, also an error. @default only the owner may
   */
  readonly authorize?: ((question: ReplyQuestion) => boolean | Promise<boolean>) | undefined;
  /**
   * Replies of one principal that are kept at a time. Without an engine the oldest one that has ended goes for the next.
   *
   * @default 1,000
   */
  readonly maxReplies?: number | undefined;
  /** Bytes of memory of one kept reply. @default 4 MiB */
  readonly maxReplyBytes?: number | undefined;
  /**
   * Bytes of memory of all kept replies of one principal. Without an engine the oldest ones that have ended go for the next.
   *
   * @default 32 MiB
   */
  readonly maxOwnerBytes?: number | undefined;
  /**
   * Bytes of memory of all kept replies; with an engine, of those that the process writes. Only the memory of the
   * process counts, objects included. A principal may have a third of what is free for replies that are being written,
   * so a quarter of all if it is alone. If there is no room, ended replies of the principal that holds most go.
   *
   * @default 256 MiB
   */
  readonly maxBytes?: number | undefined;
  /** Milliseconds for which a reply is kept after its end, unless its handler chooses otherwise. @default 600,000 */
  readonly ttlMs?: number | undefined;
  /** The longest time that a handler may choose, in milliseconds. @default 86,400,000: a day */
  readonly maxTtlMs?: number | undefined;
}

export interface ResolvedRepliesOptions {
  readonly keep: KeepPolicy;
  readonly authorize: RepliesOptions['authorize'];
  readonly ttlMs: number;
  readonly maxTtlMs: number;
  readonly bounds: ReplyLogOptions['bounds'];
}

/** Options of former versions. */
interface Former {
  readonly store?: unknown;
}

const KINDS: OptionKinds<RepliesOptions & Former> = {
  store: 'any',
  keep: ['flag', 'object', 'function'],
  authorize: 'function',
  maxReplies: 'number',
  maxReplyBytes: 'number',
  maxOwnerBytes: 'number',
  maxBytes: 'number',
  ttlMs: 'number',
  maxTtlMs: 'number',
};

const MIB = 1024 * 1024;

/** @throws {ProtocolError} `invalid_option`. */
export function resolveRepliesOptions(options: RepliesOptions = {}): ResolvedRepliesOptions {
  assertOptions(options, KINDS, 'keptReplies');
  if ((options as Former).store !== undefined)
    throw new ProtocolError(
      'invalid_option',
      'keptReplies.store: leave it out; replies are kept in the engine if there is one, and else in memory',
    );
  const { keep = false, authorize, maxTtlMs = 86_400_000 } = options;
  const {
    maxReplies = 1_000,
    maxReplyBytes = 4 * MIB,
    maxOwnerBytes = 32 * MIB,
    maxBytes = 256 * MIB,
  } = options;
  const { ttlMs = Math.min(DEFAULT_REPLY_TTL_MS, maxTtlMs) } = options;
  const bounds = { maxReplies, maxReplyBytes, maxOwnerBytes, maxBytes };
  for (const [name, value] of Object.entries({ ...bounds, ttlMs, maxTtlMs })) {
    if (!(value > 0))
      throw new ProtocolError('invalid_option', `keptReplies.${name} must be more than 0, not ${value}`);
  }
  return { keep, authorize, ttlMs, maxTtlMs, bounds };
}
