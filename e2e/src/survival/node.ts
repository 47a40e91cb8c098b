import {
  createServer,
  durable,
  type Message,
  nodes,
  type RequestContext,
  type ServerSession,
} from '@parlance/server';
import { redis } from '@parlance/server/redis';
import { offer } from '../../../scripts/child-process.js';
import { UNLIMITED } from '../helpers/unlimited.js';
import { createGate, replyParts } from './gate.js';

/** One node in a process of its own, with every feature that the matrix has a row for. */

export interface SurvivalNodeSetup {
  /** Of Redis. */
  readonly url: string;
  /** Of its cluster. @default it is a node of none */
  readonly secret?: string | undefined;
}

/** What the application knows of a session: the messages that it has answered. */
interface Counted {
  readonly count: number;
}

const setup = JSON.parse(process.argv[2] as string) as SurvivalNodeSetup;
const events: Record<string, number> = {};
const log = ({ event }: Readonly<Record<string, unknown>>): void => {
  events[`${event}`] = (events[`${event}`] ?? 0) + 1;
};
/** Handlers that were called here, by the text of their request. */
const calls: Record<string, number> = {};
const gate = createGate();

const server = createServer<Counted>({
  engine: redis({ url: setup.url }),
  features: [
    ...(setup.secret === undefined ? [] : [nodes({ secret: setup.secret })]),
    durable(({ principal }) => principal.startsWith('durable'), { volatile: true }),
  ],
  logger: { debug: log, info: log, warn: log, error: log },
  limits: UNLIMITED,
  authenticate({ token = '' }) {
    const [principal = '', agentId] = token.split('/');
    return { principal, agentId };
  },
  onSession,
  onRequest,
});

/** Answers each message with its number, which it learns from `session.data`. */
async function onSession(session: ServerSession<Counted>): Promise<void> {
  server.group(session.principal as string).add(session);
  for await (const { text } of session) {
    const state = { count: (session.data?.count ?? 0) + 1 };
    const answer = `${state.count}: ${text}`;
    if (session.isDurable) await session.commit({ state, send: [answer] });
    else {
      session.data = state;
      await session.send(answer);
    }
  }
}

async function* onRequest(
  request: Message,
  { metadata, session, said, onLost, keep }: RequestContext<ServerSession<Counted>>,
): AsyncGenerator<string> {
  if (metadata['what'] === 'data') {
    yield `${session.data?.count ?? 0}`;
    return;
  }
  if (metadata['again'] === true) onLost('again');
  if (metadata['keep'] !== undefined) keep({ name: String(metadata['keep']) });
  calls[request.text] = (calls[request.text] ?? 0) + 1;
  yield* replyParts(gate, said.length);
}

const { port } = await server.listen();

const commands = {
  port: () => port,
  events: () => events,
  calls: () => calls,
  open: (parts: number) => gate.open(parts),
  tellGroup: async ({ name, text }: { name: string; text: string }) =>
    (await server.group(name).send(text)).queued,
  membersOf: async (name: string) => (await server.group(name).members()).members.length,
  drain: async (timeoutMs: number) => await server.drain({ timeoutMs, returnWithinMs: 0 }),
  close: async () => await server.close(),
};
export type SurvivalNodeCommands = typeof commands;

offer(commands);
