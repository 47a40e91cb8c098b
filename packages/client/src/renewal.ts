import type { Logger } from '@parlance/protocol';
import { type Clock, loggable } from '@parlance/protocol/internal';

/** Sends new credentials before the old ones end, as often as it takes. */
export interface Renewal {
  /** The credentials of the connection are good for this long, `Infinity` where they do not end. */
  handleGranted(expiresInMs: number): void;
  stop(): void;
}

export interface RenewalOptions {
  /** Asks for new credentials; without it there are none but the first. */
  readonly askToken: (() => Promise<string | undefined>) | undefined;
  readonly authenticate: (token: string) => void;
  readonly clock: Pick<Clock, 'after'>;
  readonly logger?: Logger | undefined;
}

/** New credentials are asked for when this part of the time is left, at most a minute. */
const MARGIN = 0.25;
const MAX_MARGIN_MS = 60_000;
/** Attempts that fit into the margin. */
const ATTEMPTS = 4;
/** Timers take no longer delays. */
const MAX_DELAY_MS = 2 ** 31 - 1;

export function createRenewal({ askToken, authenticate, clock, logger }: RenewalOptions): Renewal {
  let cancel: (() => void) | undefined;
  /** Changes whenever what is under way has become pointless. */
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
        logger?.warn(fields, 'the credentials end and cannot be renewed: give the token as a function');
        return;
      }
      const margin = Math.min(MAX_MARGIN_MS, expiresInMs * MARGIN);
      const delay = Math.min(expiresInMs - margin, MAX_DELAY_MS);
      cancel = clock.after(delay, () => renew(margin / ATTEMPTS, ATTEMPTS - 1));
    },
    stop,
  };
}
