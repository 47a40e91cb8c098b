import { createServer, type RequestHandler, type ServerSession } from '@parlance/server';
import { defineContract, type Handlers, serve } from '@parlance/server/contract';
import { z } from 'zod';

/** The type of `session.data` reaches the handlers of a contract and of HTTP. */

type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
const equal = <_Holds extends true>(): void => {};

const contract = defineContract({
  hello: { input: z.string(), output: z.string() },
  count: { input: z.number(), parts: z.number() },
});

interface Account {
  name: string;
  since: string;
}

export const stated = createServer<Account>({
  authenticate: ({ token }) =>
    token === undefined ? null : { principal: token, data: { name: token, since: 'today' } },
  onRequest: serve(
    contract,
    {
      hello(greeting, { session }, { from }) {
        equal<Equal<typeof greeting, string>>();
        equal<Equal<typeof from, string | undefined>>();
        equal<Equal<typeof session.data.name, string>>();
        // @ts-expect-error: the data has no member of this name
        session.data.nmae;
        return `${greeting} ${session.data.name} of ${session.remoteAddress}`;
      },
      async *count(to, { session }) {
        for (let i = 0; i < to; i++) yield i + session.data.name.length;
      },
    },
    {
      otherwise: (request, { session }) => {
        equal<Equal<typeof session.data.since, string>>();
        return `${request.text} ${session.data.since}`;
      },
    },
  ),
});

/** Beside an `authenticate` that says what the data are. */
export const inferred = createServer({
  authenticate: ({ token }) =>
    token === undefined ? null : { principal: token, data: { name: token, since: new Date() } },
  onRequest: serve(contract, {
    hello: (greeting, { session }) => `${greeting} ${session.data.name} of ${session.remoteAddress}`,
    async *count(to) {
      yield to;
    },
  }),
  onFetch(_request, { data, session, from }) {
    equal<Equal<typeof data.since, string>>();
    equal<Equal<typeof session.data.name, string>>();
    equal<Equal<typeof from, string | undefined>>();
    // @ts-expect-error: the data has no member of this name
    data.nmae;
    return new Response(data.name);
  },
});

/** Handlers that are written elsewhere name the type of the data. */
export const elsewhere: RequestHandler<ServerSession<Account>> = serve(contract, {
  hello: (greeting, { session }) => `${greeting} ${session.data.name}`,
  async *count(to, { session }) {
    yield to + session.data.name.length;
  },
});
const handlers: Handlers<typeof contract.procedures, ServerSession<Account>> = {
  hello: (greeting, { session }) => `${greeting} ${session.data.name}`,
  async *count(to, { session }) {
    // @ts-expect-error: the data has no member of this name
    yield to + session.data.nmae;
  },
};
export const withHandlers = createServer<Account>({ onRequest: serve(contract, handlers) });
