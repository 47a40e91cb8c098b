import type { EventFeed } from '../base/event-feed.js';
import type { FeatureHost, Figure } from '../server/features/feature.js';
import type { ServerEndpoint } from '../session/endpoint.js';

/** What becomes of durable sessions and of the engine that keeps them, as the log names it. */
const DURABLE_EVENTS = [
  ...['session.taken_over', 'session.given_up', 'session.fenced', 'session.degraded', 'takeover.failed'],
  ...['record.gone', 'record.behind', 'record.lost', 'record.full', 'record.changed', 'record.kept'],
  ...['records.stalled', 'engine.stalled', 'engine.answered', 'engine.back', 'node.cut_off'],
];

/**
 * The figures of sessions that are on record. Events are counted from now on.
 *
 * @param ageOf how long a session has been on record here, in milliseconds.
 */
export function durableFigures(
  sessions: FeatureHost['sessions'],
  feed: EventFeed,
  ageOf: (session: ServerEndpoint) => number,
): readonly Figure[] {
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
      name: 'engine_oldest_record_seconds',
      help: 'How long the oldest session on record has been one of this node; 0 without one.',
      read(set) {
        let oldest = 0;
        for (const session of sessions.values())
          if (session.isDurable) oldest = Math.max(oldest, ageOf(session));
        set(oldest / 1_000);
      },
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
