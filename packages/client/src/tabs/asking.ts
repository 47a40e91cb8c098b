import type { Logger, Timers } from '@parlance/protocol';
import type { Clock } from '@parlance/protocol/client';

interface AskingOptions {
  readonly firstToken: string | undefined;
  readonly askToken: (() => Promise<string>) | undefined;
  readonly timers: Pick<Timers, 'acceptTimeoutMs'>;
  readonly clock: Pick<Clock, 'after'>;
}

/**
 * The token for another host. A function that does not answer in time is asked again; its first answer counts, however late it
 * is.
 *
 * @param isOver no token is needed any more.
 */
export async function nextToken(
  { firstToken, askToken, timers, clock }: AskingOptions,
  logger: Logger,
  isOver: () => boolean,
): Promise<string | undefined> {
  if (askToken === undefined) return firstToken;
  return await new Promise((resolve, reject) => {
    let cancel = (): void => {};
    const ask = (): void => {
      cancel = clock.after(timers.acceptTimeoutMs, () => {
        if (isOver()) return;
        logger.warn({ event: 'token.failed' }, 'the token function does not answer');
        ask();
      });
      askToken()
        .then(resolve, reject)
        .finally(() => cancel());
    };
    ask();
  });
}
