import type { EventFeed } from './event-feed.js';
import type { MetricKit } from './metric-kit.js';
import { setCounts } from './metric-kit.js';
import type { Observed } from './observed.js';

/** What becomes of durable sessions and of the engine that keeps them, as the log names it. */
const DURABLE_EVENTS = [
  ...['session.taken_over', 'session.given_up', 'session.fenced', 'session.degraded', 'takeover.failed'],
  ...[
    'record.gone',
    'record.behind',
    'record.lost',
    'record.full',
    'record.changed',
    'record.kept',
    'records.stalled',
  ],
  ...['engine.stalled', 'engine.answered', 'engine.back', 'node.cut_off'],
];

/** Reads the metrics of a cluster; a server on its own has none. */
export function clusterMetrics(observed: Observed, kit: MetricKit, feed: EventFeed): () => void {
  const { cluster, replies } = observed;
  if (cluster === undefined) return () => {};
  const durable = kit.gauge('sessions_durable', 'Sessions of this node that are on record.');
  const events = kit.counter(
    'durable_events',
    'What became of durable sessions and of the engine, by the event of the log.',
    ['event'],
  );
  for (const event of DURABLE_EVENTS) events.inc({ event }, 0);
  const isDurableEvent = new Set(DURABLE_EVENTS);
  feed.subscribe(({ event }) => {
    if (isDurableEvent.has(event)) events.inc({ event });
  });
  const nodes = kit.gauge('cluster_nodes', 'Nodes of the cluster that count as alive, this one included.');
  const led = kit.gauge(
    'led_connections',
    'Connections that this node leads to the nodes of their sessions.',
  );
  const remote = kit.gauge(
    'replies_read_elsewhere',
    'Kept replies of other nodes that sessions of this one read.',
  );
  const moves = kit.counter(
    'moves',
    'Sessions that have gone to other nodes, have come, could not go yet, or were taken over from dead nodes.',
    ['outcome'],
  );
  const links = kit.gauge(
    'relay_links',
    'Connections on which this node and others relay between their agents.',
  );
  const messages = kit.counter('relay_messages', 'Messages between nodes that relay between agents.', [
    'direction',
  ]);
  const bytes = kit.counter('relay_bytes', 'Bytes of those messages.', ['direction']);
  return () => {
    nodes.set(cluster.nodes);
    durable.set([...observed.sessions()].filter(({ isDurable }) => isDurable).length);
    led.set(cluster.led);
    remote.set(replies.watched);
    setCounts(moves, 'outcome', { ...cluster.moves.counts, taken_over: cluster.takenOver });
    const { relayLinks, relayTraffic } = cluster;
    links.set(relayLinks);
    setCounts(messages, 'direction', {
      sent: relayTraffic.messagesSent,
      received: relayTraffic.messagesReceived,
    });
    setCounts(bytes, 'direction', { sent: relayTraffic.bytesSent, received: relayTraffic.bytesReceived });
  };
}
