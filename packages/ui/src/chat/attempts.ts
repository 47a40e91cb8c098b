/** Tells a server that is not there from a network that swallows: how the attempts to resume a session have failed. */
export interface Attempts {
  /** The connection is lost from now on. */
  begin(): void;
  /**
   * @param nextAt when the next attempt begins, in Unix milliseconds; `undefined` during an attempt.
   * @returns whether all of several attempts have failed at once.
   */
  look(nextAt: number | undefined, now: number): boolean;
}

/** Attempts that fail within this time were refused, in milliseconds. */
const AT_ONCE_MS = 2_000;
/** With fewer, or sooner, the next attempt may well succeed. */
const LEAST_ATTEMPTS = 3;
const LEAST_MS = 5_000;

export function createAttempts(): Attempts {
  let since: number | undefined;
  let failed = 0;
  let present: { readonly nextAt: number | undefined; readonly seenAt: number } | undefined;
  return {
    begin() {
      since = present = undefined;
      failed = 0;
    },
    look(nextAt, now) {
      since ??= now;
      present ??= { nextAt, seenAt: now };
      if (present.nextAt !== nextAt) {
        // Between two looks, an attempt may have begun and failed.
        if (nextAt !== undefined) failed++;
        present = { nextAt, seenAt: now };
      } else if (nextAt === undefined && now - present.seenAt > AT_ONCE_MS) failed = 0;
      // A browser without a network reaches no server, whether one is there or not.
      return failed >= LEAST_ATTEMPTS && now - since >= LEAST_MS && navigator.onLine;
    },
  };
}
