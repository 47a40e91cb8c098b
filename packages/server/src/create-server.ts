import { ProtocolError } from '@parlance/protocol';
import { ADMIN } from './admin/feature.js';
import { AGENTS, agents } from './agents/feature.js';
import type { RelayStats } from './agents/transit.js';
import type { Listening, Server } from './api.js';
import { alone } from './cluster/alone.js';
import { GROUPS, groups } from './groups/feature.js';
import type { Group } from './groups/group.js';
import type { ListenOptions } from './http/listener.js';
import { METRICS, metricsOnDemand } from './observe/feature.js';
import { tracing } from './observe/tracing-feature.js';
import { chooseFeatures, isRemoved } from './parts/features.js';
import type { Feature, Port } from './parts/part.js';
import { keptReplies } from './replies/feature.js';
import { SessionServer } from './server.js';
import { resolveServerOptions, type ServerOptions } from './server-options.js';
import { tensors } from './tensors/feature.js';

/** A server as applications have it: what its features are asked for has a name of its own. */
class DefaultServer extends SessionServer implements Server {
  group(name: string): Group {
    return this.#needed(GROUPS).named(name);
  }

  relayStats(): RelayStats {
    return { forwarded: 0, recoded: 0, refused: 0, unknown: 0, ...this.parts.use(AGENTS)?.relay.stats };
  }

  get admin(): Listening | undefined {
    return this.parts.use(ADMIN)?.listening;
  }

  async listenMetrics(options: ListenOptions = {}): Promise<Listening> {
    this.assertOpen();
    return await this.#needed(METRICS).listen(options);
  }

  /** @throws {ProtocolError} `unsupported` if the feature was removed. */
  #needed<Value>(port: Port<Value>): Value {
    const value = this.parts.use(port);
    if (value === undefined) throw isRemoved(port.name);
    return value;
  }
}

/**
 * Creates a session server; `listen` or `attach` opens it.
 *
 * @typeParam Data of `session.data`: what `authenticate` returns as `data`. Write `authenticate` before the handlers, so
 * that the compiler finds it there.
 * @throws {ProtocolError} `invalid_option`.
 */
export function createServer<Data = unknown>(options: ServerOptions<Data> = {}): Server<Data> {
  // The type of the data exists for the application alone.
  const given = options as ServerOptions;
  assertCurrent(given);
  const resolved = resolveServerOptions(given);
  const features = chooseFeatures(defaultFeatures(resolved), given.features);
  return new DefaultServer(resolved, features) as Server<Data>;
}

/** What a server has without a word. */
export function defaultFeatures({
  authenticate,
  engine,
}: Pick<ServerOptions, 'authenticate' | 'engine'>): readonly Feature[] {
  const agreed = ['link', 'resume', 'context'].map(agreedOn);
  const owner = engine === undefined ? [] : [alone()];
  const proven = authenticate === undefined ? [] : [agents()];
  return [...agreed, metricsOnDemand(), tracing(), tensors(), ...owner, keptReplies(), ...proven, groups()];
}

/** An extension that sessions agree on, and that the sessions themselves have. */
const agreedOn = (name: string): Feature => ({ name, install: () => ({ extensions: [name] }) });

/** The options of the past, and the line to write instead. */
export const MOVED_OPTIONS: Readonly<Record<string, string>> = {
  agents: 'features: [agents({ … })]',
  replies: 'features: [keptReplies({ … })]',
  batch: 'features: [batching({ … })]',
  scan: 'features: [scan((message, context) => …)]',
  securityScanning: 'features: [scan((message, context) => …, true)]',
  metrics: 'features: [metrics({ … })]',
  admin: 'features: [admin({ … })]',
  tracing: "features: [without('tracing')]",
  use: 'features: [hooks([ … ])]',
  cluster: 'engine: redis({ … }), features: [nodes({ … })]',
  node: 'features: [nodes({ … })]',
  durable: 'features: [durable((candidate) => …)]',
  durability: 'features: [durable(true, { … })]',
  seal: 'engine: sealed(redis({ … }), { … })',
  avp: 'features: [tensors({ avp: { … } })]',
  transfers: "features: [tensors({ transfers: 'stream' })]",
  extensions: "features: [without('context')]",
};

/** @throws {ProtocolError} `invalid_option`. */
function assertCurrent(options: ServerOptions): void {
  for (const name in options) {
    if (!Object.hasOwn(MOVED_OPTIONS, name)) continue;
    throw new ProtocolError('invalid_option', `the option "${name}" has moved: write ${MOVED_OPTIONS[name]}`);
  }
}
