import {
  cluster,
  createServer,
  durable,
  type Message,
  type RequestContext,
  type Server,
  type ServerSession,
} from '@parlance/server';
import { events } from '@parlance/server/contract';
import { offer } from '../../../scripts/child-process.js';
import type { EngineAddress } from '../kit/engine-address.js';
import { engineAt } from '../kit/engine-at.js';
import { eventContract } from '../kit/event-contract.js';
import { UNLIMITED } from '../kit/unlimited.js';
import { createGate, PARTS, replyParts } from './gate.js';

/** Nodes in a process of their own, mostly one, with every feature that the matrix has a row for. */

export interface SurvivalNodeSetup {
  readonly address: EngineAddress;
  /** Of its cluster. @default it is a node of none */
  readonly secret?: string | undefined;
  /** How many. */
  readonly servers: number;
  /** Of the first one. @default any free one */
  readonly port?: number | undefined;
}

/** The application's state of a session: the messages that it has answered. */
interface Counted {
  readonly count: number;
}

const setup = JSON.parse(process.argv[2] as string) as SurvivalNodeSetup;
const logged: Record<string, number> = {};
const log = ({ event }: Readonly<Record<string, unknown>>): void => {
  logged[`${event}`] = (logged[`${event}`] ?? 0) + 1;
};
/** Handlers that were called here, by the text of their request. */
const calls: Record<string, number> = {};
const gate = createGate();

const engine = engineAt(setup.address);
const create = () => {
  const server: Server<Counted> = createServer<Counted>({
    engine,
    features: [
      ...(setup.secret === undefined ? [] : [cluster({ secret: setup.secret })]),
      durable(({ principal }) => principal.startsWith('durable'), { allowVolatileEngine: true }),
      events(eventContract, {
        counted: (_, { session }) => count(session),
        async held(name, { session }) {
          calls[name] = (calls[name] ?? 0) + 1;
          await gate.passes(PARTS.all - 1);
          count(session);
        },
      }),
    ],
    logger: { debug: log, info: log, warn: log, error: log },
    limits: UNLIMITED,
    authenticate({ token = '' }) {
      const [principal = '', agentId] = token.split('/');
      return { principal, agentId };
    },
    onSession: (session) => onSession(server, session),
    onRequest,
  });
  return server;
};
const servers = Array.from({ length: setup.servers }, create);
const serverAt = (at: number) => servers[at] as Server<Counted>;

function count(session: ServerSession<Counted>): void {
  session.data = { count: (session.data?.count ?? 0) + 1 };
}

/** Answers each message with its number, which it learns from `session.data`. */
async function onSession(server: Server<Counted>, session: ServerSession<Counted>): Promise<void> {
  server.group(session.principal as string).add(session);
  for await (const { text } of session) {
    const state = { count: (session.data?.count ?? 0) + 1 };
    const answer = `${state.count}: ${text}`;
    if (session.isDurable) await session.commit({ data: state, send: [answer] });
    else {
      session.data = state;
      await session.send(answer);
    }
  }
}

async function* onRequest(
  request: Message,
  { metadata, session, yielded, ifProcessDies, keep }: RequestContext<ServerSession<Counted>>,
): AsyncGenerator<string> {
  if (metadata['what'] === 'data') {
    yield `${session.data?.count ?? 0}`;
    return;
  }
  if (metadata['again'] === true) ifProcessDies('again');
  if (metadata['keep'] !== undefined) keep({ name: String(metadata['keep']) });
  calls[request.text] = (calls[request.text] ?? 0) + 1;
  yield* replyParts(gate, yielded.length);
}

const listening = await Promise.all(
  servers.map((server, at) => server.listen({ port: at === 0 ? setup.port : 0 })),
);
const ports = listening.map(({ port }) => port);

const commands = {
  port: () => ports[0],
  ports: () => ports,
  events: () => logged,
  calls: () => calls,
  open: (parts: number) => gate.open(parts),
  tellGroup: async ({ at, name, text }: { at: number; name: string; text: string }) =>
    (await serverAt(at).group(name).send(text)).queued,
  membersOf: async ({ at, name }: { at: number; name: string }) =>
    (await serverAt(at).group(name).members()).members.length,
  drain: async ({ at, timeoutMs }: { at: number; timeoutMs: number }) =>
    await serverAt(at).drain({ timeoutMs, returnWithinMs: 0 }),
  close: async (at: number) => await serverAt(at).close(),
};
export type SurvivalNodeCommands = typeof commands;

offer(commands);
