import { ProtocolError } from '@parlance/protocol';
import { assertOptions } from '@parlance/protocol/internal';

export interface DrainOptions {
  /** How long open streams may take to finish, in milliseconds. @default 30,000 */
  readonly timeoutMs?: number | undefined;
  /**
   * Clients reconnect at random times within this many milliseconds after they have left, so that they do not
   * all arrive at once. @default 5,000
   */
  readonly returnWithinMs?: number | undefined;
  /**
   * Stops listening at once, so that a successor can take over the port while streams finish here. A session
   * that loses its connection after that cannot resume. @default false: connections are accepted until the end,
   * so that lost ones can resume
   */
  readonly releasePort?: boolean | undefined;
}

/** How a server closes. */
export interface CloseServerOptions {
  /**
   * `'return'`: each client is asked to come back, and begins another session at the server that it finds then, after the
   * delays of its option `reconnect`; records of durable sessions stay. `'end'`: all sessions end for good, with their
   * records, and clients with a connection do not come back; those that a drain has asked to leave get the code
   * `server_closed`. The first call counts. @default 'return'
   */
  readonly sessions?: 'return' | 'end' | undefined;
}

/** Whether sessions end for good. @throws {ProtocolError} `invalid_option`. */
export function endsSessions(options: CloseServerOptions): boolean {
  assertOptions(options, { sessions: 'text' }, 'close');
  const { sessions = 'return' } = options;
  if (sessions === 'return' || sessions === 'end') return sessions === 'end';
  throw new ProtocolError('invalid_option', `close.sessions must be 'return' or 'end', not '${sessions}'`);
}

/** How far a drain is. */
export interface DrainProgress {
  /** Unix milliseconds. */
  readonly deadline: number;
  /** Sessions when it began. */
  readonly total: number;
  /** Sessions that have not ended yet. */
  readonly remaining: number;
}

/** @throws {ProtocolError} `invalid_option`. */
export function resolveDrainOptions(options: DrainOptions) {
  assertOptions(options, { timeoutMs: 'number', returnWithinMs: 'number', releasePort: 'flag' }, 'drain');
  const { timeoutMs = 30_000, returnWithinMs = 5_000, releasePort = false } = options;
  for (const [name, value] of Object.entries({ timeoutMs, returnWithinMs })) {
    if (!(value >= 0 && value < 2 ** 31))
      throw new ProtocolError('invalid_option', `drain.${name} must be 0 to ${2 ** 31 - 1} ms, not ${value}`);
  }
  return { timeoutMs, returnWithinMs, releasePort };
}

/** The outcome of a drain. */
export interface DrainResult {
  /** Sessions that ended by themselves. */
  readonly ended: number;
  /** Sessions that were closed at the deadline with streams still open. */
  readonly interrupted: number;
  /** Sessions that were without a connection at the deadline, or for 5 s with something under way. */
  readonly lost: number;
  /** Sessions that other nodes continue; `undefined` if the server stands alone. */
  readonly moved?: number | undefined;
}
