import { Extension } from '@parlance/protocol';
import { measured } from '../engine/measured.js';
import type { Feature } from '../server/features/feature.js';
import { METER, NODE, type OwnHooks, type OwnHost, SESSIONS } from '../server/features/own-feature.js';
import type { SessionHost } from '../session/host.js';
import { MovableMailbox } from '../session/movable-mailbox.js';
import { busy } from '../transport/http/site.js';
import { DURABLE } from './durable-sessions.js';
import { EngineSize } from './engine-size.js';
import { nodeFigures } from './figures.js';
import { RestoredSession } from './moves/restored-session.js';
import { ClusterNode } from './node.js';
import { type ClusterOptions, resolveClusterOptions } from './options.js';
import { CLUSTER } from './service.js';

/** How long sessions without a connection may take to go to other nodes after the deadline, in milliseconds. */
const PARK_MS = 10_000;

const CUT_OFF = busy('this node does not reach its engine, and others do: they take its sessions');

/** Joins the nodes of a cluster, so that a connection may resume its session through any of them. */
export const cluster = (options: ClusterOptions = {}): Feature => ({
  name: 'cluster',
  provides: [NODE, CLUSTER],
  after: ['metrics'],
  install(host: OwnHost): OwnHooks {
    const server = host.use(SESSIONS) as SessionHost;
    const resolved = resolveClusterOptions(host.options.engine, options);
    const node = new ClusterNode(
      {
        server,
        get recorded() {
          return host.use(DURABLE);
        },
        moving: {
          sessions: host.sessions,
          get parts() {
            return server.features;
          },
          run: (session) => server.run(session),
          restore: (bytes, sessionId, proxy) => RestoredSession.of(server, bytes, sessionId, proxy),
        },
      },
      { ...resolved, engine: measured(resolved.engine, () => host.use(METER)?.observer) },
    );
    host.provide(NODE, node);
    host.provide(CLUSTER, node);
    return partOf(node, new EngineSize(resolved.engine));
  },
});

function partOf(node: ClusterNode, size: EngineSize): OwnHooks {
  const { moves } = node;
  return {
    extensions: [Extension.MOVE],
    endpoint: { createMailbox: () => new MovableMailbox() },
    figures: [...nodeFigures(node), ...size.figures],
    drain: {
      get isElsewhere() {
        return moves.hasTargets;
      },
      announce: (deadline) => node.drain(deadline),
      // One that another node proxies continues there, and so does one without a connection.
      keeps: ({ proxiedBy, hasWire }) => moves.hasTargets && (proxiedBy !== undefined || !hasWire),
      farewell: ({ negotiated }) =>
        moves.hasTargets && negotiated.extensions[Extension.MOVE] !== undefined ? { move: true } : undefined,
      park: () => moves.parkAll(PARK_MS),
    },
    refuses: (asks) => (asks === 'balancer' && node.isCutOff ? CUT_OFF : node.refuses()),
    lookup: (wanted) => node.lookup(wanted),
    begins: (key, sessionId, over) => node.begins(key, sessionId, over),
    start: () => node.start(),
    tick: () => node.tick(),
    leave: () => node.leave(),
    async close() {
      await size.close();
      await node.close();
    },
  };
}
