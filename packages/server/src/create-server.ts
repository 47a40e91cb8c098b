import { ADMIN, admin } from './admin/feature.js';
import { AGENTS, agents } from './agents/feature.js';
import { scan } from './agents/scan-feature.js';
import type { RelayStats } from './agents/transit.js';
import type { Listening, Server } from './api.js';
import { nodes } from './cluster/feature.js';
import { durable } from './durable/feature.js';
import { GROUPS, groups } from './groups/feature.js';
import type { Group } from './groups/group.js';
import { hooks } from './hooks/feature.js';
import type { ListenOptions } from './http/listener.js';
import { METRICS, metrics, metricsOnDemand } from './observe/feature.js';
import { tracing } from './observe/tracing-feature.js';
import { chooseFeatures, isRemoved } from './parts/features.js';
import type { Feature, Port } from './parts/part.js';
import { batching } from './replies/batching.js';
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
  const resolved = resolveServerOptions(given);
  const features = chooseFeatures(defaultFeatures(given), given.features);
  return new DefaultServer(resolved, features) as Server<Data>;
}

/** What a server has without a word, and what its options ask for. */
export function defaultFeatures(options: ServerOptions): readonly Feature[] {
  const { authenticate, extensions, batch, avp, transfers, use = [], scan: check } = options;
  const { agents: agentsOptions, cluster, node, durability } = options;
  const isDurable = options.durable !== undefined && options.durable !== false;
  const hasAgents =
    agentsOptions !== undefined || (authenticate === undefined ? extensions?.['agents'] : true);
  const all: (Feature | false | undefined)[] = [
    options.metrics ? metrics(options.metrics === true ? {} : options.metrics) : metricsOnDemand(),
    options.tracing !== false && tracing(),
    check && scan(check, options.securityScanning),
    tensors({ avp, transfers }),
    batch && batching(batch),
    (cluster !== undefined || node !== undefined) && nodes(node),
    (isDurable || durability !== undefined) && durable(options.durable ?? false, durability),
    keptReplies(options.replies),
    hasAgents === true && extensions?.['agents'] !== false && agents(agentsOptions),
    use.length > 0 && hooks(use),
    groups(),
    options.admin && admin(options.admin),
  ];
  return all.filter((feature) => feature !== undefined && feature !== false);
}
