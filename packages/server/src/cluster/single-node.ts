import { newIncarnation, systemClock } from '@parlance/protocol/internal';
import type { Engine, EngineConnection } from '../engine/engine.js';
import { measured } from '../engine/measured.js';
import type { Feature, Figure } from '../server/features/feature.js';
import { METER, NODE, type OwnHooks, type OwnHost, type ThisNode } from '../server/features/own-feature.js';
import { retentionMsOf } from '../session/durable-rules.js';
import { EngineSize } from './engine-size.js';
import { Membership } from './membership.js';
import { assertEngine } from './options.js';
import { RecordKeeper } from './record-keeper.js';
import { CLUSTER } from './service.js';

/** Owns what a server writes to its engine without `cluster()`. On by default with an engine. */
export const singleNode = (): Feature => ({
  name: 'single-node',
  provides: [NODE],
  after: ['cluster'],
  install(host: OwnHost): OwnHooks {
    const { engine } = host.options;
    if (engine === undefined || host.use(CLUSTER) !== undefined) return {};
    const node = new SingleNode(
      measured(assertEngine(engine), () => host.use(METER)?.observer),
      host,
    );
    host.provide(NODE, node);
    return node;
  },
});

/**
 * A process that no other one reaches. Its lease tells the next one, and others that use the engine, whether it lives: what it
 * writes is its own for as long as it does.
 */
class SingleNode implements ThisNode {
  readonly incarnation = newIncarnation();
  readonly engine: Engine;
  readonly figures: readonly Figure[];
  readonly #size: EngineSize;
  readonly #membership: Membership;
  readonly #records: RecordKeeper;
  readonly #link: EngineConnection;

  constructor(engine: Engine, { options: { logger, timers }, sessions }: OwnHost) {
    const { incarnation } = this;
    const link = engine.connect();
    this.engine = engine;
    this.#link = link;
    this.#size = new EngineSize(engine);
    this.figures = this.#size.figures;
    const retentionMs = retentionMsOf(timers);
    this.#records = new RecordKeeper({ incarnation, sessions, link: () => link, retentionMs, logger });
    this.#membership = new Membership({
      ...{ engine, incarnation, clock: systemClock, now: Date.now, logger },
      // Nothing is sent to it, so nothing has to prove who it is.
      refusalOf: () => undefined,
      onForgotten: () => this.#records.keepNow(),
    });
  }

  get isStalled(): boolean {
    return this.#membership.isStalled;
  }
  get hasLease(): boolean {
    return this.#membership.hasLease;
  }

  async lives(incarnation: string): Promise<boolean> {
    return (await this.#membership.find(incarnation)) !== undefined;
  }

  /** @throws {ProtocolError} `unsupported` if the engine is unsuitable; `invalid_option` if others use it with `cluster()`. */
  async start(): Promise<void> {
    await this.#membership.start({ address: '', proof: '' });
  }

  tick(): void {
    this.#records.handleTick();
  }

  async close(): Promise<void> {
    await this.#membership.stop();
    await this.#size.close();
    await this.#link.close();
  }
}
