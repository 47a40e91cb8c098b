import type { MetricKit } from './metric-kit.js';
import { setCounts } from './metric-kit.js';
import type { Observed } from './observed.js';

/** Reads the metrics of a cluster; a server on its own has none. */
export function clusterMetrics({ cluster, replies }: Observed, kit: MetricKit): () => void {
  if (cluster === undefined) return () => {};
  const nodes = kit.gauge('cluster_nodes', 'Nodes of the cluster that count as alive, this one included.');
  const led = kit.gauge(
    'led_connections',
    'Connections that this node leads to the nodes of their sessions.',
  );
  const remote = kit.gauge(
    'replies_read_elsewhere',
    'Kept replies of other nodes that sessions of this one read.',
  );
  const moved = kit.counter(
    'replies_moved',
    'Kept replies that had to go to another node, by whether one took them.',
    ['outcome'],
  );
  const moves = kit.counter(
    'moves',
    'Sessions that have gone to other nodes, have come, or could not go yet.',
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
    led.set(cluster.led);
    remote.set(replies.watched);
    const { moved: took, lost } = replies.handedOver;
    setCounts(moved, 'outcome', { moved: took, lost });
    setCounts(moves, 'outcome', { ...cluster.moves.counts });
    const { relayLinks, relayTraffic } = cluster;
    links.set(relayLinks);
    setCounts(messages, 'direction', {
      sent: relayTraffic.messagesSent,
      received: relayTraffic.messagesReceived,
    });
    setCounts(bytes, 'direction', { sent: relayTraffic.bytesSent, received: relayTraffic.bytesReceived });
  };
}
