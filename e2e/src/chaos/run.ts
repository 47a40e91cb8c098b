import { setTimeout as sleep } from 'node:timers/promises';
import { connect, type Session } from '@parlance/client';
import { cluster, createServer, keptReplies, memoryCluster } from '@parlance/server';
import WebSocket from 'ws';
import { Account } from './account.js';
import { FollowerAccount, followReplies, keepReply, REPLIES } from './followers.js';
import { createHostileProxy, type HostileProxy } from './hostile-proxy.js';
import { runStorm, type StormCounts } from './storm.js';
import { createHandler, readMessages, runTraffic } from './traffic.js';

/**
 * Sessions in full use over real sockets, through a proxy that breaks their connections in every way it can.
 */

export interface RunOptions {
  readonly seconds: number;
  /** Concurrent sessions. */
  readonly sessions: number;
}

export interface RunReport extends StormCounts {
  readonly faults: readonly string[];
  /** Messages, requests, replies and parts that arrived. */
  readonly arrived: number;
  readonly sessions: number;
  /** Connections that were opened. */
  readonly connections: number;
  /** How often a client lost the connection of a session that continued, and how often it resumed. */
  readonly losses: number;
  readonly recovered: number;
  /** Sessions that were closed during the storm. */
  readonly closed: number;
  readonly followers: FollowerAccount;
}

/** The shortest timeouts that the options allow; the resume window is longer than any outage of a session. */
const TIMERS = {
  acceptTimeoutMs: 4_000,
  pingIntervalMs: 10_000,
  pongTimeoutMs: 5_000,
  resumeWindowMs: 40_000,
};
const LIMITS = {
  messagesPerMinute: Infinity,
  bytesPerSecond: Infinity,
  sessionsPerIp: Infinity,
  sessionsPerMinutePerIp: Infinity,
  connectionsPerMinutePerIp: Infinity,
  failuresPerMinutePerIp: Infinity,
};
/** Average time between two failures of one connection, in milliseconds. */
const CALM_MS = 2_500;
const PACE_MS = 40;
/** Time that both ends need to detect that one direction is dead, and some more. */
const DETECTION_MS = 25_000;
/** One that asks, and followers. */
const SESSIONS_PER_PRINCIPAL = 8;
/** Time in which everything must become idle. */
const REST_MS = 60_000;

export async function runChaos(options: RunOptions): Promise<RunReport> {
  return await new Run(options).run();
}

class Run {
  readonly #options: RunOptions;
  readonly #account = new Account();
  readonly #counts: StormCounts = { cuts: 0, freezes: 0, delays: 0, halves: 0, outages: 0 };
  readonly #over = new AbortController();
  /** Unfinished work at either end of a session. */
  readonly #busy = new Set<Promise<void>>();
  readonly #serverSessions = new Map<string, Session>();
  /** Sessions that an application has closed, at either end. */
  readonly #closing = new Set<string>();
  readonly #followers = new FollowerAccount();
  #losses = 0;
  #recovered = 0;
  #closed = 0;

  constructor(options: RunOptions) {
    this.#options = options;
  }

  async run(): Promise<RunReport> {
    const { seconds, sessions } = this.#options;
    const account = this.#account;
    const onRejection = (reason: unknown) =>
      account.fault('process', 'server', `unhandled: ${String(reason)}`);
    process.on('unhandledRejection', onRejection);
    await using server = createServer({
      limits: LIMITS,
      timers: TIMERS,
      onRequest: createHandler(account, 'server'),
      onSession: (session) => this.#serve(session),
    });
    const { port } = await server.listen();
    await using proxy = await createHostileProxy(port);
    const url = `ws://127.0.0.1:${proxy.port}/session`;

    const end = performance.now() + seconds * 1_000;
    const storm = runStorm(
      {
        proxy,
        counts: this.#counts,
        everyMs: CALM_MS / sessions,
        mayHalve: () => end - performance.now() > DETECTION_MS,
      },
      this.#over.signal,
    );
    const users = Array.from({ length: sessions }, () => this.#use(url));
    // Principals that follow kept replies use servers of their own: the other sessions have no principal. Each connection
    // goes to one of two nodes, so that replies are followed where they are and from the other node.
    const keeping = {
      engine: memoryCluster(),
      limits: LIMITS,
      timers: TIMERS,
      authenticate: ({ token }: { readonly token?: string | undefined }) =>
        token === undefined ? null : { principal: token },
      features: [cluster(), keptReplies(REPLIES)],
      onRequest: keepReply,
    };
    await using keeper = createServer(keeping);
    await using secondKeeper = createServer(keeping);
    const ports = [(await keeper.listen()).port, (await secondKeeper.listen()).port];
    await using keeperProxy = await createHostileProxy(() => ports[Math.random() < 0.5 ? 0 : 1] as number);
    const principals = Math.ceil(sessions / SESSIONS_PER_PRINCIPAL);
    const keeperStorm = runStorm(
      {
        proxy: keeperProxy,
        counts: this.#counts,
        everyMs: CALM_MS / sessions,
        mayHalve: () => end - performance.now() > DETECTION_MS,
      },
      this.#over.signal,
    );
    const following = Array.from({ length: principals }, (_, i) =>
      followReplies(
        `principal-${i}`,
        {
          url: `ws://127.0.0.1:${keeperProxy.port}/session`,
          account: this.#followers,
          limits: LIMITS,
          timers: TIMERS,
        },
        this.#over.signal,
      ),
    );
    await sleep(seconds * 1_000);
    this.#over.abort();
    await Promise.all([storm, keeperStorm]);
    await this.#rest(Promise.all([...users, ...following]), proxy);
    process.off('unhandledRejection', onRejection);
    return {
      ...this.#counts,
      faults: [...account.check(), ...this.#followers.check()],
      arrived: account.arrived,
      sessions: account.sessions,
      connections: proxy.opened + keeperProxy.opened,
      losses: this.#losses,
      recovered: this.#recovered,
      closed: this.#closed,
      followers: this.#followers,
    };
  }

  /** The application at the server's end of a session. */
  async #serve(session: Session): Promise<void> {
    const account = this.#account;
    account.joined(session.id, 'server');
    this.#serverSessions.set(session.id, session);
    const closing = new AbortController();
    session.on('state', (state) => {
      if (state === 'closing' || state === 'closed') closing.abort();
    });
    const until = AbortSignal.any([closing.signal, this.#over.signal]);
    const traffic = runTraffic(session, 'server', { account, paceMs: PACE_MS }, until);
    this.#track(traffic);
    await readMessages(session, 'server', account);
    this.#serverSessions.delete(session.id);
    await traffic;
  }

  /** A client application that uses one session after another. */
  async #use(url: string): Promise<void> {
    while (!this.#over.signal.aborted) {
      const session = await this.#connect(url);
      if (session === undefined) continue;
      const lifetime = AbortSignal.timeout(2_000 + Math.floor(Math.random() * 20_000));
      await this.#useOne(session, AbortSignal.any([lifetime, this.#over.signal]));
    }
  }

  async #useOne(session: Session, until: AbortSignal): Promise<void> {
    const account = this.#account;
    const { id } = session;
    account.joined(id, 'client');
    const lost = new AbortController();
    let isAway = false;
    session.on('state', (state) => {
      if (state === 'suspended') this.#losses++;
      if (state === 'established' && isAway && session.id === id) this.#recovered++;
      // It resumes only to finish closing.
      if (state === 'closing' && isAway) this.#losses--;
      isAway = state === 'suspended';
    });
    session.on('reset', ({ reason }) => {
      if (!this.#closing.has(id)) account.fault(id, 'client', `not recovered: ${reason}`);
      // The server closed it while its connection was lost, so there was nothing left to recover.
      else if (isAway) this.#losses--;
      lost.abort();
      // Readers continue over the next session, which has no part in this.
      void session.close();
    });
    const reading = readMessages(session, 'client', account);
    const stop = AbortSignal.any([until, lost.signal]);
    const traffic = runTraffic(session, 'client', { account, paceMs: PACE_MS }, stop);
    this.#track(reading);
    this.#track(traffic);
    // Close in the middle of the traffic, or when everything is answered.
    if (Math.random() < 0.5) await traffic;
    // A session that opens just when all is over finds its signal aborted.
    else if (!stop.aborted)
      await new Promise((resolve) => stop.addEventListener('abort', resolve, { once: true }));
    if (this.#over.signal.aborted) {
      await traffic;
      await this.#calm(session);
    } else {
      this.#closed++;
    }
    const closer = Math.random() < 0.5 ? this.#serverSessions.get(id) : session;
    this.#closing.add(id);
    const { unacknowledged } = await (closer ?? session).close();
    account.closed(id, closer === session ? 'client' : 'server', unacknowledged);
    await Promise.all([reading, traffic]);
  }

  /** Waits until both ends of a session have sent and received everything. */
  async #calm(session: Session): Promise<void> {
    await session.flush();
    await this.#serverSessions.get(session.id)?.flush();
  }

  async #connect(url: string): Promise<Session | undefined> {
    try {
      return await connect(url, {
        WebSocket,
        limits: LIMITS,
        timers: TIMERS,
        reconnect: { minDelayMs: 5, maxDelayMs: 300 },
        onRequest: createHandler(this.#account, 'client'),
        signal: AbortSignal.timeout(5_000),
      });
    } catch {
      // The first attempt is not repeated, and it may be cut like any other.
      return undefined;
    }
  }

  #track(work: Promise<void>): void {
    this.#busy.add(work);
    void work.finally(() => this.#busy.delete(work));
  }

  async #rest(users: Promise<unknown>, proxy: HostileProxy): Promise<void> {
    const all = users.then(() => Promise.all(this.#busy));
    const isAtRest = await Promise.race([all.then(() => true), sleep(REST_MS, false, { ref: false })]);
    if (isAtRest) return;
    const what = `${this.#busy.size} unfinished tasks, ${proxy.connections.length} connections`;
    this.#account.fault('all', 'client', `not idle within ${REST_MS} ms: ${what}`);
  }
}
