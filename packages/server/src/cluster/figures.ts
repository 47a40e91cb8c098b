import type { EventFeed } from '../observe/event-feed.js';
import type { Figure, PartHost } from '../parts/part.js';
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
        set(node.takenOver, { outcome: 'taken_over' });
      },
    },
    {
      name: 'relay_links',
      help: 'Connections on which this node and others relay between their agents.',
      read: (set) => set(node.relayLinks),
    },
    {
      name: 'relay_messages',
      help: 'Messages between nodes that relay between agents.',
      labels: ['direction'],
      isCount: true,
      read(set) {
        set(node.relayTraffic.messagesSent, { direction: 'sent' });
        set(node.relayTraffic.messagesReceived, { direction: 'received' });
      },
    },
    {
      name: 'relay_bytes',
      help: 'Bytes of those messages.',
      labels: ['direction'],
      isCount: true,
      read(set) {
        set(node.relayTraffic.bytesSent, { direction: 'sent' });
        set(node.relayTraffic.bytesReceived, { direction: 'received' });
      },
    },
  ];
}

/** What becomes of durable sessions and of the engine that keeps them, as the log names it. */
const DURABLE_EVENTS = [
  ...['session.taken_over', 'session.given_up', 'session.fenced', 'session.degraded', 'takeover.failed'],
  ...['record.gone', 'record.behind', 'record.lost', 'record.full', 'record.changed', 'record.kept'],
  ...['records.stalled', 'engine.stalled', 'engine.answered', 'engine.back', 'node.cut_off'],
];

/** The figures of sessions that are on record. Events are counted from now on. */
export function durableFigures(sessions: PartHost['sessions'], feed: EventFeed): readonly Figure[] {
  const counts = new Map(DURABLE_EVENTS.map((event) => [event, 0]));
  feed.subscribe(({ event }) => {
    const count = counts.get(event);
    if (count !== undefined) counts.set(event, count + 1);
  });
  return [
    {
      name: 'sessions_durable',
      help: 'Sessions of this node that are on record.',
      read: (set) => set([...sessions.values()].filter(({ isDurable }) => isDurable).length),
    },
    {
      name: 'durable_events',
      help: 'What became of durable sessions and of the engine, by the event of the log.',
      labels: ['event'],
      isCount: true,
      read(set) {
        for (const [event, count] of counts) set(count, { event });
      },
    },
  ];
}
