import type { EncodingName, Timers } from '@parlance/protocol';
import {
  CLIENT_FORMS,
  CloseCode,
  codecLoader,
  parts as codeOf,
  createClientSession,
  createSweep,
  formOf,
  GuardedClock,
  guard,
  guardLater,
  type LaterCodec,
  ProtocolError,
  resolveTimers,
  Subprotocol,
  type Sweep,
  sentenceOf,
  sweepInterval,
  type Ticket,
  whenAborted,
} from '@parlance/protocol/client';
import { createBackoff } from './connection/backoff.js';
import { Dialer } from './connection/dialer.js';
import { fallBack, openEither } from './connection/fall-back.js';
import { watchPage } from './connection/page-events.js';
import type { ClientTransport } from './connection/transport.js';
import { Wake } from './connection/wake.js';
import { webSockets } from './connection/web-socket.js';
import { channelOf, http } from './modules.js';
import { Credentials } from './reconnect/credentials.js';
import { ReconnectingSession } from './reconnect/reconnecting-session.js';
import { createRenewal } from './reconnect/renewal.js';
import type { ClientModule, Plan, Setup } from './session/module.js';
import { ModuleList } from './session/module-list.js';
import type { ClientSession } from './session/session.js';

/** Opens the session that `setup` describes, with the modules that its options ask for. Throws as `connect`. */
export async function open(setup: Setup, given: readonly ClientModule[]): Promise<ClientSession> {
  const { url, options, limits, clock: platformClock, logger } = setup;
  const { signal, traceparent, transfers } = options;
  const timers = { ...resolveTimers(options.timers) };
  const { reconnect, waitForServer } = options;
  const backoff = reconnect === false ? undefined : createBackoff(reconnect, undefined, waitForServer);
  if (waitForServer && backoff === undefined)
    throw new ProtocolError('invalid_option', 'waitForServer: with reconnect: false nothing is tried again');
  const modules = new ModuleList(given);
  const { plan } = modules;
  const { agentId, avp, security, subprotocol = Subprotocol.BINARY } = plan;
  const capabilities = await capabilitiesOf(setup, plan);
  const credentials = new Credentials(options.token);
  const askToken = () => credentials.ask();
  const onRefused = () => credentials.handleRefused(platformClock.now(), isAccepted());
  let isAccepted = () => false;
  signal?.throwIfAborted();

  let nonce: Uint8Array | undefined;
  const createCore = (ticket: Ticket | undefined, isRepeated: boolean) => {
    if (!isRepeated) nonce = crypto.getRandomValues(new Uint8Array(16));
    return createClientSession(
      {
        ticket,
        nonce,
        subprotocol,
        capabilities,
        limits,
        timers,
        agentId,
        avp,
        security,
        onRefused,
        isDecodable: codecLoader.isLazy
          ? (codec, { encoding }) => codecLoader.isReady(formOf(codec), encoding)
          : undefined,
        get timeOrigin() {
          return platformClock.timeOrigin;
        },
      },
      {
        forms: CLIENT_FORMS,
        plain: codeOf.plain.isLoaded ? codeOf.plain.get() : undefined,
        streams: codeOf.requests,
      },
    );
  };

  const triesUntil = platformClock.now() + (backoff?.connectWithinMs ?? 0);
  // A server that says nothing is busy, or none of ours; pages, which wait by default, are told of the latter soon.
  const asksToWait =
    waitForServer === true || (typeof reconnect === 'object' && reconnect.connectWithinMs !== undefined);
  return await new Promise<ClientSession>((resolve, reject) => {
    const sweep = sweepOf(timers);
    const reconnecting = new ReconnectingSession({
      createCore,
      proof: plan.proof,
      isRenewed: backoff !== undefined,
      onRefused,
      mayTryAgain: ({ code }) => platformClock.now() < triesUntil && (asksToWait || code !== 'timeout'),
      modules,
      agentId,
      endpoint: {
        clock: platformClock,
        limits,
        maxAssembledSize: options.limits?.maxTransferSize,
        role: 'client',
        onRequest: plan.onRequest ?? options.onRequest,
        batch: plan.batch,
        security,
        transfers,
        logger,
        traceparent,
        codecsAfter: options.codecsAfter,
        channelOf,
        onGranted: (expiresInMs) => renewal.handleGranted(expiresInMs),
      },
      transport: () => transport.name,
      onReady() {
        free();
        resolve(reconnecting.session);
      },
      onState(state) {
        if (state !== 'established' && state !== 'closing') return;
        dialer.handleSuccess();
        // Closing is short, so it does not wait for the next attempt.
        if (state === 'closing') dialer.retryNow();
      },
      onWireLost(retryAfterMs) {
        renewal.stop();
        dialer.retryLater(retryAfterMs);
      },
      moveWithin: (withinMs) => dialer.moveWithin(withinMs),
      retryAt: (): number | undefined => dialer.retryAt,
      onEnded(error) {
        release();
        const failure = error ?? new ProtocolError('session_closed', 'closed while connecting');
        const { isAnswered, firstMessage } = dialer;
        if (error === undefined || reconnecting.isAccepted || !isAnswered || failure.code === 'rejected')
          return reject(failure);
        Promise.all([import('./connection/connection-failure.js'), sentenceOf(failure)]).then(
          ([{ explain }]) => reject(explain(url, failure, firstMessage)),
          () => reject(failure),
        );
      },
    });
    isAccepted = () => reconnecting.isAccepted;
    modules.call('begin', reconnecting, capabilities.extensions['ready']);
    const clock = new GuardedClock(platformClock, reconnecting);
    const webSocket = webSockets({ ...options, subprotocol });
    const usual =
      setup.fallsBack && subprotocol === Subprotocol.BINARY
        ? fallBack(webSocket, clock, async (failure) => {
            const { createModule } = await http.load();
            const module = createModule({ options, limits });
            module.begin(reconnecting);
            modules.add(module);
            return module.plan.transport(webSocket, clock, openEither, failure);
          })
        : webSocket;
    const transport: ClientTransport = plan.transport?.(usual, clock, openEither) ?? usual;
    const dialer = new Dialer({
      url,
      transport,
      timers,
      firstTimeoutMs: options.timers?.acceptTimeoutMs ?? FIRST_TIMEOUT_MS,
      backoff,
      clock,
      logger,
      askToken: async () => {
        await Promise.all(modules.call('dialing'));
        return await askToken();
      },
      session: reconnecting,
    });
    const renewal = createRenewal({
      askToken: credentials.isRenewable ? askToken : undefined,
      authenticate: (token) => reconnecting.current.authenticate(token),
      leave: () => reconnecting.current.leaveConnection('no new credentials'),
      clock,
      logger,
    });
    const onSignOfLife = () => guard(reconnecting, () => dialer.handleSignOfLife());
    const wake = new Wake(platformClock);
    const ticking = {
      handleTick() {
        if (wake.check()) onSignOfLife();
        reconnecting.handleTick();
      },
      crash: (error: unknown) => reconnecting.crash(error),
    };
    const stopListening = watchPage({
      onSignOfLife,
      onGone(isCached) {
        if (modules.call('gone').includes(true)) dialer.abandon();
        // Without CLOSE, the server would keep the session for a client that does not return.
        else if (!isCached) guardLater(reconnecting, reconnecting.close());
        if (!isCached) modules.call('left');
      },
      onBack: () =>
        guardLater(
          reconnecting,
          Promise.all(modules.call('back')).then(() => dialer.handleBack()),
        ),
    });
    const release = (): void => {
      renewal.stop();
      free();
      stopListening();
      dialer.stop(modules.has('isAway') ? CloseCode.DETACHED : CloseCode.NORMAL);
      sweep.delete(ticking);
    };
    const fail = (error: unknown) => {
      reject(error);
      guardLater(reconnecting, reconnecting.close());
    };
    const free = whenAborted(signal, () => fail(signal?.reason));
    sweep.add(ticking);
    // The bound of the application holds for its own function as well.
    dialer.ask(askToken, (asksToWait && backoff?.connectWithinMs) || Infinity).catch(fail);
  });
}

/** The capabilities that HELLO advertises. @throws {ProtocolError} `invalid_option`. */
async function capabilitiesOf({ options, limits }: Setup, plan: Plan) {
  const { reconnect } = options;
  const { later } = plan;
  const own = { rebuild: plan.rebuilds === true, move: true, durable: true };
  const extensions = { ...own, ...options.extensions, ...(reconnect === false && { resume: false }) };
  const offer = {
    ...options,
    ...plan,
    extensions,
    isLoaded: (codec: LaterCodec, encoding: EncodingName | null) =>
      later === undefined
        ? !codecLoader.isLazy || codecLoader.isReady(codec, encoding)
        : !later.includes(codec),
  };
  const usual = codeOf.usualOffer(offer, limits);
  if (usual !== undefined) return usual;
  const { resolveCapabilities } = await codeOf.offers.load();
  return resolveCapabilities({ ...offer, ...(await codeOf.defaults({ ...options, extensions })) }, limits);
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
