import type { Figure } from '../server/features/feature.js';
import { counts, one } from '../server/features/figures.js';
import type { ClusterNode } from './node.js';

/** The figures of one node of a cluster. */
export function nodeFigures(node: ClusterNode): readonly Figure[] {
  const { links, moves } = node;
  return [
    one('cluster_nodes', 'Nodes of the cluster that count as alive, this one included.', () => node.nodes),
    one(
      'led_connections',
      'Connections that this node proxies to the nodes of their sessions.',
      () => node.proxied,
    ),
    one(
      'node_links',
      'Connections between this node and others for what they tell each other.',
      () => links.size,
    ),
    counts('node_messages', 'Messages on those connections.', 'direction', () => ({
      sent: links.traffic.messagesSent,
      received: links.traffic.messagesReceived,
    })),
    counts('node_bytes', 'Bytes of those messages.', 'direction', () => ({
      sent: links.traffic.bytesSent,
      received: links.traffic.bytesReceived,
    })),
    counts(
      'moves',
      'Sessions that have gone to other nodes, have come, could not go yet, or were taken over from dead nodes.',
      'outcome',
      () => ({ ...moves.counts, taken_over: node.recorded?.takenCount ?? 0 }),
    ),
  ];
}
