import type { Figure } from '../server/features/feature.js';
import type { ClusterNode } from './node.js';

/** The figures of one node of a cluster. */
export function nodeFigures(node: ClusterNode): readonly Figure[] {
  return [
    {
      name: 'cluster_nodes',
      help: 'Nodes of the cluster that count as alive, this one included.',
      read: (set) => set(node.nodes),
    },
    {
      name: 'led_connections',
      help: 'Connections that this node leads to the nodes of their sessions.',
      read: (set) => set(node.led),
    },
    {
      name: 'node_links',
      help: 'Connections between this node and others for what they tell each other.',
      read: (set) => set(node.links.size),
    },
    {
      name: 'node_messages',
      help: 'Messages on those connections.',
      labels: ['direction'],
      isCount: true,
      read(set) {
        set(node.links.traffic.messagesSent, { direction: 'sent' });
        set(node.links.traffic.messagesReceived, { direction: 'received' });
      },
    },
    {
      name: 'node_bytes',
      help: 'Bytes of those messages.',
      labels: ['direction'],
      isCount: true,
      read(set) {
        set(node.links.traffic.bytesSent, { direction: 'sent' });
        set(node.links.traffic.bytesReceived, { direction: 'received' });
      },
    },
    {
      name: 'moves',
      help: 'Sessions that have gone to other nodes, have come, could not go yet, or were taken over from dead nodes.',
      labels: ['outcome'],
      isCount: true,
      read(set) {
        for (const [outcome, count] of Object.entries(node.moves.counts)) set(count, { outcome });
        set(node.recorded?.takenCount ?? 0, { outcome: 'taken_over' });
      },
    },
  ];
}
