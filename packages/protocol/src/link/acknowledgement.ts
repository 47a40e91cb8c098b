/**
 * Acknowledgement by counting: both ends count the counted frames of a session, per direction, and no
 * frame carries a number. The receiver states its count after 32 frames, 64 KiB or 200 ms, whichever
 * comes first.
 */

const MAX_FRAMES = 32;
const MAX_BYTES = 64 * 1024;
const MAX_DELAY_MS = 200;

export interface Acknowledgement {
  /** Counted frames received since the session began. */
  readonly received: number;
  handleReceived(bytes: number, now: number): void;
  handleTimeout(now: number): void;
  /** States the count whether anything is due or not. */
  restate(): void;
  /** When the next acknowledgement is due, `Infinity` where all is acknowledged. */
  nextTimeout(): number;
}

/** @param state writes an acknowledgement of `count` frames. */
export function createAcknowledgement(state: (count: number) => void): Acknowledgement {
  let received = 0;
  let acknowledged = 0;
  let bytes = 0;
  let due = Infinity;

  const acknowledge = (): void => {
    acknowledged = received;
    bytes = 0;
    due = Infinity;
    state(received);
  };

  return {
    get received() {
      return received;
    },
    handleReceived(size, now) {
      received++;
      bytes += size;
      if (received - acknowledged >= MAX_FRAMES || bytes >= MAX_BYTES) acknowledge();
      else if (due === Infinity) due = now + MAX_DELAY_MS;
    },
    handleTimeout(now) {
      if (now >= due) acknowledge();
    },
    restate: acknowledge,
    nextTimeout: () => due,
  };
}
