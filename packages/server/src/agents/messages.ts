import { ProtocolError, type ReceivedBody, type Undelivered } from '@parlance/protocol';
import { DELIVERY, encodeUndelivered, type Reservation } from '@parlance/protocol/internal';
import type { ServerEndpoint } from '../endpoint.js';
import {
  DeliveryLog,
  MessageCounter,
  type PendingDelivery,
  type RemoteDelivery,
} from './pending-deliveries.js';
import { addressed } from './recode.js';
import type { RelayTarget } from './target.js';
import type { Transit } from './transit.js';

interface PeerState {
  /** Messages to the session that it has not confirmed. */
  readonly deliveries: DeliveryLog;
  /** Counts the messages from the session. */
  readonly counter: MessageCounter;
}

/** Bytes of reports that may wait for a session that does not read them. */
const MAX_REPORTS = 1024 * 1024;

/** One-way messages from agent to agent, and reports of those that did not get through. */
export class RelayedMessages {
  readonly #transit: Transit;
  readonly #peers = new Map<RelayTarget, PeerState>();

  constructor(transit: Transit) {
    this.#transit = transit;
  }

  /** @param reservation the memory that the body takes if it has to be coded again. */
  take(source: ServerEndpoint, to: string, body: ReceivedBody, reservation: Reservation | undefined): void {
    const transit = this.#transit;
    const ordinal = this.#of(source).counter.next(to);
    try {
      const { session: target } = transit.admit(source, to, 'message', body);
      this.#pass(target, body, { source, to, ordinal, charge: body.charge, reservation });
    } catch (error) {
      reservation?.release();
      this.#refuse(source, to, ordinal, body.charge, transit.refuse(error, to));
    }
  }

  /**
   * A message whose node has admitted it.
   *
   * @throws {ProtocolError} if it cannot be coded or sent.
   */
  takeAdmitted(
    source: RelayTarget,
    target: RelayTarget,
    body: ReceivedBody,
    remote: RemoteDelivery,
    reservation: Reservation | undefined,
  ): void {
    const { charge } = body;
    this.#pass(target, body, { source, remote, to: '', ordinal: undefined, charge, reservation });
  }

  /** The node of `target` has refused a message, at this place among those that are not written. */
  handleRefused(target: RelayTarget, place: number, error: ProtocolError): void {
    const refused = this.#peers.get(target)?.deliveries.removeUnwritten(place);
    if (refused === undefined) return;
    const { source, to, ordinal, charge, reservation } = refused;
    reservation?.release();
    source.relayed--;
    this.#refuse(source, to, ordinal, charge, this.#transit.refuse(error, to));
  }

  /** The sessions may have confirmed messages since. */
  handleTick(): void {
    for (const [{ core }, { deliveries }] of this.#peers)
      deliveries.handleConfirmed(core.channel.framesConfirmed);
  }

  /** @throws {ProtocolError} if the body cannot be coded or sent. */
  #pass(target: RelayTarget, body: ReceivedBody, delivery: PendingDelivery): void {
    const transit = this.#transit;
    const { source } = delivery;
    const { deliveries } = this.#of(target);
    const onWritten = (frame: number) => {
      const written = deliveries.handleWritten(frame, target.core.channel.framesConfirmed);
      if (written === undefined) return;
      this.#release(written);
      written.remote?.handleWritten();
    };
    const coded = addressed(transit.convert(body, source, target), transit.nameOf(source, target), onWritten);
    deliveries.add(delivery);
    source.relayed++;
    target.perform((core) => {
      try {
        core.channel.send(coded);
      } catch (error) {
        deliveries.removeLast();
        source.relayed--;
        throw error;
      }
    }, source);
  }

  #refuse(
    source: RelayTarget,
    to: string,
    first: number | undefined,
    charge: number,
    { code }: ProtocolError,
  ): void {
    // The credit is returned when the report is written, so a sender that does not read its reports is held back.
    this.#report(source, { to, outcome: 'not_sent', reason: code, first, count: 1 }, () =>
      this.#transit.returnCredit(source, 0, charge),
    );
  }

  handleRebuilt(session: ServerEndpoint, confirmed: number): void {
    this.#peers.get(session)?.deliveries.handleRebuilt(confirmed);
  }

  /** @param isCertain whether what is not known to be written was not. */
  handleEnded(session: RelayTarget, isCertain: boolean): void {
    const state = this.#peers.get(session);
    if (state === undefined) return;
    this.#peers.delete(session);
    const { deliveries } = state;
    const { stats } = this.#transit;
    for (const delivery of deliveries.unwritten()) this.#release(delivery);
    for (const { source, report } of deliveries.takeLosses(session.core.channel.framesConfirmed, isCertain)) {
      if (report.outcome === 'unknown') stats.unknown += report.count;
      else stats.refused += report.count;
      this.#report(source, report);
    }
  }

  #report(source: RelayTarget, report: Undelivered, onWritten?: () => void): void {
    if (source.state !== 'established' && source.state !== 'suspended') return;
    if (source.core.channel.queuedOn(0) > MAX_REPORTS) {
      source.abort(new ProtocolError('window_exceeded', 'reports of undelivered messages are not read'));
      return;
    }
    // A rebuilt link writes the report again.
    let release = onWritten;
    const onFirstWritten = () => {
      release?.();
      release = undefined;
    };
    try {
      const coded = source.coder.encode(encodeUndelivered(report), {});
      source.perform((core) => core.channel.send({ ...coded, agent: DELIVERY, onWritten: onFirstWritten }));
    } catch (error) {
      // The agreed codecs may not be able to carry a report. The sender still gets its credit back.
      this.#transit.handleUnreported(source, report, error);
      onWritten?.();
    }
  }

  /** The message is written, or never will be. */
  #release({ source, remote, charge, reservation }: PendingDelivery): void {
    reservation?.release();
    source.relayed--;
    if (remote === undefined) this.#transit.returnCredit(source, 0, charge);
  }

  #of(session: RelayTarget): PeerState {
    let state = this.#peers.get(session);
    if (state === undefined) {
      state = { deliveries: new DeliveryLog(), counter: new MessageCounter() };
      this.#peers.set(session, state);
    }
    return state;
  }
}
