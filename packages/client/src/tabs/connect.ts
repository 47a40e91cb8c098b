import type { Logger } from '@parlance/protocol';
import {
  CLIENT_LIMITS,
  loggable,
  ProtocolError,
  parts,
  resolveLimits,
  resolveTimers,
  systemClock,
  unlessAborted,
  whenAborted,
} from '@parlance/protocol/client';
import type { ClientModule, Setup } from '../session/module.js';
import type { ClientSession } from '../session/session.js';
import { Election } from './election.js';
import { Hubs } from './hub.js';
import { keyOf, type SharedKey } from './key.js';
import { type Connect, opener } from './open.js';
import { resolveSharing, sharedOptionsOf } from './options.js';
import type { HostPipe } from './pipe.js';
import { holdLock, type Locks } from './presence.js';
import { VERSION } from './protocol.js';
import { Tab } from './tab.js';
import { attachToWorker } from './worker.js';

/** The option `shared`. */
export function createModule(setup: Setup): ClientModule {
  return { open: (next) => connectShared(setup, next) };
}

/**
 * Joins the session of the tabs that connect with the same URL, options and credential, or opens it.
 *
 * @param openOwn opens a session of this page alone, if this runtime cannot share one.
 * @throws {ProtocolError} `invalid_option` for an option that cannot be shared; errors of `connect`.
 */
async function connectShared(
  { url, options: given, logger, tools }: Setup,
  openOwn: () => Promise<ClientSession>,
): Promise<ClientSession> {
  const { connect, createSession, createBackoff, watchPage } = tools;
  const { shared, signal, traceparent, token } = given;
  const sharing = resolveSharing(shared === undefined || shared === false ? true : shared);
  const runtime = runtimeOf();
  const isAlone = !runtime.hasWorker && !runtime.hasElection;
  // A session of its own may need the class, as on Node.
  const options = sharedOptionsOf(isAlone ? { ...given, WebSocket: undefined } : given);
  const limits = resolveLimits(options.limits, CLIENT_LIMITS);
  const timers = resolveTimers(options.timers);
  const { reconnect, waitForServer } = options;
  const backoff = reconnect === false ? undefined : createBackoff(reconnect, undefined, waitForServer);
  const alone = (): Promise<ClientSession> => {
    logger.debug({ event: 'shared.alone' }, 'this runtime cannot share a session between tabs');
    return openOwn();
  };
  if (isAlone) return alone();
  signal?.throwIfAborted();
  const askToken = typeof token === 'function' ? async () => await token() : undefined;
  const firstToken = await unlessAborted(askToken?.() ?? token, signal);
  if (firstToken !== undefined && typeof firstToken !== 'string') {
    throw new ProtocolError('invalid_option', 'token: expected a string, or a function that returns one');
  }
  const { StreamQueue: Queue } = await parts.requests.load();
  const key = await keyOf(
    { version: VERSION, url: String(url), options, token: firstToken, isRenewed: askToken !== undefined },
    globalThis.crypto?.subtle,
  );
  signal?.throwIfAborted();
  const host = new HostFinder({ key, worker: sharing.worker, runtime, connect, logger });
  const tab = new Tab(
    {
      attach: () => host.attach(),
      key: key.exact,
      url: String(url),
      options,
      firstToken,
      askToken,
      limits,
      timers,
      backoff,
      logger: given.logger,
      traceparent,
      clock: systemClock,
      locks: runtime.locks,
      createSession,
      Queue,
      onEnded: () => {
        stopWatching();
        free();
        host.stop();
      },
    },
    logger,
  );
  const stopWatching = watchPage({
    onSignOfLife: () => {},
    onBack: () => {},
    onGone: (isCached) => {
      if (isCached) return;
      // Other tabs look for another host at once.
      host.abandon();
      tab.leaveNow();
    },
  });
  const opened = unlessAborted(tab.open(), signal);
  const free = whenAborted(signal, () => tab.leaveNow());
  try {
    await opened;
  } catch (error) {
    // A page whose storage is blocked has locks, and may not take one.
    if (error instanceof NoHost || (error as Error | null)?.name === 'SecurityError') return alone();
    throw error;
  }
  free();
  return tab.session;
}

/** The worker does not start, and the page cannot elect a tab. */
class NoHost extends ProtocolError {
  constructor(cause?: unknown) {
    super('unsupported', 'this page can share no session', { cause });
  }
}

/** The means of a page to share a session. */
interface Runtime {
  readonly hasWorker: boolean;
  readonly hasElection: boolean;
  readonly locks: Locks | undefined;
}

function runtimeOf(): Runtime {
  const scope = globalThis as { isSecureContext?: boolean; navigator?: { locks?: Locks } };
  // Node has channels, and newer versions have locks, but not tabs.
  const locks = scope.isSecureContext === true ? scope.navigator?.locks : undefined;
  return {
    hasWorker: typeof SharedWorker === 'function',
    hasElection: locks !== undefined && typeof BroadcastChannel === 'function',
    locks,
  };
}

interface HostFinderOptions {
  readonly key: SharedKey;
  readonly worker: URL | undefined;
  readonly runtime: Runtime;
  readonly connect: Connect;
  readonly logger: Logger;
}

/** Finds the host: the worker, or, if that does not start, the tab that was elected. */
class HostFinder {
  readonly #options: HostFinderOptions;
  #isWorkerBroken = false;
  #isStopped = false;
  #election: Election | undefined;

  constructor(options: HostFinderOptions) {
    this.#options = options;
  }

  async attach(): Promise<HostPipe> {
    const { runtime, worker, logger } = this.#options;
    if (runtime.hasWorker && !this.#isWorkerBroken) {
      try {
        return await attachToWorker(worker, systemClock);
      } catch (error) {
        this.#isWorkerBroken = true;
        if (this.#isStopped) throw error;
        const fields = { event: 'shared.worker', err: loggable(error) };
        logger.warn(fields, 'the shared worker does not start; tabs elect one of them');
        if (!runtime.hasElection) throw new NoHost(error);
      }
    }
    this.#election ??= this.#createElection();
    return await this.#election.attach();
  }

  /** The page goes away. */
  abandon(): void {
    this.#election?.abandon();
  }

  /** The tab of this page has left. */
  stop(): void {
    this.#isStopped = true;
    this.#election?.stop();
  }

  #createElection(): Election {
    const { key, runtime, connect } = this.#options;
    const { locks } = runtime;
    if (locks === undefined || key.digest === undefined) throw new NoHost();
    const name = `parlance:${key.digest}`;
    return new Election({
      name,
      locks,
      createHubs: async (onIdle) => {
        const lock = `parlance:host:${crypto.randomUUID()}`;
        const release = await holdLock(locks, lock);
        const free = (): void => {
          release();
          onIdle();
        };
        return new Hubs({ open: opener(connect), clock: systemClock, locks, lock }, free);
      },
    });
  }
}
