import type { Answer } from '../control/agreement.js';
import type { BodyToSend } from '../link/body-to-send.js';
import type { AcceptedResume } from './resume-token.js';

/**
 * The record of a session, if its server wants one. A session writes one commit after the other: the next one waits until
 * the present one is recorded, so each of them may be written again until its answer arrives. All of a commit is written,
 * or nothing.
 */

/** Everything that happened in a session since the commit before. */
export interface Commit {
  /** From 1 in each process that has the session: a commit that is recorded under this number is not written again. */
  readonly number: number;
  /** Only in the first commit of a session: its ID and agreement, which never change. */
  readonly begin: Uint8Array | undefined;
  /** Who may resume the session from now on: ACCEPT is not sent before that is recorded. */
  readonly accept: AcceptedResume | undefined;
  /** One-way messages of the client that are handled, but for those that are recorded as open. */
  readonly handled: number | undefined;
  /** Messages of the client to other clients, among those that are handled, which none of their sessions has yet. */
  readonly opened: readonly number[];
  /** Such messages that were recorded as open, and are settled now. */
  readonly settled: readonly number[];
  /** A mark for each other session that has sent a message to this one; 0 forgets a session. */
  readonly heard: ReadonlyMap<string, number>;
  /** The application's state of the session. */
  readonly state: Uint8Array | undefined;
  /** The bytes that parts of the server keep with the session, by their names; empty bytes are not kept. */
  readonly saved: ReadonlyMap<string, Uint8Array>;
  /** One-way messages to the client. */
  readonly messages: readonly NumberedBody[];
  /** The client has the messages up to this one, even if the record knows none of them. */
  readonly confirmed: number | undefined;
  readonly streams: ReadonlyMap<number, StreamCommit>;
  /** Whether the client is to be told that the record was behind. */
  readonly isBehind: boolean | undefined;
  /** Former pages of the client have written the messages up to this one, and cannot write them again. */
  readonly ofFormerPages: number | undefined;
}

export interface NumberedBody {
  readonly number: number;
  readonly body: Uint8Array;
}

/** The changes of one request of the client, and of its reply. */
export interface StreamCommit {
  /** How often its handler has been called, with the call that is about to begin. */
  readonly attempt: number | undefined;
  /** The handler is to be called again if this process dies. */
  readonly isRepeatable: boolean;
  /** The reply is kept under this ID, which another process that continues the reply has to know. */
  readonly kept: string | undefined;
  /** The number of the first of the parts; parts count from 0. */
  readonly from: number;
  readonly parts: readonly Uint8Array[];
  /** The reply is over: empty if it is complete, else the body of the error frame. */
  readonly end: Uint8Array | undefined;
  /** The client has everything: nothing of the stream is needed any more. */
  readonly isForgotten: boolean;
}

/** The constants of a session: its ID, that of its client and its agreement. */
export interface SessionBegin {
  readonly id: string;
  readonly answer: Answer;
  readonly statedAgentId: string | undefined;
  readonly agentId: string | undefined;
}

/**
 * A recorded session as its driver sees it. The driver writes one commit after the other, and ends the session with
 * `fenced` if another process has it.
 */
export interface DurableSession {
  /** The application's state of the session, whether or not it is recorded already. */
  readonly state: Uint8Array | undefined;
  /** One-way messages of the client that are handled. */
  readonly handled: number;
  /** The client that has resumed it had received effects of commits that the record lacked, and is notified. */
  readonly isBehind: boolean;
  /** Calls `wake` each time that a commit can be polled, also now if one can. `wake` must not poll it before it has returned. */
  whenDue(wake: () => void): void;
  /**
   * The next commit; `undefined` while one is being recorded and if there is none.
   *
   * @param takesAll also a commit that only says what is not needed any more.
   */
  pollCommit(takesAll?: boolean): Commit | undefined;
  /** The commit that {@link pollCommit} has returned is recorded. */
  handleCommitted(now: number): void;
  /** The application has handled all messages of the client up to `number`. */
  handle(number: number): void;
  /** @throws {ProtocolError} `over_budget` if the record would become too large. */
  setState(state: Uint8Array): void;
  /**
   * Keeps bytes of a part of the server with the session, in the next commit; empty bytes remove them.
   *
   * @throws {ProtocolError} as {@link setState}.
   */
  save(name: string, value: Uint8Array): void;
  /**
   * Whether a message of the client is for another client, whose session may not have it yet. Until {@link settle} the client
   * keeps it, and says it again to another process, also if later ones are handled.
   */
  isOpen(number: number): boolean;
  /** The receiving session has the message, recorded if that session is, or the client is told that it has not. */
  settle(number: number): void;
  /** The marks that {@link hear} recorded in former processes. */
  readonly heard: ReadonlyMap<string, number>;
  /**
   * A message to the client that was sent just now is that of another session, which has this mark from now on. 0 forgets the
   * session.
   */
  hear(sender: string, mark: number): void;
  /**
   * Records a state and messages to the client, and the messages of the client up to `handled` as handled: all of it in one
   * commit, or nothing.
   *
   * @throws {ProtocolError} as `Channel.send` and {@link setState}; nothing has happened then.
   */
  commit(handled: number, state: Uint8Array | undefined, bodies: readonly BodyToSend[]): void;
  /** The handler of a request is to be called again if this process dies. */
  repeat(streamId: number): void;
  /** The reply to a request is kept under an ID, under which another process continues it. */
  keep(streamId: number, id: string): void;
  /** Calls `then` when everything so far is recorded, at once if it is. */
  afterCommit(then: () => void): void;
}
