import type { Figure } from '../parts/part.js';
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
