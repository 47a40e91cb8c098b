import type { BodyToSend } from '../../link/body-to-send.js';
import type { Turn } from './turn.js';

/** The session as what puts it on record sees it. */
export interface DurableSession {
  /** The application's state of the session, whether or not it is on record already. */
  readonly state: Uint8Array | undefined;
  /** One-way messages of the client that are handled. */
  readonly handled: number;
  /** The client that has resumed it had heard of turns that the record lacked, and is told so. */
  readonly isBehind: boolean;
  /** Everything that is worth a turn is on record. */
  readonly isIdle: boolean;
  /**
   * The next turn; `undefined` while one is being recorded and if there is none.
   *
   * @param takesAll also a turn that only says what is not needed any more.
   */
  pollTurn(takesAll?: boolean): Turn | undefined;
  /** The turn that {@link pollTurn} has returned is on record. */
  handleRecorded(now: number): void;
  /** The application has handled all messages of the client up to `number`. */
  handle(number: number): void;
  /** @throws {ProtocolError} `over_budget` if the record would become too large. */
  setState(state: Uint8Array): void;
  /**
   * What a part of the server keeps with the session, in the next turn; empty is nothing.
   *
   * @throws {ProtocolError} as {@link setState}.
   */
  save(name: string, value: Uint8Array): void;
  /**
   * Whether a message of the client is for another agent, whose session may not have it yet. Until {@link settle} the client
   * keeps it, and says it again to another process, also if later ones are handled.
   */
  isOpen(number: number): boolean;
  /** The session of that agent has the message, on record if that one is durable, or the client is told that it has not. */
  settle(number: number): void;
  /** What {@link hear} has put on record in processes before this one. */
  readonly heard: ReadonlyMap<string, number>;
  /**
   * A message to the client that was sent just now is that of another session, which has this mark from now on. 0 forgets the
   * session.
   */
  hear(sender: string, mark: number): void;
  /**
   * Puts a state and messages to the client on record, and the messages of the client up to `handled` as handled: all of it
   * in one turn, or nothing.
   *
   * @throws {ProtocolError} as `Channel.send` and {@link setState}; nothing has happened then.
   */
  commit(handled: number, state: Uint8Array | undefined, bodies: readonly BodyToSend[]): void;
  /** The handler of a request is to be called again if this process dies. */
  repeat(streamId: number): void;
  /** The reply to a request is kept under an ID, with which another process goes on. */
  keep(streamId: number, id: string): void;
  /** Calls `then` when everything so far is on record, at once if it is. */
  afterRecord(then: () => void): void;
}
