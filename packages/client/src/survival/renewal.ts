import type { Logger } from '@parlance/protocol';
import { type Clock, loggable } from '@parlance/protocol/client';
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
    cancel = undefined;
  };

  const renew = (retryMs: number, attemptsLeft: number): void => {
    cancel = undefined;
    const mine = generation;
    askToken?.().then(
      (token) => {
        if (mine === generation && token !== undefined) authenticate(token);
      },
      (error: unknown) => {
        if (mine !== generation) return;
        logger?.warn({ event: 'token.failed', err: loggable(error) }, 'the token function failed');
        if (attemptsLeft > 0) cancel = clock.after(retryMs, () => renew(retryMs, attemptsLeft - 1));
      },
    );
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
