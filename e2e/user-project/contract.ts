import { connect, isProtocolError, type Message, ProtocolError, RequestError } from '@parlance/client';
import {
  type ContractClient,
  ContractError,
  contractClient,
  defineContract,
  type EventsOf,
  events,
  type Handlers,
  type ProcedureReply,
  type Schema,
  serve,
} from '@parlance/client/contract';
import type { StandardSchemaV1 } from '@standard-schema/spec';
import { type } from 'arktype';
import * as v from 'valibot';
import { z } from 'zod';

/** A contract as an application writes it, and what the compiler has to refuse. */

/** Fails to compile unless both types are equal. */
type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : never;
const equal = <_Proof extends true>() => {};

interface Sum {
  sum: number;
}

export const contract = defineContract({
  sum: {
    input: z.object({ a: z.number(), b: z.number().default(0) }),
    output: z.object({ sum: z.number() }),
  },
  greet: { input: v.object({ name: v.string() }), output: v.string() },
  count: { input: type({ to: 'number' }), parts: type('number') },
  words: { input: z.string(), parts: z.object({ word: z.string() }), output: z.number() },
  next: { input: z.iso.datetime().transform((text) => new Date(text)), output: z.date() },
  ping: {},
  maybe: { input: z.string().optional(), output: z.custom<Sum>() },
});

export const handlers: Handlers<typeof contract.procedures> = {
  sum: ({ a, b }) => ({ sum: a + b }),
  greet: async ({ name }, { session }, { from }) => `hello ${name} of ${from ?? session.principal}`,
  async *count({ to }, { signal }) {
    for (let i = 0; i < to && !signal.aborted; i++) yield i;
  },
  async *words(text) {
    for (const word of text.split(' ')) yield { word };
    return text.length;
  },
  next: (day) => new Date(day.getTime() + 86_400_000),
  ping: () => {},
  maybe: (text) => ({ sum: text?.length ?? 0 }),
};
export const onRequest = serve(contract, handlers);

export async function callAll(url: string): Promise<void> {
  const session = await connect(url, { onRequest });
  const client: ContractClient<typeof contract.procedures> = contractClient(contract, session);
  const { call, stream } = client;

  const sum = await call.sum({ a: 1 }, { timeoutMs: 1_000, to: 'worker-1' });
  equal<Equal<typeof sum, { sum: number }>>();
  const greeting = await call.greet({ name: 'you' });
  equal<Equal<typeof greeting, string>>();
  const next = await call.next('2026-11-22T00:00:00Z');
  equal<Equal<typeof next, string>>();
  const maybe: Sum = await call.maybe();
  await call.ping();
  for await (const i of stream.count({ to: maybe.sum })) equal<Equal<typeof i, number>>();
  const reply: ProcedureReply<{ word: string }, number> = stream.words('a b');
  for await (const { word } of reply) console.log(word.toUpperCase());
  const count: number = (await reply.output()) + (await call.words('a'));
  console.log(sum.sum, greeting, count);

  // @ts-expect-error: the input lacks a member
  await call.sum({ b: 1 });
  // @ts-expect-error: a member of the input has another type
  await call.sum({ a: 'one' });
  // @ts-expect-error: the input is missing
  await call.greet();
  // @ts-expect-error: there is no such procedure
  await call.sums({ a: 1 });
  // @ts-expect-error: it only yields parts
  await call.count({ to: 1 });
  // @ts-expect-error: it has no parts
  stream.sum({ a: 1 });
  // @ts-expect-error: the output is a number
  const text: string = await call.words('a');
  // @ts-expect-error: a date travels as text
  const date: Date = await call.next('2026-11-22T00:00:00Z');
  console.log(text, date);
}

// @ts-expect-error: handlers are missing
serve(contract, { sum: handlers.sum });
const small = defineContract({ ping: {} });
// @ts-expect-error: there is no such procedure
serve(small, { ping: () => {}, pong: () => {} });
// @ts-expect-error: the output is a number
serve(contract, { ...handlers, sum: () => ({ sum: 'one' }) });
// @ts-expect-error: the input has no such member
serve(contract, { ...handlers, sum: ({ c }) => ({ sum: c }) });
// @ts-expect-error: a procedure with parts is a generator
serve(contract, { ...handlers, count: () => 5 });
serve(contract, {
  ...handlers,
  // @ts-expect-error: a part is a number
  async *count() {
    yield 'one';
  },
});
// @ts-expect-error: a schema is missing
defineContract({ sum: { input: { type: 'number' } } });
// @ts-expect-error: no such member
defineContract({ sum: { input: z.number(), outputs: z.number() } });

const shared = defineContract(
  {},
  { events: { saved: { data: z.object({ id: z.number() }) }, moved: { data: v.string() }, ping: {} } },
);
declare module '@parlance/client/contract' {
  interface EmittedEvents extends EventsOf<typeof shared> {}
}

export async function emitAll(url: string): Promise<void> {
  const session = await connect(url, {
    modules: [events(shared, { saved: ({ id }) => console.log(id + 1) })],
  });
  await session.emit('saved', { id: 1 });
  await session.emit('ping');
  await session.emit('ping', undefined, { timeoutMs: 1_000 });
  const stop = session.handle('moved', async (where, { signal }) =>
    console.log(where.length, signal.aborted),
  );
  stop();
  // @ts-expect-error: there is no such event
  await session.emit('save', { id: 1 });
  // @ts-expect-error: its data is of another kind
  await session.emit('saved', { id: 'one' });
  // @ts-expect-error: it has data
  await session.emit('saved');
  // @ts-expect-error: it has no such data
  await session.emit('ping', 1);
  // @ts-expect-error: there is no such event
  events(shared, { save() {} });
}

/** Any Standard Schema is a schema. */
export const asSchema = (schema: StandardSchemaV1<string, number>): Schema<string, number> => schema;
equal<Equal<StandardSchemaV1.InferOutput<Schema<string, number>>, number>>();

/** Typed results without a contract. */
export async function ask(url: string): Promise<number> {
  const session = await connect(url);
  const { sum } = (await session.request<Sum>({ a: 1 })).json();
  const untyped: unknown = (await session.request({ a: 1 })).json();
  for await (const part of session.stream<Sum>('count')) console.log(part.json().sum, untyped);
  const message: Message = await session.request<Sum>('');
  // @ts-expect-error: it is a number
  const wrong: string = (await session.request<Sum>('')).json().sum;
  return sum + message.json<Sum>().sum + wrong.length;
}

export function explain(error: unknown): string {
  if (error instanceof ContractError) {
    // @ts-expect-error: there is no such code
    if (error.code === 'bad_input') return '';
    return error.code === 'invalid_input'
      ? error.issues.map(({ path }) => path.join('.')).join()
      : error.code;
  }
  if (error instanceof RequestError) return `${error.code}: ${JSON.stringify(error.data)}`;
  if (error instanceof ProtocolError) {
    // @ts-expect-error: a misspelt code
    if (error.code === 'sesion_lost') return '';
    // @ts-expect-error: a code is a string
    const number: number = error.code;
    return error.code === 'session_lost' ? 'lost' : String(number);
  }
  return isProtocolError(error) ? error.code : String(error);
}
