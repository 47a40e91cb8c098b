import type { RequestOptions } from '@parlance/protocol';
import { called } from '@parlance/protocol/client';
import type { Contract, EventHandlers, EventKinds, Procedures } from '@parlance/protocol/contract';
import { EventsEnd, EventsOfSession, emitOnce, hasDied } from '@parlance/protocol/events';
import type { ClientSession } from '../session.js';
import type { SessionModule } from '../session-module.js';

/**
 * `session.emit` and `session.handle` at a client, for its option `modules`. The server has the feature `events` of
 * `@parlance/server/contract`, with the same contract.
 *
 * @param handlers of events, in every session of the client.
 * @throws {ProtocolError} `invalid_argument` without a contract; `invalid_option` for a handler that is none, or of an event that the
 * contract does not have.
 */
export function events<P extends Procedures, E extends EventKinds>(
  contract: Contract<P, E>,
  handlers: EventHandlers<NoInfer<E>, ClientSession> = {},
): SessionModule {
  const end = new EventsEnd(contract, handlers as EventHandlers<EventKinds>);
  return {
    name: 'events',
    install(port) {
      const events = new EventsOfSession();
      return {
        verbs: {
          emit: ({ session }: typeof port, name: string, data?: unknown, options?: RequestOptions) =>
            called(() => emit(end, session, name, data, options)),
          handle: (_: typeof port, name: string, handler: unknown) => end.handle(events, name, handler),
        },
        wrap: (next) => end.wrap(next, () => events),
      };
    },
  };
}

/**
 * In a durable session, again with the next process of the server, if it is not recorded that this one has handled the
 * event.
 */
async function emit(
  end: EventsEnd,
  session: ClientSession,
  name: string,
  data: unknown,
  options: RequestOptions | undefined,
): Promise<void> {
  const emission = end.emission(session, name, data);
  const endsAt = options?.timeoutMs && performance.now() + options.timeoutMs;
  let given = { emission, options };
  for (;;) {
    const sent = emitOnce(session, given.emission, given.options);
    // The application may change its data once the call has returned.
    if (given.emission === emission && emission.id !== undefined)
      given = { emission: { ...emission, data: copyOf(data) }, options };
    try {
      return await sent;
    } catch (error) {
      if (emission.id === undefined || options?.to !== undefined || !hasDied(error)) throw error;
      if (endsAt === undefined) continue;
      const timeoutMs = endsAt - performance.now();
      if (!(timeoutMs > 0)) throw error;
      given = { ...given, options: { ...options, timeoutMs } };
    }
  }
}

/** The data as it arrives. The call has refused anything that is not JSON. */
function copyOf(data: unknown): unknown {
  try {
    return JSON.parse(JSON.stringify(data));
  } catch {
    return undefined;
  }
}
