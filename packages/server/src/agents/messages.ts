import { ProtocolError, type ReceivedBody, type Undeliverable } from '@parlance/protocol';
import { DELIVERY, encodeUndeliverable, type Reservation } from '@parlance/protocol/internal';
import type { ServerEndpoint } from '../endpoint.js';
import { type HandOver, HandOvers, Ordinals } from './pending-deliveries.js';
import { addressed } from './recode.js';
import type { Transit } from './transit.js';

interface Correspondence {
  /** What the session was given and has not confirmed. */
  readonly handOvers: HandOvers;
  /** Counts what it sends. */
  readonly ordinals: Ordinals;
}

/** Reports that may wait for a session that does not read them, in bytes. */
const MAX_REPORTS = 1024 * 1024;

/** One-way messages from agent to agent, and reports of those that did not get through. */
export class RelayedMessages {
  readonly #transit: Transit;
  readonly #correspondences = new Map<ServerEndpoint, Correspondence>();

  constructor(transit: Transit) {
    this.#transit = transit;
  }

  /** @param reservation of the memory that the body takes if it has to be coded again. */
  take(source: ServerEndpoint, to: string, body: ReceivedBody, reservation: Reservation | undefined): void {
    const transit = this.#transit;
    const ordinal = this.#of(source).ordinals.next(to);
    try {
      const { session: target } = transit.admit(source, to, 'message', body);
      const { handOvers } = this.#of(target);
      const onWritten = (frame: number) => {
        const handOver = handOvers.written(frame, target.core.channel.framesConfirmed);
        if (handOver !== undefined) this.#settle(handOver);
      };
      const coded = addressed(
        transit.convert(body, source, target),
        transit.nameOf(source, target),
        onWritten,
      );
      handOvers.add({ source, to, ordinal, charge: body.charge, reservation });
      source.relayed++;
      target.perform((core) => {
        try {
          core.channel.send(coded);
        } catch (error) {
          handOvers.takeBack();
          source.relayed--;
          throw error;
        }
      });
    } catch (error) {
      reservation?.release();
      const reason = transit.refuse(error, to).code;
      // Its credit comes back with the report, so that nobody is sent reports without reading them.
      this.#report(source, { to, outcome: 'not_sent', reason, first: ordinal, count: 1 }, () =>
        transit.giveBack(source, 0, body.charge),
      );
    }
  }

  handleEnded(session: ServerEndpoint): void {
    const correspondence = this.#correspondences.get(session);
    if (correspondence === undefined) return;
    this.#correspondences.delete(session);
    const { handOvers } = correspondence;
    const { stats } = this.#transit;
    for (const handOver of handOvers.waiting()) this.#settle(handOver);
    for (const { source, report } of handOvers.lost(session.core.channel.framesConfirmed)) {
      if (report.outcome === 'unknown') stats.unknown += report.count;
      else stats.refused += report.count;
      this.#report(source, report);
    }
  }

  #report(source: ServerEndpoint, report: Undeliverable, onWritten?: () => void): void {
    if (source.state !== 'established' && source.state !== 'suspended') return;
    if (source.core.channel.queuedOn(0) > MAX_REPORTS) {
      source.abort(new ProtocolError('window_exceeded', 'reports of delivery are not read'));
      return;
    }
    try {
      const coded = source.coder.encode(encodeUndeliverable(report), {});
      source.perform((core) => core.channel.send({ ...coded, agent: DELIVERY, onWritten }));
    } catch (error) {
      // What was agreed may be unable to carry a report. The sender gets its credit back all the same.
      this.#transit.handleUnreported(source, report, error);
      onWritten?.();
    }
  }

  #settle({ source, charge, reservation }: HandOver): void {
    reservation?.release();
    source.relayed--;
    this.#transit.giveBack(source, 0, charge);
  }

  #of(session: ServerEndpoint): Correspondence {
    let correspondence = this.#correspondences.get(session);
    if (correspondence === undefined) {
      correspondence = { handOvers: new HandOvers(), ordinals: new Ordinals() };
      this.#correspondences.set(session, correspondence);
    }
    return correspondence;
  }
}
