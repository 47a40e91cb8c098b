import type { RequestOptions, Session } from '@parlance/protocol';
import type { Contract, EventHandlers, EventKinds, Procedures } from '@parlance/protocol/contract';
import { type Emission, EventsEnd, EventsOfSession, emitOnce } from '@parlance/protocol/events';
import { called, loggable } from '@parlance/protocol/internal';
import type { FeatureSession } from '../../session/feature-session.js';
import type { ServerSession } from '../../session/served-session.js';
import type { Feature } from '../features/feature.js';
import { Pending } from './pending.js';

/** The feature's state of a session. */
class State extends EventsOfSession {
  readonly pending = new Pending();
}

/**
 * `session.emit` and `session.handle` at a server. Its clients have the module `events` of `@parlance/client/contract`, with the
 * same contract.
 *
 * In a durable session, an event of the server that was not acknowledged is emitted again by the process that continues
 * the session, and its client handles it once. The promise of `emit` was lost with the first process.
 *
 * @param handlers of events, in all sessions of the server.
 * @throws {ProtocolError} `invalid_argument` without a contract; `invalid_option` for a handler that is none, or of an event that the
 * contract does not have.
 */
export function events<
  P extends Procedures,
  E extends EventKinds,
  // biome-ignore lint/suspicious/noExplicitAny: the type of the data is not known here
  Of extends Session = ServerSession<any>,
>(contract: Contract<P, E>, handlers: EventHandlers<NoInfer<E>, NoInfer<Of>> = {}): Feature {
  const end = new EventsEnd(contract, handlers as EventHandlers<EventKinds>);
  return {
    name: 'events',
    install(host) {
      const states = host.slot(() => new State());

      /** Rejects as `session.emit`. */
      async function emit(
        session: FeatureSession,
        emission: Emission,
        options?: RequestOptions,
      ): Promise<void> {
        const { id } = emission;
        if (id === undefined || !session.isDurable) return await emitOnce(session.session, emission, options);
        const { pending } = states.of(session);
        pending.add(id, emission);
        const sent = emitOnce(session.session, emission, options);
        host.changed(session);
        try {
          await sent;
        } finally {
          // If the session has ended here, the process that continues it emits the event again.
          if (!session.hasEnded) {
            pending.delete(id);
            host.changed(session);
          }
        }
      }

      return {
        verbs: {
          emit: (session: FeatureSession, name: string, data?: unknown, options?: RequestOptions) =>
            called(async () => await emit(session, end.emission(session.session, name, data), options)),
          handle: (session: FeatureSession, name: string, handler: unknown) =>
            end.handle(states.of(session), name, handler),
        },
        wrap: (next) =>
          end.wrap(next, ({ id }) => {
            const session = host.find(id);
            return session && states.of(session);
          }),
        save: (session) => states.peek(session)?.pending.save(),
        load(saved) {
          const emissions = Pending.load(saved);
          return (session) => {
            for (const emission of emissions)
              emit(session, emission).catch((error: unknown) => {
                const fields = { event: 'event.failed', session: session.id, err: loggable(error) };
                host.logger.warn(fields, 'an event of a process that has died was not handled by its client');
              });
          };
        },
      };
    },
  };
}
