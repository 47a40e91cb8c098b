import { encodeSignalFrame, LinkKind, type UncountedFrames } from './frame.js';

/**
 * Acknowledgement by counting: per direction, both ends count the counted frames of the session, so no frame
 * carries a number. The receiver sends its count after 32 frames, 64 KiB or 200 ms, whichever comes first, and sooner with a
 * frame that it writes anyway: by itself it would cost a write here and a read at the peer.
 */

const MAX_FRAMES = 32;
const MAX_BYTES = 64 * 1024;
const MAX_DELAY_MS = 200;
/** Between two that go along with other frames: in a busy session one by itself covers more. */
export const RIDE_EVERY_MS = 100;

/** The frames that the last acknowledgement covered, and the bytes that have arrived since. */
type AcknowledgementState = readonly [acknowledged: number, bytes: number];

export class Acknowledgement {
  /** Counted frames received since the session began. */
  received = 0;
  /** Clock reading at which the next acknowledgement is due; `Infinity` if all frames are acknowledged. */
  due = Infinity;
  /** Frames that may be acknowledged; {@link raise} raises it. @default Infinity */
  ceiling = Infinity;
  readonly #outbox: UncountedFrames;
  #acknowledged = 0;
  #bytes = 0;
  /** Clock reading from which on one may go along with another frame. */
  #ridesAt = -Infinity;

  constructor(outbox: UncountedFrames) {
    this.#outbox = outbox;
  }

  /** Its state beside {@link received} and {@link due}. */
  snapshot(): AcknowledgementState {
    return [this.#acknowledged, this.#bytes];
  }

  restore(state: AcknowledgementState): void {
    [this.#acknowledged, this.#bytes] = state;
  }

  handleReceived(bytes: number, now: number): void {
    this.received++;
    this.#bytes += bytes;
    if (this.received > this.ceiling) return;
    this.#schedule(now);
  }

  /** Acknowledges at most `ceiling` frames, as later ones are not recorded yet. A lower one than before is possible. */
  raise(ceiling: number, now: number): void {
    this.ceiling = ceiling;
    if (Math.min(this.received, ceiling) > this.#acknowledged) this.#schedule(now);
  }

  #schedule(now: number): void {
    if (Math.min(this.received, this.ceiling) - this.#acknowledged >= MAX_FRAMES || this.#bytes >= MAX_BYTES)
      this.send();
    else if (this.due === Infinity) this.due = now + MAX_DELAY_MS;
  }

  handleTimeout(now: number): void {
    if (now >= this.due) this.send();
  }

  /** A counted frame waits to be written. */
  handleWriting(now: number): void {
    if (this.due === Infinity || now < this.#ridesAt) return;
    this.#ridesAt = now + RIDE_EVERY_MS;
    this.send();
  }

  /** Sends the count, whether or not an acknowledgement is due. */
  send(): void {
    this.#acknowledged = Math.min(this.received, this.ceiling);
    this.#bytes = 0;
    this.due = Infinity;
    this.#outbox.pushUncounted(encodeSignalFrame(LinkKind.ACK, this.#acknowledged));
  }
}
