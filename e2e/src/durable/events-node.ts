import { createServer, durable } from '@parlance/server';
import { events } from '@parlance/server/contract';
import { offer } from '../../../scripts/child-process.js';
import type { EngineAddress } from '../kit/engine-address.js';
import { engineAt } from '../kit/engine-at.js';
import { eventContract } from '../kit/event-contract.js';

/** A process whose durable sessions emit and handle events. */

export interface EventsNodeSetup {
  readonly url: EngineAddress;
}

/** The application's state of a session. */
export interface Totals {
  /** The numbers that its client has emitted, in the order in which they were handled. */
  readonly counted: readonly number[];
  /** Those for which the handler has waited before it was done. */
  readonly saved: readonly number[];
  /** How many events its client was told of. */
  readonly told: number;
}

const { url } = JSON.parse(process.argv[2] as string) as EventsNodeSetup;
const logged: Record<string, number> = {};
const log = ({ event }: Readonly<Record<string, unknown>>): void => {
  logged[`${event}`] = (logged[`${event}`] ?? 0) + 1;
};

const server = createServer<Totals>({
  engine: engineAt(url),
  features: [
    durable(true, { allowVolatileEngine: true }),
    events(eventContract, {
      counted(number, { session }) {
        const data = session.data as Totals;
        session.data = { ...data, counted: [...data.counted, number] };
      },
      async saved({ id }, { session }) {
        await new Promise((resolve) => setTimeout(resolve, 5));
        const data = session.data as Totals;
        // It may be called again after a death: the data of the event tell which one it is.
        if (!data.saved.includes(id)) session.data = { ...data, saved: [...data.saved, id] };
      },
    }),
  ],
  logger: { debug: log, info: log, warn: log, error: log },
  authenticate: ({ token = '' }) => ({ principal: token, data: { counted: [], saved: [], told: 0 } }),
  onRequest: (_, { session }) => ({ json: session.data as Totals }),
});
const { port } = await server.listen();

const commands = {
  port: () => port,
  events: () => logged,
  /** Emits so many events to each client, each together with its count. It does not wait for them. */
  tell(count: number) {
    for (const session of server.sessions.values())
      for (let i = 0; i < count; i++) {
        const told = session.data.told + 1;
        session.data = { ...session.data, told };
        void session.emit('counted', told);
      }
  },
};
export type EventsNodeCommands = typeof commands;

offer(commands);
