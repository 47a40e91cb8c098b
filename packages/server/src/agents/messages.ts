import type { ProtocolError, ReceivedBody } from '@parlance/protocol';
import type { Reservation } from '@parlance/protocol/internal';
import type { ServerEndpoint } from '../session/endpoint.js';
import { addressed, marked } from './addressed.js';
import { targetOf } from './agent.js';
import { DeliveryReports } from './delivery-reports.js';
import type { MessagesState } from './move-state.js';
import {
  type DeliveryLog,
  type Entry,
  FORGOTTEN,
  type Loss,
  type MessageRange,
  newEntry,
  newPeer,
  type PeerState,
  type PendingDelivery,
  type RemoteDelivery,
} from './pending-deliveries.js';
import { type MessageSequence, ReceivedMarks } from './received-marks.js';
import type { RelayTarget } from './target.js';
import type { Transit } from './transit.js';

/** One-way messages from agent to agent, and reports of those that did not get through. */
export class RelayedMessages {
  readonly #transit: Transit;
  readonly #peers = new Map<RelayTarget, PeerState>();
  readonly reports: DeliveryReports;

  constructor(transit: Transit) {
    this.#transit = transit;
    this.reports = new DeliveryReports(transit);
  }

  /**
   * @param reservation the memory that the body takes if it has to be coded again.
   * @param place of a message of a recorded session. @default it is the next one, and was never sent
   */
  take(
    source: ServerEndpoint,
    to: string,
    body: ReceivedBody,
    reservation: Reservation | undefined,
    place?: MessageSequence,
  ): void {
    const transit = this.#transit;
    const { counter } = this.#of(source);
    // Field by field: spreading takes as long as all other work of the relay on a message.
    const delivery: PendingDelivery = {
      source,
      remote: undefined,
      to,
      ordinal: counter.next(to),
      charge: body.charge,
      reservation,
      number: place === undefined ? counter.nextOfAll() : place.number,
      isAgain: place?.isAgain === true,
      onSettled: place && (() => source.handleDone(place.number)),
    };
    try {
      this.#pass(targetOf(transit.admit(source, to, 'message', body)), body, delivery);
    } catch (error) {
      reservation?.release();
      this.#refuse(delivery, transit.refuse(error, to));
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
    place: MessageSequence,
    remote: RemoteDelivery,
    reservation: Reservation | undefined,
  ): void {
    this.#pass(target, body, {
      source,
      remote,
      to: '',
      ordinal: undefined,
      charge: body.charge,
      reservation,
      number: place.number,
      isAgain: place.isAgain,
      onSettled: () => remote.handleTaken(),
    });
  }

  /**
   * The node of `target` has refused a message, at this place among those that are not written.
   *
   * @param error `undefined` if it may have been sent.
   */
  handleRefused(target: RelayTarget, place: number, error: ProtocolError | undefined): void {
    const refused = this.#peers.get(target)?.deliveries.removeUnwritten(place);
    if (refused === undefined) return;
    const { source, remote, to, reservation } = refused;
    if (remote !== undefined) {
      this.#release(refused);
      if (error === undefined) remote.handleLost();
      else remote.handleRefused(error);
      return;
    }
    if (error === undefined) return this.#handleUnknown(refused);
    reservation?.release();
    source.relayed--;
    this.#refuse(refused, this.#transit.refuse(error, to));
  }

  /** The sender of a message to `target` is elsewhere. @param place among those that are not written. */
  handleStale(target: RelayTarget, place: number): void {
    const stale = this.#peers.get(target)?.deliveries.removeUnwritten(place);
    if (stale !== undefined) this.#release(stale);
  }

  /** So many of the oldest messages to `target` that are not written may have arrived, and are sent again. */
  handleDoubt(target: RelayTarget, count: number): void {
    this.#peers.get(target)?.deliveries.handleDoubt(count);
  }

  /** A message that is not written may arrive, but nothing will be known of it. */
  #handleUnknown(delivery: PendingDelivery): void {
    const { source, to, ordinal, onSettled } = delivery;
    this.#release(delivery);
    this.#transit.stats.unknown++;
    this.reports.tell(source, { to, outcome: 'unknown', code: 'peer_gone', first: ordinal, count: 1 });
    onSettled?.();
  }

  /** So many of the oldest messages to `target` that are not confirmed are lost. */
  handleLost(
    target: RelayTarget,
    { messages: count, confirmed }: { readonly messages: number; readonly confirmed: number },
    isCertain: boolean,
  ): void {
    const deliveries = this.#peers.get(target)?.deliveries;
    if (deliveries === undefined) return;
    deliveries.handleConfirmed(confirmed);
    for (const delivery of deliveries.unwritten(count)) {
      this.#release(delivery);
      delivery.remote?.handleLost();
    }
    this.#reportAll(deliveries.takeLosses(0, isCertain, count));
  }

  /** The sessions may have confirmed messages since. */
  handleTick(): void {
    for (const [{ core }, { deliveries }] of this.#peers)
      deliveries.handleConfirmed(core.channel.framesConfirmed);
  }

  /** @throws {ProtocolError} if the body cannot be coded or sent. */
  #pass(target: RelayTarget, body: ReceivedBody, delivery: PendingDelivery): void {
    const transit = this.#transit;
    const { source, number, isAgain } = delivery;
    const before = this.#peers.get(target)?.heard ?? new ReceivedMarks();
    const verdict = target.isRemote ? 'new' : before.check(source.id, delivery);
    const kept = target.core.record === undefined ? undefined : body;
    const entry = newEntry(delivery, verdict === 'known', kept);
    if (verdict === 'known') return this.#passOver(target, entry);
    let log: DeliveryLog | undefined;
    const onWritten = (frame: number) => {
      const { framesConfirmed } = target.core.channel;
      for (const written of log?.handleWritten(entry, frame, framesConfirmed) ?? [])
        this.#handleWritten(written);
    };
    const converted = transit.convert(body, source, target);
    const { maxMetadataSize } = transit.limits;
    const coded = addressed(
      target.isRemote ? converted : marked(converted, verdict === 'unsure', maxMetadataSize),
      transit.nameOf(source, target),
      onWritten,
    );
    target.perform((core) => {
      const { channel, record } = core;
      // Nothing is kept of a message to a session that takes no command any more.
      const { deliveries, heard } = this.#of(target);
      log = deliveries;
      deliveries.add(entry);
      source.relayed++;
      try {
        if (channel.relay === undefined) channel.send(coded);
        else return channel.relay(coded, { number, isAgain, onTaken: () => this.#settle(entry) });
      } catch (error) {
        deliveries.removeLast();
        source.relayed--;
        throw error;
      }
      // In the same turn as the message.
      heard.add(source.id, { number, isAgain }, (sender, mark) => record?.hear(sender, mark));
      this.#settleWhenTaken(core, entry);
    }, source);
  }

  /** The session has the message already. */
  #passOver(target: RelayTarget, entry: Entry): void {
    const { deliveries } = this.#of(target);
    entry.source.relayed++;
    const written = deliveries.addKnown(entry, target.core.channel.framesConfirmed);
    for (const each of written) this.#handleWritten(each);
    this.#settleWhenTaken(target.core, entry);
  }

  /** Settles the entry as soon as the session has the message: at once, or after the commit that records it. */
  #settleWhenTaken({ record }: RelayTarget['core'], entry: Entry): void {
    if (record === undefined) this.#settle(entry);
    else record.afterCommit(() => this.#settle(entry));
  }

  /** The session has the message, in its record if it has one. */
  #settle(entry: Entry): void {
    const { onSettled } = entry;
    entry.body = entry.onSettled = undefined;
    onSettled?.();
  }

  #handleWritten(written: Entry): void {
    // A message is written only after it is recorded. The node that has recorded it may have been lost, or fenced,
    // before it said so.
    this.#settle(written);
    this.#release(written);
    written.remote?.handleWritten();
  }

  #refuse(refused: PendingDelivery, { code }: ProtocolError): void {
    const { source, to, ordinal: first, charge, isAgain, onSettled } = refused;
    // It may have arrived when it was sent before.
    const outcome = isAgain ? 'unknown' : 'not_sent';
    this.reports.tellRefused(source, { to, outcome, code, first, count: 1 }, charge);
    onSettled?.();
  }

  handleRebuilt(session: ServerEndpoint, confirmed: number): void {
    this.#peers.get(session)?.deliveries.handleRebuilt(confirmed);
  }

  /**
   * Another node has a session from its record, or will have it. That node has all messages that are in the record.
   *
   * @param target takes the other messages of senders of this node.
   */
  handleAway(session: RelayTarget, target: RelayTarget): void {
    this.reports.forget(session);
    const state = this.#peers.get(session);
    this.#peers.delete(session);
    for (const entry of state?.deliveries.takeAll() ?? []) {
      const { source, to, remote, body, isReleased } = entry;
      const charge = isReleased ? 0 : entry.charge;
      if (!isReleased) this.#release(entry, body === undefined);
      if (remote !== undefined) remote.handleAway();
      else if (body !== undefined && source.isElsewhere !== true) {
        try {
          this.#pass(target, body, { ...entry, charge, reservation: undefined, isAgain: true });
        } catch (error) {
          this.#refuse({ ...entry, charge, source, isAgain: true }, this.#transit.refuse(error, to));
        }
      }
    }
  }

  /** The session is over, so nothing of it comes again. */
  forgetSender(sessionId: string): void {
    for (const [{ core }, { heard }] of this.#peers)
      heard.forget(sessionId, (sender, mark) => core.record?.hear(sender, mark));
  }

  /** @param isCertain whether what is not known to be written was not. */
  handleEnded(session: RelayTarget, isCertain: boolean): void {
    if (!session.isRemote) this.forgetSender(session.id);
    this.reports.forget(session);
    const state = this.#peers.get(session);
    if (state === undefined) return;
    this.#peers.delete(session);
    const { deliveries } = state;
    for (const delivery of deliveries.unwritten()) {
      this.#release(delivery);
      if (!isCertain) delivery.remote?.handleLost();
    }
    this.#reportAll(deliveries.takeLosses(session.core.channel.framesConfirmed, isCertain));
  }

  #reportAll(losses: readonly Loss[]): void {
    const { stats } = this.#transit;
    for (const { source, report, onSettled } of losses) {
      if (report.outcome === 'unknown') stats.unknown += report.count;
      else stats.refused += report.count;
      this.reports.tell(source, report);
      for (const settle of onSettled) settle();
    }
  }

  // --- of a session that moves

  /** All messages to the session are written, and all of its own. */
  isQuiet(session: RelayTarget): boolean {
    return session.relayed === 0 && this.#peers.get(session)?.deliveries.hasUnwritten !== true;
  }

  /** The state that another node needs. Reports for the session wait from now on. */
  stateOf(session: RelayTarget): MessagesState {
    this.reports.freeze(session);
    const state = this.#peers.get(session);
    const pending: MessageRange[] = [];
    for (const [{ core }, { deliveries }] of this.#peers)
      pending.push(...deliveries.of(session, core.channel.framesConfirmed));
    return {
      frames: state?.deliveries.frames(session.core.channel.framesConfirmed) ?? [],
      pending,
      counter: state?.counter.state() ?? { counts: [], hasForgotten: false, last: 0 },
      heard: state?.heard.entries ?? [],
    };
  }

  /** A session has come here. @param remote tells the node that keeps account of messages to it. */
  restore(session: ServerEndpoint, { frames, counter, heard }: MessagesState, remote: RemoteDelivery): void {
    const state = this.#of(session);
    state.deliveries.restore(session, frames, remote);
    state.counter.restore(counter);
    state.heard.restore(heard);
  }

  /**
   * A session continues here from its record, which does not say how many messages its client has sent to each name.
   */
  takeOver(session: ServerEndpoint): void {
    const state = this.#of(session);
    state.counter.restore({ counts: [], hasForgotten: true, last: 0 });
    state.heard.restore(session.core.record?.heard ?? []);
  }

  /**
   * A session has gone. Messages to it that are not confirmed are now those to `target`.
   *
   * @param stub takes the reports about messages of the session.
   * @returns whether there are messages of the session whose fate is not known, and how many to it.
   */
  handOver(
    session: RelayTarget,
    target: RelayTarget,
    stub: RelayTarget,
  ): { readonly isPending: boolean; readonly written: number } {
    const state = this.#peers.get(session);
    this.#peers.delete(session);
    let isPending = false;
    for (const { deliveries } of this.#peers.values())
      if (deliveries.replace(session, stub)) isPending = true;
    if (this.reports.thaw(session, stub)) isPending = true;
    if (state === undefined) return { isPending, written: 0 };
    const { framesConfirmed } = session.core.channel;
    return { isPending, written: this.#of(target).deliveries.prepend(state.deliveries, framesConfirmed) };
  }

  /** Whether the fate of messages of `source` is not known. */
  hasPending(source: RelayTarget): boolean {
    for (const [{ core }, { deliveries }] of this.#peers)
      if (deliveries.of(source, core.channel.framesConfirmed).length > 0) return true;
    return false;
  }

  /** Waits for nothing: messages to and of the session that are not written count as unknown. */
  settle(session: ServerEndpoint): void {
    this.reports.settle(session);
    for (const delivery of this.#peers.get(session)?.deliveries.takeUnwritten() ?? []) {
      if (delivery.remote === undefined) this.#handleUnknown(delivery);
      else {
        this.#release(delivery);
        delivery.remote.handleLost();
      }
    }
    for (const { deliveries } of this.#peers.values())
      for (const delivery of deliveries.unwritten())
        if (delivery.source === session && delivery.remote === undefined) {
          this.#handleUnknown(delivery);
          delivery.isReleased = true;
          delivery.remote = FORGOTTEN;
        }
  }

  /** The message is written, or never will be. */
  #release({ source, remote, charge, reservation }: PendingDelivery, returnsCredit = true): void {
    reservation?.release();
    source.relayed--;
    if (remote === undefined && returnsCredit) this.#transit.returnCredit(source, 0, charge);
  }

  #of(session: RelayTarget): PeerState {
    let state = this.#peers.get(session);
    if (state === undefined) {
      state = newPeer();
      this.#peers.set(session, state);
    }
    return state;
  }
}
