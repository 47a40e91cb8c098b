import {
  CloseCode,
  type GoAwayPayload,
  isProtocolError,
  ProtocolError,
  type ReceivedBody,
  type ResumeOffer,
  type SessionCore,
} from '@parlance/protocol';
import { type BodyCoder, Endpoint, guard, type OwnHandler, type Wire } from '@parlance/protocol/internal';
import { longestMessage } from './http/unfinished-message.js';

/** The endpoint of a server: what its connection and other sessions ask of it. */
export class ServerEndpoint extends Endpoint {
  /** Bodies of this session that wait to be written to other sessions. */
  relayed = 0;
  /** Another node would code what this session is sent; its own does. */
  readonly isRemote: boolean = false;
  /** Nothing but its resume token tells who the client is, as the server has no `authenticate`. */
  isAnonymous = false;
  #isAbandoned = false;

  /** The principal and the address whose shares of the process's memory the session uses. */
  set memoryKeys(keys: readonly string[]) {
    this.account.assign(keys);
  }

  /** A server loads everything before it listens. */
  override get isPreloaded(): boolean {
    return true;
  }

  get hasWire(): boolean {
    return this.wire !== undefined;
  }

  /** @throws {ProtocolError} `session_closed` unless the session is ready. */
  get coder(): BodyCoder {
    return this.outbound.coder;
  }

  /** Bytes of the longest WebSocket message that its client may send; `undefined` before ACCEPT. */
  get longestMessage(): number | undefined {
    const { core, options } = this;
    return core.negotiated === undefined ? undefined : longestMessage(core, options.limits);
  }

  override get waitingMessages(): number {
    return super.waitingMessages + this.relayed;
  }

  /** `wire` resumes the session. The connection before it is cut off before any count is exchanged. */
  handleResumed(wire: Wire, offer: ResumeOffer): void {
    const former = this.wire;
    this.command((core, now) => {
      this.replaceWire(undefined);
      core.handleDisconnected(CloseCode.ABNORMAL, 'taken over', now);
      this.replaceWire(wire);
      former?.close(CloseCode.TAKEN_OVER, 'a newer connection carries the session');
      const received = core.resume(offer, now);
      if (received !== undefined) this.options.route?.handleRebuilt(received);
    });
  }

  /** The connection carries another session, and this one never began. */
  abandon(): void {
    this.#isAbandoned = true;
    this.replaceWire(undefined);
  }

  override handleTick(): void {
    if (!this.#isAbandoned) super.handleTick();
  }

  /** How long the credentials of the connection are valid, in Unix milliseconds; `null` for ever. */
  grant(expiresAt: number | null): void {
    this.command((core, now) => core.grant(expiresAt, now));
  }

  /** Tells the client that the server drains. */
  sendGoAway(payload: GoAwayPayload): void {
    this.command((core, now) => core.sendGoAway(payload, now));
  }

  /**
   * Gives a command to the core on behalf of another session.
   *
   * @throws {ProtocolError} what the core refuses; `session_closed` after a fault, which ends this session and not
   * the other one.
   */
  perform<Result>(command: (core: SessionCore) => Result): Result {
    let result: Result;
    try {
      if (this.isDropped) throw sessionFailed();
      result = command(this.core);
    } catch (error) {
      if (isProtocolError(error)) throw error;
      this.crash(error);
      throw sessionFailed();
    }
    this.pump();
    return result;
  }

  /** As {@link perform} for commands without a result. Never throws; a refusal ends this session as well. */
  tell(command: (core: SessionCore) => void): void {
    guard(this, () => this.perform(command));
  }

  /** Answers a received request with a handler of the server's. Never rejects. */
  async answer(streamId: number, body: ReceivedBody, handler: OwnHandler): Promise<void> {
    try {
      await this.inbound.answer(streamId, body, handler);
    } catch (error) {
      this.crash(error);
    }
  }
}

function sessionFailed(): ProtocolError {
  return new ProtocolError('session_closed', 'the session was closed', { side: 'remote' });
}
