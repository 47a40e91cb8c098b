import type { EventFeed } from '../base/event-feed.js';
import type { Figure } from '../server/features/feature.js';
import { counts, one } from '../server/features/figures.js';
import type { OwnHost } from '../server/features/own-feature.js';
import type { ServerEndpoint } from '../session/endpoint.js';

/** Log events about durable sessions and the engine that keeps them. */
const DURABLE_EVENTS = [
  ...['session.taken_over', 'session.given_up', 'session.fenced', 'session.degraded', 'takeover.failed'],
  ...['record.gone', 'record.behind', 'record.lost', 'record.full', 'record.changed', 'record.kept'],
  ...['records.stalled', 'engine.stalled', 'engine.answered', 'engine.back', 'node.cut_off'],
];

/**
 * The figures of recorded sessions. Events are counted from now on.
 *
 * @param ageOf how long a session has been recorded here, in milliseconds.
 */
export function durableFigures(
  sessions: OwnHost['sessions'],
  feed: EventFeed,
  ageOf: (session: ServerEndpoint) => number,
): readonly Figure[] {
  const seen = new Map(DURABLE_EVENTS.map((event) => [event, 0]));
  feed.subscribe(({ event }) => {
    const count = seen.get(event);
    if (count !== undefined) seen.set(event, count + 1);
  });
  const durable = () => [...sessions.values()].filter(({ isDurable }) => isDurable);
  return [
    one('sessions_durable', 'Sessions of this node that are recorded.', () => durable().length),
    one(
      'engine_oldest_record_seconds',
      'How long the oldest recorded session has been one of this node; 0 without one.',
      () => durable().reduce((oldest, session) => Math.max(oldest, ageOf(session)), 0) / 1_000,
    ),
    counts(
      'durable_events',
      'What became of durable sessions and of the engine, by the event of the log.',
      'event',
      () => Object.fromEntries(seen),
    ),
  ];
}
