import type { Logger, RequestHandler, Timers } from '@parlance/protocol';
import {
  assertOptions,
  codecLoader,
  codecs,
  createClientSession,
  createSweep,
  formOf,
  GuardedClock,
  guard,
  guardLater,
  isStatedAgentId,
  ProtocolError,
  parts,
  resolveBatchOptions,
  resolveCapabilities,
  resolveLimits,
  resolveTimers,
  Subprotocol,
  type Sweep,
  sweepInterval,
  systemClock,
  type Ticket,
} from '@parlance/protocol/client';
import { loadFailures, resolveUrl } from './connection/address.js';
import { Dialer } from './connection/dialer.js';
import { watchPage } from './connection/page-events.js';
import { createBackoff } from './connection/reconnect.js';
import { loggerOf } from './session/logger.js';
import { assertToken, either, resolveSubprotocol } from './session/option-values.js';
import { type ClientOptions, KINDS, KINDS_OF_AGENT } from './session/options.js';
import { type ClientSession, ClientUserSession, clientHostOf } from './session/session.js';
import { createRenewal } from './survival/renewal.js';
import { Succession } from './survival/succession.js';
import type { TakeUp } from './survival/take-up.js';

/**
 * Connects to a session server. Resolves when the session is established: on Node with its codecs and its vocabulary
 * loaded; in a page before, unless the session needs them for its first message.
 *
 * @param url `ws:` or `wss:`; `http:` and `https:` mean the same. Never put a secret into it.
 * @throws {ProtocolError} `invalid_option`; `connection_failed`; `rejected` with the REJECT of the server;
 * `bad_acceptance`; `timeout`. The reason of the signal after an abort.
 */
export async function connect(url: string | URL, options: ClientOptions = {}): Promise<ClientSession> {
  assertOptions(options, KINDS);
  const { shared, store } = options;
  if (shared !== undefined && shared !== false) {
    const { connectShared } = await import('./tabs/connect.js');
    const session = await connectShared(await resolveUrl(url), options, {
      connect: async (target, own) => clientHostOf(await connect(target, own)),
      createSession: (host) => new ClientUserSession(host),
      createBackoff,
      watchPage,
      logger: loggerOf(options),
    });
    if (session !== undefined) return session;
  }
  if (store === undefined) return await open(url, options);
  const target = await resolveUrl(url);
  const { openWithStore } = await import('./survival/take-up.js');
  return await openWithStore(
    { store, url: target, clock: systemClock, logger: loggerOf(options) },
    (takeUp) => open(target, options, takeUp),
  );
}

/** @param takeUp keeps what the next page needs to take the session up. @default nothing is kept */
async function open(url: string | URL, options: ClientOptions, takeUp?: TakeUp): Promise<ClientSession> {
  if (options.agent !== undefined) assertOptions(options.agent, KINDS_OF_AGENT, 'agent');
  const { signal, traceparent, transfers } = options;
  const agentId = either('agent.id', options.agent?.id, 'agentId', options.agentId);
  const avp = either('agent.model', options.agent?.model, 'avp', options.avp);
  const logger = loggerOf(options);
  const target = await resolveUrl(url);
  const subprotocol = resolveSubprotocol(options.subprotocol);
  if (agentId !== undefined && !isStatedAgentId(agentId)) {
    throw new ProtocolError('invalid_option', 'agent.id: expected 1 to 128 letters, digits and . _ : @ -');
  }
  const batch = resolveBatchOptions(options.batch);
  const limits = resolveLimits(options.limits);
  const timers = resolveTimers(options.timers);
  const { reconnect = {} } = options;
  const backoff = reconnect === false ? undefined : createBackoff(reconnect);
  const extensions = reconnect === false ? { ...options.extensions, resume: false } : options.extensions;
  // HELLO cannot be written without them.
  if (avp !== undefined) await codecs.avp.load();
  const security = options.security && (await codecs.m2m.load()).resolveSecurity(options.security);
  if (subprotocol === Subprotocol.JSON) await parts.bare.load();
  const entry = takeUp?.entry;
  const loader = codecLoader;
  const capabilities = resolveCapabilities(
    {
      ...options,
      extensions,
      agentId,
      avp,
      ...(await parts.defaults({ ...options, extensions })),
      rebuilds: takeUp !== undefined,
      moves: true,
      durables: true,
      isLoaded: (codec, encoding) =>
        entry === undefined
          ? !loader.isLazy || loader.isReady(codec, encoding)
          : !entry.later.includes(codec),
    },
    limits,
  );
  const askToken = async () => {
    const token = typeof options.token === 'function' ? await options.token() : options.token;
    assertToken(token);
    return token;
  };
  signal?.throwIfAborted();
  const firstToken = await askToken();
  signal?.throwIfAborted();

  if (takeUp !== undefined) takeUp.later = capabilities.extensions['ready'];
  const createCore = (proof: Ticket | undefined) =>
    createClientSession(
      {
        ticket: proof,
        subprotocol,
        capabilities,
        limits,
        timers,
        agentId,
        token: firstToken,
        avp,
        security,
        isDecodable: loader.isLazy
          ? (codec, { encoding }) => loader.isReady(formOf(codec), encoding)
          : undefined,
        timeOrigin: systemClock.timeOrigin,
      },
      parts.bare.isLoaded ? parts.bare.get() : undefined,
    );

  const triesUntil = systemClock.now() + (backoff?.connectWithinMs ?? 0);
  return await new Promise<ClientSession>((resolve, reject) => {
    const sweep = sweepOf(timers);
    const succession = new Succession({
      createCore,
      proof: entry?.ticket,
      isRenewed: backoff !== undefined,
      mayTryAgain: () => systemClock.now() < triesUntil,
      takeUp,
      agentId,
      endpoint: {
        clock: systemClock,
        limits,
        maxAssembledSize: options.limits?.maxTransferSize,
        role: 'client',
        onRequest: requestHandlerOf(options, limits.maxTransferSize, logger),
        batch,
        security,
        transfers,
        logger,
        traceparent,
        onGranted: (expiresInMs) => renewal.handleGranted(expiresInMs),
      },
      onReady() {
        signal?.removeEventListener('abort', onAbort);
        backoff?.reset();
        resolve(succession.session);
        takeUp?.handleReady(succession);
      },
      onState(state) {
        if (state !== 'established' && state !== 'closing') return;
        backoff?.reset();
        // Closing is short, so it does not wait for the next attempt.
        if (state === 'closing') dialer.retryNow();
      },
      onWireLost(retryAfterMs) {
        renewal.stop();
        dialer.retryLater(retryAfterMs);
      },
      moveWithin: (withinMs) => dialer.moveWithin(withinMs),
      onEnded(error) {
        release();
        const failure = error ?? new ProtocolError('session_closed', 'closed while connecting');
        const { isAnswered, firstMessage } = dialer;
        if (error === undefined || succession.isAccepted || !isAnswered || failure.code === 'rejected')
          return reject(failure);
        loadFailures().then(
          ({ explain }) => reject(explain(target, failure, firstMessage)),
          () => reject(failure),
        );
      },
    });
    const clock = new GuardedClock(systemClock, succession);
    const dialer = new Dialer({
      url: target,
      subprotocol,
      WebSocket: options.WebSocket,
      timeoutMs: timers.acceptTimeoutMs,
      firstTimeoutMs: options.timers?.acceptTimeoutMs ?? FIRST_TIMEOUT_MS,
      backoff,
      clock,
      logger,
      askToken: async () => {
        await takeUp?.prepare();
        return await askToken();
      },
      session: succession,
    });
    const renewal = createRenewal({
      askToken: typeof options.token === 'function' ? askToken : undefined,
      authenticate: (token) => succession.current.authenticate(token),
      clock,
      logger,
    });
    const stopListening = watchPage({
      onSignOfLife: () => guard(succession, () => dialer.handleSignOfLife()),
      onGone(isCached) {
        if (takeUp?.handleGone(succession)) dialer.abandon();
        // Without CLOSE, the server would keep the session for a client that does not return.
        else if (!isCached) guardLater(succession, succession.close());
      },
      onBack() {
        if (takeUp === undefined) guard(succession, () => dialer.handleSignOfLife());
        else
          guardLater(
            succession,
            takeUp.handleBack().then(() => dialer.handleBack()),
          );
      },
    });
    const release = (): void => {
      renewal.stop();
      signal?.removeEventListener('abort', onAbort);
      stopListening();
      dialer.stop();
      sweep.delete(succession);
    };
    const onAbort = () => {
      reject(signal?.reason);
      guardLater(succession, succession.close());
      guard(succession, () => dialer.abandon());
    };
    signal?.addEventListener('abort', onAbort, { once: true });
    sweep.add(succession);
    try {
      dialer.dial(firstToken);
    } catch (error) {
      release();
      reject(error);
    }
  });
}

/** `onFetch` is called by code that is loaded with the first request. */
function requestHandlerOf(
  { onRequest, onFetch }: ClientOptions,
  maxBodySize: number,
  logger: Logger,
): RequestHandler | undefined {
  if (onFetch === undefined) return onRequest;
  let handler: RequestHandler | undefined;
  return async (request, context) => {
    const http = await import('@parlance/protocol/serve-http');
    handler ??= http.createFetchHandler({ onRequest, onFetch, maxBodySize, logger });
    return await handler(request, context);
  };
}

/** The default of `acceptTimeoutMs` is for a server that has answered before, or says that it takes time. */
const FIRST_TIMEOUT_MS = 5_000;

/** Sessions with the same interval share one timer. */
const sweeps = new Map<number, Sweep>();
function sweepOf(timers: Timers): Sweep {
  const interval = sweepInterval(timers);
  const sweep = sweeps.get(interval) ?? createSweep(interval);
  sweeps.set(interval, sweep);
  return sweep;
}
