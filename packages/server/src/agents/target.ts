import type {
  Channel,
  LaterCodec,
  Negotiated,
  ProtocolError,
  SessionState,
  Undelivered,
} from '@parlance/protocol';
import type { BodyCoder, BodyToSend, ServerSessionCore, StreamQueue } from '@parlance/protocol/internal';
import type { MessageSequence } from './received-marks.js';

/** The relay's view of the session of an agent: a session of this node, or the stand-in for one of another node. */
export interface RelayTarget {
  readonly id: string;
  readonly principal: string | undefined;
  readonly agentId: string | undefined;
  readonly negotiated: Pick<Negotiated, 'algorithms' | 'encoding'>;
  readonly core: RelayCore;
  /** Decodes what the session has sent. @throws {ProtocolError} `session_closed` unless the session is ready. */
  readonly coder: BodyCoder;
  state: SessionState;
  /** Bodies for the session go unchanged to its node, which codes them if necessary. */
  readonly isRemote: boolean;
  /** How long it outlives its node because it is recorded, in milliseconds; 0 if it is not. */
  readonly retentionMs: number;
  /**
   * Another node has the session from its record, or will have it: its client sends the messages again that no other
   * session has.
   */
  readonly isElsewhere?: boolean;
  /**
   * Requests to it wait here for a stream; `undefined` if they wait at its node.
   *
   * @throws {ProtocolError} `session_closed` unless the session is ready.
   */
  readonly streamQueue?: StreamQueue<object> | undefined;
  /** Bodies of this session that wait to be written to other sessions. */
  relayed: number;
  /**
   * @param source whose body the command sends.
   * @throws {ProtocolError} what the session refuses; `session_closed` if it is over.
   */
  perform<Result>(command: (core: RelayCore) => Result, source?: RelayTarget): Result;
  /** As {@link perform}. Never throws. */
  tell(command: (core: RelayCore) => void): void;
  /** Gives credit back. Returns whether {@link pump} has to advertise it. Never throws. */
  credit(streamId: number, charge: number): boolean;
  /** Writes what waits. Never throws. */
  pump(): void;
  /** Takes the reports for a session that has moved to another node. */
  readonly passReport?: ((report: Undelivered) => void) | undefined;
  abort(error: ProtocolError): void;
  crash(error: unknown): void;
}

export interface RelayCore {
  readonly channel: RelayChannel;
  /** The record of a session of this node, if it has one. */
  readonly record?: Pick<NonNullable<ServerSessionCore['record']>, 'afterCommit' | 'hear'> | undefined;
  /** Codecs that the client has not loaded yet. */
  readonly awaitedCodecs: ReadonlySet<LaterCodec>;
}

export type RelayChannel = Pick<
  Channel,
  | 'send'
  | 'request'
  | 'transfer'
  | 'feed'
  | 'respond'
  | 'chunk'
  | 'end'
  | 'fail'
  | 'refuse'
  | 'cancel'
  | 'consume'
  | 'isWanted'
  | 'framesConfirmed'
  | 'queuedOn'
> & {
  /** In place of `send`: passes a message on to the node of the session. */
  readonly relay?: ((body: BodyToSend, place: RelayedPlace) => void) | undefined;
};

export interface RelayedPlace extends MessageSequence {
  /** The session has the message, and its record too, if it has one. */
  readonly onTaken: () => void;
}
