import type {
  CloseResult,
  CloseStatement,
  Metadata,
  Negotiated,
  SessionReset,
  SessionState,
  SessionStats,
  Throttled,
  Undelivered,
} from '@parlance/protocol';
import type { TransportName } from '../connection/transport.js';
import type { SharedOptions } from './options.js';
import type { PackedError } from './packed-error.js';
import type { PackedMessage } from './packed-message.js';

/**
 * The messages between a tab and the host of its session. Both ends come from the same build of a page as a rule, but an
 * old worker may still run: a tab uses only a host of its own version.
 */
export const VERSION = 5;

/** The options of a call that cross; a signal crosses as `cancel`. */
export interface CallOptions {
  readonly algorithm?: string | undefined;
  readonly compressAlone?: boolean | undefined;
  readonly timeoutMs?: number | undefined;
  readonly metadata?: Metadata | undefined;
  /** The caller has a signal, so the message can be withdrawn. */
  readonly isAbortable?: boolean | undefined;
}

export interface Join {
  readonly type: 'join';
  /** Tabs with the same key share a session. */
  readonly key: string;
  readonly url: string;
  readonly options: SharedOptions;
  readonly token: string | undefined;
  /** The tab has a token function, which `ask` calls. */
  readonly isTokenRenewed: boolean;
  /** A Web Lock that the tab holds as long as it exists. */
  readonly lock: string | undefined;
  /** The tab has a logger. */
  readonly logs: boolean;
}

export interface Call {
  readonly type: 'call';
  /** Numbers of a tab count from 1. */
  readonly call: number;
  readonly verb: 'send' | 'request' | 'stream' | 'flush';
  readonly body: string | Uint8Array | { readonly tokens: Uint32Array };
  readonly options: CallOptions;
  /** The receiver, if that is not the server. */
  readonly agent: string | undefined;
}

export type FromTab =
  | Join
  | Call
  | { readonly type: 'cancel'; readonly call: number }
  /** The reader has taken this much of the parts of a reply; of the one-way messages if `call` is 0. */
  | { readonly type: 'taken'; readonly call: number; readonly charge: number }
  /** The tab has received this much of whole replies. */
  | { readonly type: 'received'; readonly charge: number }
  | { readonly type: 'token'; readonly ask: number; readonly token?: string; readonly error?: PackedError }
  | { readonly type: 'leave' }
  /** A sign of life, if there are no locks. */
  | { readonly type: 'here' };

/** The state of the session that a tab knows without asking. */
export interface Status {
  readonly id: string;
  readonly state: SessionState;
  readonly negotiated: Negotiated | undefined;
  readonly agentId: string | undefined;
  readonly transport: TransportName | undefined;
  readonly stats: SessionStats;
}

/** The beginning of a reply. */
export interface ReplyHead {
  readonly id: number;
  readonly metadata: Metadata;
  readonly keptId: string | undefined;
  /** The number of the part before the first one. */
  readonly after: number;
}

export type FromHost =
  /** @param lock a Web Lock that the host holds as long as it exists. */
  | { readonly type: 'ready'; readonly version: number; readonly lock: string | undefined }
  | { readonly type: 'joined'; readonly status: Status }
  /** The session could not be opened, or the tab cannot join. */
  | { readonly type: 'refused'; readonly error: PackedError }
  | { readonly type: 'status'; readonly status: Status }
  | { readonly type: 'reset'; readonly event: SessionReset }
  | { readonly type: 'failed'; readonly error: PackedError }
  | { readonly type: 'undelivered'; readonly event: Undelivered }
  | { readonly type: 'throttled'; readonly event: Throttled }
  | { readonly type: 'message'; readonly message: PackedMessage }
  /** The iteration ends with an error, and the next one continues: messages were missed. */
  | { readonly type: 'interrupted'; readonly error: PackedError }
  /** The host has taken the body of a request. */
  | { readonly type: 'begun'; readonly call: number; readonly id: number }
  | {
      readonly type: 'part';
      readonly call: number;
      readonly message: PackedMessage;
      readonly head?: ReplyHead;
    }
  | {
      readonly type: 'end';
      readonly call: number;
      readonly error?: PackedError | undefined;
      /** The whole reply to a request. */
      readonly message?: PackedMessage;
      readonly head?: ReplyHead;
      readonly stats: SessionStats;
    }
  /** Answer with `token`. */
  | { readonly type: 'ask'; readonly ask: number }
  | {
      readonly type: 'log';
      readonly level: 'debug' | 'info' | 'warn' | 'error';
      readonly fields: Readonly<Record<string, unknown>>;
      readonly text: string;
    }
  /** The answer to `leave`. */
  | { readonly type: 'left'; readonly result: CloseResult }
  /** The session is over, and none follows. */
  | { readonly type: 'over'; readonly error?: PackedError | undefined; readonly end?: CloseStatement }
  /** The host goes away; another one takes its place. */
  | { readonly type: 'gone' }
  | { readonly type: 'here' };
