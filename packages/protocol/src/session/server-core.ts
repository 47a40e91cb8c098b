import type { CloseCode } from '../base/close-codes.js';
import { ProtocolError } from '../base/errors.js';
import type { Fields } from '../base/fields.js';
import { msUntil } from '../base/value-list.js';
import type { Answer, Negotiated } from '../control/agreement.js';
import {
  CloseReason,
  type GoAwayPayload,
  type HelloPayload,
  type RejectPayload,
} from '../control/messages.js';
import { RestedLink } from '../link/rest.js';
import { ALL_CODE } from './all-code.js';
import { LinkChannel } from './channel.js';
import { recordOf } from './channels.js';
import { rejection, rejectOf } from './close-reason.js';
import type { SessionBegin } from './durable-session.js';
import { LifecycleEvent, LifecycleState } from './lifecycle.js';
import { MovableChannel } from './movable-channel.js';
import type { AcceptedResume } from './resume-token.js';
import { ServerRole } from './server-role.js';
import { Core } from './session.js';
import { encodeSnapshot, type RestoredSession, serverFields } from './snapshot.js';
import type { ServerSessionCore, SessionOptions } from './types.js';

/** A server's end of a session, which can move to another process. */
export class ServerCore extends Core implements ServerSessionCore {
  declare readonly role: ServerRole;
  /** GOAWAY with `move`, which the client has been sent. */
  #asked: GoAwayPayload | undefined;

  constructor(options: SessionOptions) {
    super(options, (session) => new ServerRole(session as ServerCore), ALL_CODE);
  }

  greet(hello: HelloPayload, answer: Answer, now: number): void {
    this.handleConnected(now);
    this.role.greet(hello, answer);
  }

  override sendGoAway(payload: GoAwayPayload, now: number): void {
    super.sendGoAway(payload, now);
    this.#asked = payload.move === true && this.goAway === undefined ? payload : undefined;
  }

  override close(reason: CloseReason, message: string, now: number, code?: string): void {
    // The session has not moved in time: its client begins a new one, as after GOAWAY without `move`.
    if (this.#asked !== undefined && reason === CloseReason.SERVER_SHUTDOWN)
      this.sendGoAway({ ...this.#asked, move: undefined }, now);
    super.close(reason, message, now, code);
  }

  reject(refusal: RejectPayload, closeCode: CloseCode, now: number): void {
    this.timers.tick(now);
    if (this.hasEnded) return;
    const reject = rejectOf(refusal, closeCode);
    this.outbox.pushControl(this.control.unbound({ type: 'REJECT', payload: reject }));
    this.failure = rejection(reject, { closeCode });
    this.apply(LifecycleEvent.REJECT);
  }

  get record(): ServerSessionCore['record'] {
    return recordOf(this.channel);
  }

  get canSnapshot(): boolean {
    return this.#movable !== undefined;
  }

  get isAwake(): boolean {
    return this.channel instanceof LinkChannel && this.channel.isAwake;
  }

  idleMs(now: number): number {
    return now - this.timers.lastData;
  }

  rest(now: number): boolean {
    const { channel, isEstablished, isLost, hasEvents, held } = this;
    if (!isEstablished || isLost || hasEvents || held !== undefined || !(channel instanceof LinkChannel))
      return false;
    if (!channel.rest(RestedLink.of)) return false;
    this.events.clear();
    this.role.limiter?.rest(now);
    return true;
  }

  get stalled(): ServerSessionCore['stalled'] {
    const { channel } = this;
    const isRead = !this.isEstablished || this.isLost || !this.isBlockedOnCredit;
    return isRead || !(channel instanceof MovableChannel) ? undefined : channel.stalled;
  }

  snapshot(now: number): Uint8Array {
    const channel = this.#movable;
    if (channel === undefined) {
      throw new ProtocolError('invalid_argument', 'the session cannot move now; see canSnapshot');
    }
    const { id, timers, unknownMessages } = this;
    timers.tick(now);
    const [idle, left] = timers.snapshot();
    const fields: Fields = {
      id,
      idle: Math.round(idle),
      // How long a suspended session is kept; in an established one the lifecycle has no deadline.
      left: this.isLost ? msUntil(left, 0) : undefined,
      round_trip: timers.liveness.roundTripMs,
      unknown: unknownMessages || undefined,
      ...serverFields(this.role.snapshot(now)),
      ...channel.snapshot(now),
    };
    return encodeSnapshot(fields);
  }

  /** @throws {ProtocolError} as `restoreSession`. This core is of no use then. */
  restore(state: RestoredSession, now: number): void {
    const { id, role, last, leftMs, idleMs, fields } = state;
    const { timers } = this;
    timers.now = now - idleMs;
    timers.touch();
    timers.now = now;
    timers.startState(leftMs ?? Infinity);
    this.role.restore(role, now);
    const { offer, negotiated } = role.answer;
    if (negotiated === undefined) throw new ProtocolError('bad_message', 'the offer was not accepted');
    if (leftMs !== undefined) this.outbox.pause();
    this.agree(id, negotiated, offer.extensions, last);
    if (!(this.channel instanceof MovableChannel)) {
      throw new ProtocolError('bad_message', 'only a session with a link can move');
    }
    this.isLost = leftMs !== undefined;
    this.isConnected = !this.isLost;
    this.lifecycle = this.isLost ? LifecycleState.SUSPENDED : LifecycleState.ESTABLISHED;
    timers.liveness.restart(now);
    timers.liveness.roundTripMs = state.roundTripMs;
    this.unknownMessages = state.unknownMessages;
    this.channel.restore(fields, this.options.limits, now);
  }

  /** Continues a session of another process, whose channel has to be restored next. */
  takeOver(begin: SessionBegin, accepted: AcceptedResume, now: number): void {
    const { timers } = this;
    timers.now = now;
    timers.touch();
    this.role.takeOver(begin, accepted);
    this.outbox.pause();
    this.agree(begin.id, begin.answer.negotiated as Negotiated, begin.answer.offer.extensions);
    this.isLost = true;
    this.lifecycle = LifecycleState.SUSPENDED;
    timers.startState(this.role.windowMs);
    timers.liveness.restart(now);
  }

  /** The channel of a session that can move now. */
  get #movable(): MovableChannel | undefined {
    const { channel, isEstablished, isLost, role } = this;
    const isOpen = isEstablished || (isLost && this.lifecycle === LifecycleState.SUSPENDED);
    const isQuiet = isOpen && !this.hasEvents && this.held === undefined && !role.isChecking;
    return isQuiet && channel instanceof MovableChannel && channel.canSnapshot ? channel : undefined;
  }
}
