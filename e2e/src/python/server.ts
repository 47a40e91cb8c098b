import {
  createServer,
  RequestError,
  type RequestHandler,
  type Server,
  type ServerSession,
} from '@parlance/server';
import { defineContract, events } from '@parlance/server/contract';
import { answering, count } from '../../../conformance/peers/parlance/behaviours.js';
import { UNLIMITED } from '../kit/unlimited.js';

/**
 * The server of the tests of `python/`, without records and rates. It answers the tests of the kit; a request with the metadata
 * `begun`, with the number of sessions of its principal; and any other request word by word, as the examples and the README of the
 * client expect. It prints its URL.
 */

/** Another server follows at the same port. */
async function drain(timeoutMs: number, returnWithinMs: number): Promise<void> {
  await server.drain({ timeoutMs, returnWithinMs });
  await server.close();
  await begin(Number(new URL(url).port));
}

const ofKit = answering({ drain: (...limits) => void drain(...limits) });

async function* words(text: string) {
  for (const word of text.split(/(?<= )/)) yield word;
}

/** Sessions of the reference have no requests. */
async function echo(session: ServerSession): Promise<void> {
  for await (const message of session) await session.send(message.text);
}

const begun = new Map<string, number>();

const onRequest: RequestHandler = (request, context) => {
  if ('begun' in context.metadata) return { text: `${begun.get(context.session.principal ?? '')}` };
  return 'test' in context.metadata ? ofKit(request, context) : words(`You have said: ${request.text}`);
};

const any = {
  '~standard': { version: 1, vendor: 'parlance', validate: (value: unknown) => ({ value }) },
} as const;
const contract = defineContract({}, { events: { saved: { data: any }, refused: {}, echo: { data: any } } });

const create = () =>
  createServer({
    authenticate: ({ token = 'nobody', agentId }) => ({
      principal: token,
      ...(agentId !== undefined && { agentId }),
    }),
    onSession(session) {
      const principal = session.principal ?? '';
      begun.set(principal, (begun.get(principal) ?? 0) + 1);
      if (session.agentId === 'm2m-reference') return echo(session);
      return count(session).catch(() => {});
    },
    onRequest,
    features: [
      events(contract, {
        saved: () => {},
        refused: () => {
          throw new RequestError('full', 'the disk is full', { data: { free: 0 } });
        },
        // The server emits what it gets, and tells how that ended.
        echo: async (data, { session, signal }) => {
          // Another program of this project declares the events that the compiler knows.
          await session.emit('echo' as never, data as never, { signal });
        },
      }),
    ],
    onFetch: ({ url }) => Response.json({ path: new URL(url).pathname }),
    onError: () => {},
    limits: UNLIMITED,
  });
let server: Server;
async function begin(port: number): Promise<string> {
  server = create();
  return (await server.listen({ port, host: '127.0.0.1' })).url;
}
const url = await begin(0);
console.log(url);
