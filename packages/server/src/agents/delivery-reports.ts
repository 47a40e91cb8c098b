import { ProtocolError, type Undelivered } from '@parlance/protocol';
import { DELIVERY, encodeUndelivered } from '@parlance/protocol/internal';
import type { RelayTarget } from './target.js';
import type { Transit } from './transit.js';

/** Bytes of reports that may wait for a session that does not read them. */
const MAX_REPORTS = 1024 * 1024;

/** Tells sessions which of their messages to other agents did not get through. */
export class DeliveryReports {
  readonly #transit: Transit;
  /** How to release the credit of messages that were refused, whose reports are not written. */
  readonly #unwritten = new Map<RelayTarget, Set<() => void>>();
  /** Reports for sessions of which a snapshot was taken, until it is known where they are. */
  readonly #frozen = new Map<RelayTarget, [Undelivered, (() => void) | undefined][]>();

  constructor(transit: Transit) {
    this.#transit = transit;
  }

  /**
   * Reports a message that was refused. Its credit is returned when the report is written, so a sender that does not read its
   * reports is held back.
   *
   * @param charge of the message.
   */
  tellRefused(source: RelayTarget, report: Undelivered, charge: number): void {
    const unwritten = this.#unwritten.get(source) ?? new Set();
    this.#unwritten.set(source, unwritten);
    source.relayed++;
    const release = () => {
      if (!unwritten.delete(release)) return;
      if (unwritten.size === 0) this.#unwritten.delete(source);
      source.relayed--;
      this.#transit.returnCredit(source, 0, charge);
    };
    unwritten.add(release);
    this.tell(source, report, release);
  }

  tell(source: RelayTarget, report: Undelivered, onWritten?: () => void): void {
    if (source.state !== 'established' && source.state !== 'suspended') return;
    const frozen = this.#frozen.get(source);
    if (frozen !== undefined) return void frozen.push([report, onWritten]);
    if (source.passReport !== undefined) {
      source.passReport(report);
      onWritten?.();
      return;
    }
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
    source.tell((core) => {
      try {
        const coded = source.coder.encode(encodeUndelivered(report), {});
        core.channel.send({ ...coded, address: DELIVERY, onWritten: onFirstWritten });
      } catch (error) {
        // The agreed codecs may not be able to carry a report. The sender still gets its credit back.
        this.#transit.handleUnreported(source, report, error);
        onWritten?.();
      }
    });
  }

  /** Reports for the session wait from now on. */
  freeze(session: RelayTarget): void {
    this.#frozen.set(session, this.#frozen.get(session) ?? []);
  }

  /**
   * The session stays here after all, or is at another node, where `source` stands for it.
   *
   * @returns whether reports have waited.
   */
  thaw(session: RelayTarget, source = session): boolean {
    const frozen = this.#frozen.get(session) ?? [];
    this.#frozen.delete(session);
    for (const [report, onWritten] of frozen) this.tell(source, report, onWritten);
    return frozen.length > 0;
  }

  /** The credit of the session's messages is returned although their reports are not written. */
  settle(session: RelayTarget): void {
    for (const release of [...(this.#unwritten.get(session) ?? [])]) release();
  }

  /** The session is over here. */
  forget(session: RelayTarget): void {
    this.#unwritten.delete(session);
    this.#frozen.delete(session);
  }
}
