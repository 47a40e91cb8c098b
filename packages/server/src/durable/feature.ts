import { Extension, type HelloPayload, type Logger, ResumeRefusal } from '@parlance/protocol';
import { loggable, systemClock } from '@parlance/protocol/internal';
import { DURABLE, type DurableSessions } from '../cluster/durable-sessions.js';
import type { EngineConnection } from '../engine/engine.js';
import type { DurableRequest } from '../engine/logs/reply.js';
import type { Seal } from '../engine/seal/keys.js';
import type { DrainHooks, Feature, Figure } from '../server/features/feature.js';
import {
  NODE,
  type OwnHooks,
  type OwnHost,
  SESSIONS,
  type ThisNode,
} from '../server/features/own-feature.js';
import type { CheckedIdentity } from '../session/admission/admission.js';
import type { LookupQuery, LookupResult } from '../session/admission/lookup.js';
import type { Origin } from '../session/admission/renewal.js';
import { NO_NODE } from '../session/durable-rules.js';
import type { ServerEndpoint } from '../session/endpoint.js';
import type { Admission } from '../session/hooks.js';
import type { SessionHost } from '../session/host.js';
import { busy, failed, type Refusal } from '../transport/http/site.js';
import { isAwaited } from './awaited.js';
import { durableFigures } from './figures.js';
import { Leaving } from './leaving.js';
import {
  type DurabilityOptions,
  type DurablePolicy,
  type ResolvedDurability,
  resolveDurability,
} from './options.js';
import { Records } from './records.js';
import { TakeOvers } from './take-over.js';

/**
 * Records sessions in the engine, so that they survive the death of this process, if their clients understand that.
 *
 * @param policy which sessions.
 */
export const durable = (policy: DurablePolicy = true, options: DurabilityOptions = {}): Feature => ({
  name: 'durable',
  provides: [DURABLE],
  after: ['metrics', NODE],
  install(host: OwnHost): OwnHooks {
    const node = host.use(NODE) as ThisNode;
    const durability = resolveDurability(policy, options, node.engine);
    if (durability === undefined) return {};
    const part = new DurableFeature(host, durability, node);
    host.provide(DURABLE, part);
    return part;
  },
});

class DurableFeature implements OwnHooks, DurableSessions {
  readonly #logger: Logger;
  readonly #durability: ResolvedDurability;
  readonly #records: Records;
  readonly #takeOvers: TakeOvers;
  readonly #leaving: Leaving;
  readonly #link: EngineConnection;
  readonly #seal: Seal | undefined;
  readonly #node: ThisNode;
  readonly #find: OwnHost['find'];
  readonly #parts: () => SessionHost['features'];
  readonly extensions = [Extension.DURABLE];
  readonly core;
  readonly drain: DrainHooks;
  readonly figures: readonly Figure[];

  constructor(host: OwnHost, durability: ResolvedDurability, node: ThisNode) {
    const server = host.use(SESSIONS) as SessionHost;
    const { logger, seal, timers, feed } = host.options;
    const { incarnation } = node;
    const common = {
      incarnation,
      link: durability.engine.connect(),
      logger,
      seal,
      timers,
      clock: systemClock,
    };
    this.#logger = logger;
    this.#link = common.link;
    this.#seal = seal;
    this.#node = node;
    this.#parts = () => server.features;
    this.#find = (sessionId) => host.find(sessionId);
    this.#durability = durability;
    this.#records = new Records({ ...common, durability, isStalled: () => node.isStalled });
    this.#takeOvers = new TakeOvers({
      ...{ ...common, records: this.#records, host: server },
      hasLease: () => node.hasLease,
    });
    this.#leaving = new Leaving({ ...common, sessions: host.sessions, parts: () => server.features });
    this.core = { maxRecordSize: durability.maxSessionBytes, tellsBeside: durability.tellsBeside };
    this.drain = {
      announce: (_deadline, returnWithinMs) => this.#leaving.start(returnWithinMs),
      // Its client comes back when it is given up.
      keeps: ({ isDurable }) => isDurable,
      park: () => this.#leaving.all(),
    };
    this.figures = durableFigures(host.sessions, feed, (session) => this.#records.ageOf(session));
  }

  admit(
    { extensions }: HelloPayload,
    { principal, agentId }: CheckedIdentity,
    { ip, headers }: Origin,
  ): Admission | Refusal | undefined {
    if (extensions[Extension.DURABLE] === undefined) return undefined;
    try {
      if (!this.#records.wants({ principal, agentId, ip, headers })) return undefined;
      if (this.#records.isStalled) return STALLED;
      return { isDurable: true, accepted: (session) => this.#begin(session) };
    } catch (error) {
      const fields = { event: 'durable.failed', ip, err: loggable(error) };
      this.#logger.error(fields, 'the policy of durable() threw, so the client was refused');
      return FAILED;
    }
  }

  #begin(session: ServerEndpoint): void {
    const { record } = session.core;
    if (record === undefined) return;
    this.#records.begin(session, record);
    this.#parts().record(session);
  }

  /** Nodes have asked before, if there are any, and have looked for the session there. */
  async lookup(wanted: LookupQuery): Promise<LookupResult> {
    const { sessionId, signal } = wanted;
    const { incarnation } = this.#node;
    try {
      const owner = (await this.#link.findSession(sessionId))?.owner;
      if (owner === undefined) return ResumeRefusal.UNKNOWN_SESSION;
      const isOwn = owner === incarnation;
      const isElsewhere = !isOwn && owner !== NO_NODE && (await this.#node.lives(owner));
      if (isElsewhere || this.isUnderWay(sessionId)) return ELSEWHERE;
      // It was claimed, and the answer of the engine was lost.
      if (isOwn && this.#find(sessionId) !== undefined) return 'here';
      if (signal.aborted) return 'done';
      const outcome = await this.takeOver({ ...wanted, gone: owner });
      return outcome === 'busy' ? ELSEWHERE : outcome;
    } catch {
      // It is logged that the engine does not answer.
      return ELSEWHERE;
    }
  }

  /** Checks the engine. @throws {ProtocolError} `unsupported` if it forgets everything when it ends. */
  async start(): Promise<void> {
    await this.#records.start();
  }

  tick(): void {
    this.#records.handleTick();
  }

  async leave(): Promise<void> {
    await this.#leaving.all();
  }

  async close(): Promise<void> {
    await this.#records.close();
  }

  // --- for nodes

  get isStalled(): boolean {
    return this.#records.isStalled;
  }

  get takenCount(): number {
    return this.#takeOvers.count;
  }

  prepare(): Promise<void> {
    return this.#records.start();
  }

  takeOver(wanted: LookupQuery & { readonly gone: string }): ReturnType<DurableSessions['takeOver']> {
    return this.#takeOvers.takeOver(wanted);
  }

  isAwaited(source: DurableRequest, id: string): Promise<boolean> {
    return isAwaited(this.#link, this.#seal, source, id);
  }

  isUnderWay(sessionId: string): boolean {
    return this.#leaving.isUnsaid(sessionId) || this.#takeOvers.isUnderWay(sessionId);
  }

  handleCutOff(): void {
    if (!this.#durability.degrades) this.#leaving.abandonAll();
  }
}

const STALLED = busy('the server cannot record the session at present', 1_000);
const ELSEWHERE = busy('another process has the session, or had it a moment ago', 250);
const FAILED = failed('the server failed');
