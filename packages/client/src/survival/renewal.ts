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
  readonly clock: Pick<Clock, 'after'>;
  readonly logger?: Logger | undefined;
}

/** New credentials are requested when this part of the lifetime is left, or one minute if that is less. */
const MARGIN = 0.25;
const MAX_MARGIN_MS = 60_000;
/** Attempts within the margin. */
const ATTEMPTS = 4;
/** Longest delay that timers accept. */
const MAX_DELAY_MS = 2 ** 31 - 1;

export function createRenewal({ askToken, authenticate, clock, logger }: RenewalOptions): Renewal {
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
      const delay = Math.min(expiresInMs - margin, MAX_DELAY_MS);
      cancel = clock.after(delay, () => renew(margin / ATTEMPTS, ATTEMPTS - 1));
    },
    stop,
  };
}
