import { ProtocolError } from '../../base/errors.js';
import { assertOptions, type OptionKinds } from '../../base/options.js';
import { assertWellFormed, utf8Length } from '../../base/text.js';
import type { CodedBody } from '../../codec/body.js';
import type { Session } from '../session.js';

/**
 * Kept replies: the server records the parts of a reply in a log, from which the principal of the requester, and
 * others if `authorize` of the server's kept replies lets them, follow it: from any part, while it is written and afterwards.
 */

export interface KeepOptions {
  /**
   * A second name, beside the ID, by which its owner may follow the reply: 1 to 128 bytes, not beginning with
   * `reply_`. A name that is used again means the newest reply; the older ones keep their IDs.
   *
   * @default the reply has only its ID
   */
  readonly name?: string | undefined;
  /** Milliseconds for which the reply can be followed after its end. @default 600,000 */
  readonly ttlMs?: number | undefined;
  /**
   * Milliseconds after which the handler is stopped if neither its requester nor a follower reads the reply.
   *
   * @default ttlMs
   */
  readonly abandonAfterMs?: number | undefined;
  /**
   * Stored with the reply for `authorize` of kept replies, which decides by it who else may follow or stop the reply: any JSON
   * value of at most 1 KiB.
   *
   * @default none
   */
  readonly share?: unknown;
}

/** A reply that the server keeps. */
export interface KeptReply {
  /** `reply_` and 22 random letters and digits. */
  readonly id: string;
}

export interface ResolvedKeepOptions {
  readonly name: string | undefined;
  readonly ttlMs: number;
  readonly abandonAfterMs: number;
  /** As JSON. */
  readonly share: string | undefined;
}

/** The beginning of every ID, and of no name. */
export const REPLY_ID_PREFIX = 'reply_';
export const DEFAULT_REPLY_TTL_MS = 600_000;
/** Bytes. */
export const MAX_REPLY_NAME = 128;
const MAX_SHARE = 1024;

const KINDS: OptionKinds<KeepOptions> = {
  name: 'text',
  ttlMs: 'number',
  abandonAfterMs: 'number',
  share: 'any',
};

/** @throws {ProtocolError} `invalid_option`, `lone_surrogate`. */
export function resolveKeepOptions(
  options: KeepOptions = {},
  defaultTtlMs = DEFAULT_REPLY_TTL_MS,
): ResolvedKeepOptions {
  assertOptions(options, KINDS, 'keep');
  const { name, ttlMs = defaultTtlMs, abandonAfterMs = ttlMs } = options;
  for (const [option, value] of Object.entries({ ttlMs, abandonAfterMs })) {
    if (!(value > 0)) throw invalid(`keep.${option}: expected more than 0 milliseconds, not ${value}`);
  }
  if (name !== undefined) assertWellFormed(name);
  if (name !== undefined && !isReplyName(name)) {
    throw invalid(`keep.name: expected 1 to ${MAX_REPLY_NAME} bytes that do not begin with "reply_"`);
  }
  return { name, ttlMs, abandonAfterMs, share: encodeShare(options.share) };
}

/** Whether a reply may have this name. */
export function isReplyName(name: string): boolean {
  return (
    name !== '' &&
    !name.startsWith(REPLY_ID_PREFIX) &&
    name.length <= MAX_REPLY_NAME &&
    utf8Length(name) <= MAX_REPLY_NAME
  );
}

function encodeShare(share: unknown): string | undefined {
  if (share === undefined) return undefined;
  let json: string | undefined;
  try {
    json = JSON.stringify(share);
  } catch (cause) {
    throw new ProtocolError('invalid_option', 'keep.share: the value has no JSON form', { cause });
  }
  if (json !== undefined && utf8Length(json) <= MAX_SHARE) return json;
  throw invalid(`keep.share: expected a JSON value of at most ${MAX_SHARE} bytes`);
}

function invalid(message: string): ProtocolError {
  return new ProtocolError('invalid_option', message);
}

/** A request whose reply is to be kept. */
export interface KeptRequest {
  readonly session: Session;
  readonly streamId: number;
  /** The handler is called again if this process dies, and the session is recorded. */
  readonly isRepeated: () => boolean;
  /**
   * Records the ID of the kept reply with the session; resolves when it is recorded, or not needed any more.
   * `undefined` if the session is not recorded.
   */
  readonly mark: (id: string) => Promise<void> | undefined;
  /** Whether the requester still reads the reply. */
  readonly isWanted: () => boolean;
  /** Stops the handler. */
  readonly stop: (reason: ProtocolError) => void;
}

/** Server: keeps replies. */
export interface ReplyKeeper {
  /**
   * Begins a record.
   *
   * @returns `undefined` if it does not fit, which is logged.
   * @throws {ProtocolError} `invalid_option`.
   */
  keep(request: KeptRequest, options: KeepOptions | undefined, before: KeptBefore): ReplyRecorder | undefined;
  /**
   * Finds the record that a process before this one has begun.
   *
   * @param yielded the parts of the reply that are recorded with the session. The record has them all afterwards.
   */
  takeUp(request: KeptRequest, id: string, yielded: readonly CodedBody[]): Promise<TakenUp>;
}

/** @throws {ProtocolError} `unsupported` if there is none. */
export function assertKeeper(keeper: ReplyKeeper | undefined): ReplyKeeper {
  if (keeper !== undefined) return keeper;
  throw new ProtocolError('unsupported', 'keep: only a server with kept replies keeps them');
}

/** The state before a call of `keep`. */
export interface KeptBefore {
  /** Resolves when the place of the record that this one replaces is free. @default it is free */
  readonly freed?: Promise<void> | undefined;
  /** The ID that the reply has from a process before. @default a new one */
  readonly id?: string | undefined;
  /** Parts of processes before, with which the record begins. @default none */
  readonly yielded?: readonly CodedBody[] | undefined;
  /** The record of a process before is lost, so that no part may be read from another one. @default false */
  readonly isLost?: boolean | undefined;
}

/** The record of a reply that a process before has begun. */
export type TakenUp =
  | {
      readonly state: 'found';
      readonly recorder: ReplyRecorder;
      /** Recorded parts after those that the session has recorded. */
      readonly rest: readonly CodedBody[];
      /** The handler had ended. */
      readonly end?: { readonly error: unknown; readonly metadata: Uint8Array | undefined } | undefined;
    }
  /**
   * It takes no more: a bound was met, or the engine was away for too long. If parts of it can still be read, the requester
   * gets them as well, from a recorder that is full.
   */
  | {
      readonly state: 'unkept';
      readonly recorder?: ReplyRecorder;
      readonly rest?: readonly CodedBody[];
      readonly end?: undefined;
    }
  /** `unbegun`: it was never there. */
  | { readonly state: 'lost' | 'unbegun'; readonly recorder?: undefined };

/** Records one reply. After its end, and after a bound was met, the methods do nothing. */
export interface ReplyRecorder {
  readonly id: string;
  /** The record has reached a bound. It ends with an error, and the reply is no longer kept. */
  readonly isFull: boolean;
  /** The record turned out not to fit: it cannot be followed. */
  readonly isUnbegun: boolean;
  /** The number of recorded parts. */
  readonly parts: number;
  /** Belongs to the next part, or to the end. */
  setMetadata(metadata: Uint8Array): void;
  /** Resolves when the part is recorded; `undefined` if it is recorded at once. */
  append(body: CodedBody): Promise<void> | undefined;
  /** @param error what the handler threw; `undefined` if the reply is complete. */
  end(error?: unknown): Promise<void> | undefined;
  /**
   * The requester needs the record no more.
   *
   * @param isRead it was sent all of the reply.
   */
  release(isRead: boolean): void;
  /** Forgets the reply, of which nothing is recorded yet; `undefined` if it is forgotten at once. Never rejects. */
  discard(): Promise<void> | undefined;
  /**
   * The parts after number `after` in a coding that the requester can read, some at a time, as long as there are any on
   * record.
   */
  read(after: number): AsyncIterable<Iterable<CodedBody>>;
}
