import type { Logger } from '@parlance/protocol';
import { type Clock, loggable, ProtocolError } from '@parlance/protocol/client';
/** Sends new credentials each time before the present ones expire. */
export interface Renewal {
  /** The server accepted the credentials for this long; `Infinity` if they do not expire. */
  handleGranted(expiresInMs: number): void;
  stop(): void;
}

export interface RenewalOptions {
  /** Gets new credentials from the application. @default the first ones are final */
  readonly askToken: (() => Promise<string | undefined>) | undefined;
  readonly authenticate: (token: string) => void;
  /**
   * There are no new credentials, and the present ones are about to expire, which would end the session at the server. A lost
   * connection does not, so it is given up: each attempt to connect again asks for credentials.
   */
  readonly leave: () => void;
  readonly clock: Pick<Clock, 'after'>;
  readonly logger?: Logger | undefined;
}

/** New credentials are requested when this part of the lifetime is left, or one minute if that is less. */
const MARGIN = 0.25;
const MAX_MARGIN_MS = 60_000;
/** Attempts within the margin, of which one share is left at the end. */
const ATTEMPTS = 4;
/** A server whose credentials are over at once is not asked without a pause. */
const MIN_DELAY_MS = 250;
/** Longest delay that timers accept. */
const MAX_DELAY_MS = 2 ** 31 - 1;

export function createRenewal({ askToken, authenticate, leave, clock, logger }: RenewalOptions): Renewal {
  let cancel: (() => void) | undefined;
  /** Incremented to ignore the result of a pending request. */
  let generation = 0;

  const stop = (): void => {
    generation++;
    cancel?.();
  };

  const renew = (retryMs: number, attemptsLeft: number): void => {
    const mine = generation;
    let hasFailed = false;
    const fail = (error: unknown): void => {
      if (hasFailed || mine !== generation) return;
      hasFailed = true;
      logger?.warn({ event: 'token.failed', err: loggable(error) }, 'the token function failed');
    };
    // A function that does not answer has failed. Its answer counts, if it comes after all.
    cancel = clock.after(retryMs, () => {
      fail(new ProtocolError('timeout', 'it says nothing'));
      if (attemptsLeft > 0) renew(retryMs, attemptsLeft - 1);
      else leave();
    });
    askToken?.().then((token) => {
      if (mine !== generation) return;
      stop();
      if (token !== undefined) authenticate(token);
    }, fail);
  };

  return {
    handleGranted(expiresInMs) {
      stop();
      if (expiresInMs === Infinity) return;
      if (askToken === undefined) {
        const fields = { event: 'token.final', expiresInMs };
        logger?.warn(fields, 'the credentials expire and cannot be renewed; pass the token as a function');
        return;
      }
      const margin = Math.min(MAX_MARGIN_MS, expiresInMs * MARGIN);
      const delay = Math.min(Math.max(expiresInMs - margin, MIN_DELAY_MS), MAX_DELAY_MS);
      cancel = clock.after(delay, () => renew(margin / (ATTEMPTS + 1), ATTEMPTS - 1));
    },
    stop,
  };
}
