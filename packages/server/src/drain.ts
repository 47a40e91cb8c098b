import { CloseReason, type GoAwayPayload, ProtocolError } from '@parlance/protocol';
import { assertOptions } from '@parlance/protocol/internal';
import type { ServerEndpoint } from './endpoint.js';

export interface DrainOptions {
  /** How long open streams may take to finish, in milliseconds. @default 30,000 */
  readonly timeoutMs?: number | undefined;
  /**
   * Clients come back within this time after they have left, spread evenly, so that they do not come all
   * at once. Milliseconds. @default 5,000
   */
  readonly returnWithinMs?: number | undefined;
  /**
   * Stops listening at once, so that a successor can take over the port while streams finish here. A session
   * whose connection is lost from then on cannot be taken up again. @default false: connections are taken
   * until the end, for the sake of those that were lost
   */
  readonly releasePort?: boolean | undefined;
}

export interface ResolvedDrainOptions {
  readonly timeoutMs: number;
  readonly returnWithinMs: number;
  readonly releasePort: boolean;
}

/** @throws {ProtocolError} `invalid_option`. */
export function resolveDrainOptions(options: DrainOptions): ResolvedDrainOptions {
  assertOptions(options, { timeoutMs: 'number', returnWithinMs: 'number', releasePort: 'flag' }, 'drain');
  const { timeoutMs = 30_000, returnWithinMs = 5_000, releasePort = false } = options;
  for (const [name, value] of Object.entries({ timeoutMs, returnWithinMs })) {
    if (!(value >= 0 && value < 2 ** 31))
      throw new ProtocolError('invalid_option', `drain.${name} is 0 to ${2 ** 31 - 1} ms, not ${value}`);
  }
  return { timeoutMs, returnWithinMs, releasePort };
}

/** When a client that leaves now, or is not let in, shall come back. */
export function returnDelay(withinMs: number, random: () => number = Math.random): number {
  return Math.floor(random() * withinMs);
}

/** How a drain went. */
export interface DrainResult {
  /** Sessions that ended by themselves. */
  readonly left: number;
  /** Sessions that were closed at the deadline with streams still open. */
  readonly interrupted: number;
  /** Sessions that no connection carried at the deadline. */
  readonly lost: number;
}

/** Sends every session away and waits for it, up to a deadline; then closes what is left. */
export class Drain {
  readonly #sessions: ReadonlyMap<string, ServerEndpoint>;
  readonly #announced: (retryAfterMs: number) => GoAwayPayload;
  readonly #returnWithinMs: number;
  #onEmpty: (() => void) | undefined;

  /** @param deadline Unix milliseconds. */
  constructor(sessions: ReadonlyMap<string, ServerEndpoint>, returnWithinMs: number, deadline: number) {
    this.#sessions = sessions;
    this.#returnWithinMs = returnWithinMs;
    this.#announced = (retryAfterMs) => ({ retryAfterMs, deadline });
  }

  /** A session is over. */
  handleEnded(): void {
    if (this.#sessions.size === 0) this.#onEmpty?.();
  }

  async run(timeoutMs: number): Promise<DrainResult> {
    const sessions = [...this.#sessions.values()];
    for (const session of sessions) session.sendGoAway(this.#announced(returnDelay(this.#returnWithinMs)));
    await this.#emptyWithin(timeoutMs);
    const left = [...this.#sessions.values()];
    const result = {
      left: sessions.length - left.length,
      interrupted: left.filter(({ state, core }) => state !== 'suspended' && core.channel.openStreams > 0)
        .length,
      lost: left.filter(({ state }) => state === 'suspended').length,
    };
    await Promise.all(
      left.map((session) => {
        if (session.hasWire) return session.shutdown(CloseReason.SERVER_SHUTDOWN, 'the server was drained');
        // Nobody comes back for it in time, and whoever comes later is told that it is gone.
        session.abort(new ProtocolError('draining', 'the server was drained'));
        return undefined;
      }),
    );
    return result;
  }

  #emptyWithin(timeoutMs: number): Promise<void> {
    if (this.#sessions.size === 0) return Promise.resolve();
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, timeoutMs);
      this.#onEmpty = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}
