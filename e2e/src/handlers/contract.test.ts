import { connect, isProtocolError, type Session } from '@parlance/client';
import { ContractError, contractClient, defineContract, type Schema, serve } from '@parlance/client/contract';
import { createServer, RequestError, type ServerOptions } from '@parlance/server';
import * as server from '@parlance/server/contract';
import type { StandardSchemaV1 } from '@standard-schema/spec';
import { type } from 'arktype';
import * as v from 'valibot';
import { afterEach, describe, expect, expectTypeOf, it } from 'vitest';
import WebSocket from 'ws';
import { z } from 'zod';
import { createCuttingProxy } from '../kit/cutting-proxy.js';
import { createPeers, failure } from '../kit/peers.js';

/** Contracts over real sockets, with the libraries that applications use. */

const peers = createPeers();
afterEach(() => peers[Symbol.asyncDispose]());

const open = async (options: ServerOptions) => {
  const { url } = await peers.serve(options);
  return await peers.dial(url);
};

const LIBRARIES = {
  zod: {
    input: z.object({ a: z.number(), b: z.number() }),
    output: z.object({ sum: z.number() }),
    parts: z.number(),
  },
  valibot: {
    input: v.object({ a: v.number(), b: v.number() }),
    output: v.object({ sum: v.number() }),
    parts: v.number(),
  },
  arktype: {
    input: type({ a: 'number', b: 'number' }),
    output: type({ sum: 'number' }),
    parts: type('number'),
  },
};

describe.each(Object.entries(LIBRARIES))('a contract of %s', (_, schemas) => {
  const contract = defineContract({
    sum: { input: schemas.input, output: schemas.output },
    count: { input: schemas.input, parts: schemas.parts },
    both: schemas,
  });
  const handlers: Parameters<typeof serve<typeof contract.procedures>>[1] = {
    sum: ({ a, b }) => ({ sum: a + b }),
    async *count({ a, b }) {
      for (let i = a; i <= b; i++) yield i;
    },
    async *both({ a, b }) {
      yield a;
      yield b;
      return { sum: a + b };
    },
  };

  it('carries calls, streams, and streams with an output', async () => {
    const session = await open({ onRequest: serve(contract, handlers) });
    const { call, stream } = contractClient(contract, session);
    expect(await call.sum({ a: 2, b: 3 })).toEqual({ sum: 5 });
    const counted: number[] = [];
    for await (const i of stream.count({ a: 1, b: 4 })) counted.push(i);
    expect(counted).toEqual([1, 2, 3, 4]);
    const reply = stream.both({ a: 5, b: 6 });
    const parts: number[] = [];
    for await (const part of reply) parts.push(part);
    expect([parts, await reply.output()]).toEqual([[5, 6], { sum: 11 }]);
    expect(await call.both({ a: 7, b: 8 })).toEqual({ sum: 15 });
  });

  it('refuses an input before a handler sees it, with typed issues', async () => {
    const session = await open({
      onRequest: serve(contract, {
        ...handlers,
        sum: () => {
          throw new Error('a handler was called');
        },
      }),
    });
    const { call, stream } = contractClient(contract, session);
    const wrong = { a: 1, b: 'two' } as unknown as { a: number; b: number };
    const error = await failure(call.sum(wrong));
    expect(error).toBeInstanceOf(ContractError);
    expect(error).toMatchObject({ code: 'invalid_input', procedure: 'sum', side: 'remote' });
    const { issues } = error as unknown as ContractError;
    expect(issues).toEqual([{ message: expect.stringMatching(/number/i), path: ['b'] }]);
    expect(error.message).toContain(`sum: the input is not valid: b: ${issues[0]?.message}`);
    await expect(
      (async () => {
        for await (const _ of stream.count(wrong));
      })(),
    ).rejects.toMatchObject({ code: 'invalid_input', procedure: 'count' });
  });

  it('keeps an answer that is not valid from the caller, and does not say more', async () => {
    const wrong = { sum: 'a secret' } as unknown as { sum: number };
    const lines: unknown[] = [];
    const log = (fields: object, message: string) => void lines.push([fields, message]);
    const session = await open({
      onRequest: serve(contract, { ...handlers, sum: () => wrong }),
      logger: { debug: () => {}, info: () => {}, warn: log, error: log },
    });
    const { call } = contractClient(contract, session);
    expect(await failure(call.sum({ a: 1, b: 2 }))).toMatchObject({
      code: 'invalid_output',
      issues: [],
      message: 'sum: the handler has made an answer that is not valid',
    });
    expect(JSON.stringify(lines)).not.toContain('must be');
    expect(lines.slice(1)).toEqual([
      [expect.objectContaining({ event: 'request.failed' }), 'a request handler failed'],
    ]);
  });
});

describe('a contract', () => {
  const contract = defineContract({
    greet: { input: z.string(), output: z.string() },
    ping: {},
    maybe: { input: z.string().optional(), output: z.string().optional() },
    words: { input: z.string(), parts: z.string(), output: z.number() },
  });
  const handlers: Parameters<typeof serve<typeof contract.procedures>>[1] = {
    greet: (name) => `hello ${name}`,
    ping: () => {},
    maybe: (text) => text,
    async *words(text) {
      const words = text.split(' ');
      yield* words;
      return words.length;
    },
  };

  it('carries strings, which look like text, and nothing at all', async () => {
    const { call } = contractClient(contract, await open({ onRequest: serve(contract, handlers) }));
    expect(await call.greet('"you"')).toBe('hello "you"');
    expect(await call.greet('')).toBe('hello ');
    expect(await call.ping()).toBeUndefined();
    expect(await call.maybe()).toBeUndefined();
    expect(await call.maybe('')).toBe('');
  });

  it('is served by either end, and between agents', async () => {
    const tokens = new Map([
      ['1', 'worker'],
      ['2', 'caller'],
    ]);
    const sessions: Session[] = [];
    const { url } = await peers.serve({
      authenticate: ({ token = '' }) => ({ principal: 'acme', agentId: tokens.get(token) }),
      onSession: (session) => void sessions.push(session),
    });
    const seen: unknown[] = [];
    const onRequest = serve(contract, {
      ...handlers,
      greet: (name, { session }, { from }) => {
        seen.push(from, session.agentId);
        return `${name} from the worker`;
      },
    });
    await peers.dial(url, { token: '1', agent: { id: 'worker' }, onRequest });
    const caller = await peers.dial(url, { token: '2', agent: { id: 'caller' } });
    const { call, stream } = contractClient(contract, caller, { to: 'worker' });
    expect(await call.greet('one')).toBe('one from the worker');
    const reply = stream.words('a b c');
    const words: string[] = [];
    for await (const word of reply) words.push(word);
    expect([words, await reply.output()]).toEqual([['a', 'b', 'c'], 3]);
    expect(await failure(call.greet(1 as never))).toMatchObject({ code: 'invalid_input' });
    const toWorker = sessions.find(({ agentId }) => agentId === 'worker') as Session;
    expect(await server.contractClient(contract, toWorker).call.greet('two')).toBe('two from the worker');
    expect(seen).toEqual(['caller', 'worker', undefined, 'worker']);
  });

  it('says which procedure the other end does not have', async () => {
    const more = defineContract({ greet: {}, leave: {} });
    const session = await open({ onRequest: serve(contract, handlers) });
    expect(await failure(contractClient(more, session).call.leave())).toMatchObject({
      code: 'unknown_procedure',
      procedure: 'leave',
      message: 'leave: the other end has no such procedure',
    });
    expect(await failure(session.request('without a name'))).toMatchObject({ code: 'unknown_procedure' });
    const inherited = { metadata: { procedure: 'constructor' } };
    expect(await failure(session.request('', inherited))).toMatchObject({ code: 'unknown_procedure' });
  });

  it('leaves other requests to another handler', async () => {
    const more = defineContract({ leave: { output: z.boolean() } });
    const rest = serve(more, { leave: () => true }, { otherwise: (request) => `raw: ${request.text}` });
    const session = await open({ onRequest: serve(contract, handlers, { otherwise: rest }) });
    expect(await contractClient(contract, session).call.greet('you')).toBe('hello you');
    expect(await contractClient(more, session).call.leave()).toBe(true);
    expect((await session.request('text')).text).toBe('raw: text');
  });

  it('passes options, metadata and errors of handlers on', async () => {
    const session = await open({
      onRequest: serve(contract, {
        ...handlers,
        greet(name, { metadata }) {
          if (name === 'absent') throw new RequestError('not_here', 'try later', { data: { hours: 2 } });
          return `${metadata['language']} ${name}`;
        },
      }),
    });
    const { call } = contractClient(contract, session, { metadata: { language: 'en' } });
    expect(await call.greet('you')).toBe('en you');
    expect(await call.greet('you', { metadata: { language: 'de' } })).toBe('de you');
    expect(await failure(call.greet('absent'))).toMatchObject({ code: 'not_here', data: { hours: 2 } });
    const reserved = { metadata: { procedure: 'ping' } };
    expect(await failure(call.greet('you', reserved))).toMatchObject({ code: 'invalid_argument' });
    expect(
      await failure(call.greet('you', { signal: AbortSignal.abort(new Error('enough')) })),
    ).toMatchObject({
      message: 'enough',
    });
    expect(await failure(call.greet(new Uint8Array(1) as never))).toMatchObject({ code: 'invalid_argument' });
  });

  it('cancels the handler when the loop is left, and survives a cut', async () => {
    let stopped = 0;
    const endless = defineContract({ count: { parts: z.number(), output: z.null() } });
    const { port } = await peers.serve({
      onRequest: serve(endless, {
        async *count(_, { signal }) {
          try {
            for (let i = 0; !signal.aborted; i++) {
              yield i;
              await new Promise((resolve) => setTimeout(resolve, 1));
            }
            return null;
          } finally {
            stopped++;
          }
        },
      }),
    });
    const proxy = peers.use(await createCuttingProxy(port));
    const session = await peers.dial(`ws://127.0.0.1:${proxy.port}/session`);
    const reply = contractClient(endless, session).stream.count();
    const seen: number[] = [];
    for await (const i of reply) {
      seen.push(i);
      if (i === 20) proxy.cut();
      if (i === 40) break;
    }
    expect(seen).toEqual(Array.from({ length: 41 }, (_, i) => i));
    await expect.poll(() => stopped).toBe(1);
    expect(await failure(reply.output())).toMatchObject({ code: 'cancelled' });
  });

  it('is followed by the name under which a handler keeps its reply', async () => {
    const { url } = await peers.serve({
      authenticate: () => ({ principal: 'me' }),
      onRequest: serve(contract, {
        ...handlers,
        async *words(text, { keep }) {
          keep({ name: 'words' });
          const words = text.split(' ');
          yield* words;
          return words.length;
        },
      }),
    });
    const first = await peers.dial(url);
    expect(await contractClient(contract, first).call.words('a b c')).toBe(3);
    const second = await peers.dial(url);
    const reply = contractClient(contract, second).follow.words('words', { after: 1 });
    const words: string[] = [];
    for await (const word of reply) words.push(word);
    expect([words, await reply.output()]).toEqual([['b', 'c'], 3]);
  });
});

describe('schemas', () => {
  it('are those of the standard', () => {
    expectTypeOf<StandardSchemaV1<string, number>>().toExtend<Schema<string, number>>();
    expectTypeOf<Schema<string, number>>().toExtend<StandardSchemaV1<string, number>>();
  });

  const schema = (validate: (value: unknown) => unknown) =>
    ({ '~standard': { version: 1, vendor: 'test', validate } }) as unknown as z.ZodUnknown;
  const ask = async (validate: (value: unknown) => unknown, of: 'input' | 'output' = 'input') => {
    const [input, output] =
      of === 'input' ? [schema(validate), z.unknown()] : [z.unknown(), schema(validate)];
    const contract = defineContract({ ask: { input, output } });
    const session = await open({ onRequest: serve(contract, { ask: (input) => input }) });
    return await contractClient(contract, session).call.ask('a question');
  };

  it('may be asynchronous, and change what they are given', async () => {
    expect(await ask(async (value) => ({ value: `${value}, changed` }))).toBe('a question, changed');
    const dates = defineContract({
      next: { input: z.iso.datetime().transform((text) => new Date(text)), output: z.date() },
    });
    const onRequest = serve(dates, { next: (day) => new Date(day.getTime() + 86_400_000) });
    const { call } = contractClient(dates, await open({ onRequest }));
    const next: string = await call.next('2026-11-22T00:00:00Z');
    expect(next).toBe('2026-11-23T00:00:00.000Z');
  });

  it.each<[string, (value: unknown) => unknown]>([
    [
      'throw',
      () => {
        throw new Error('a secret');
      },
    ],
    ['reject', () => Promise.reject(new Error('a secret'))],
    [
      'throw null',
      () => {
        throw null;
      },
    ],
    ['return nothing', () => undefined],
    [
      'return issues that are none',
      () => ({
        issues: 5,
        get value() {
          throw new Error('a secret');
        },
      }),
    ],
    [
      'have issues that throw',
      () => ({
        issues: [
          {
            get message() {
              throw new Error('a secret');
            },
          },
        ],
      }),
    ],
  ])('that %s are reported as internal, without what they threw', async (_, validate) => {
    for (const of of ['input', 'output'] as const) {
      const error = await failure(ask(validate, of));
      expect(isProtocolError(error)).toBe(true);
      expect(error).toMatchObject({
        code: 'internal',
        message: expect.stringContaining(`the schema of its ${of}`),
      });
      expect(error.message).not.toContain('secret');
    }
  });

  it('that never settle are left when the request is cancelled', async () => {
    let asked = 0;
    const contract = defineContract({
      ask: {
        input: schema(() => {
          asked++;
          return new Promise(() => {});
        }),
      },
    });
    const running = new Set<AbortSignal>();
    const answer = serve(contract, { ask: () => {} });
    const session = await open({
      onRequest: async (request, context) => {
        running.add(context.signal);
        try {
          return await (answer(request, context) as Promise<string>);
        } finally {
          running.delete(context.signal);
        }
      },
    });
    const error = failure(contractClient(contract, session).call.ask(1, { timeoutMs: 50 }));
    await expect(error).resolves.toMatchObject({ code: 'timeout' });
    expect(asked).toBe(1);
    await expect.poll(() => running.size).toBe(0);
  });

  it('make at most 16 issues, of bounded size', async () => {
    const many =
      (count: number, message: string, depth = 1) =>
      async () => ({
        issues: Array.from({ length: count }, (_, i) => ({
          message,
          path: Array.from({ length: depth }, (_, j) => (j === 0 ? { key: Symbol(`s${i}`) } : j)),
        })),
      });
    const issuesOf = async (validate: (value: unknown) => unknown) =>
      ((await failure(ask(validate))) as unknown as ContractError).issues;
    expect(await issuesOf(many(16, 'short'))).toHaveLength(16);
    const issues = await issuesOf(many(17, 'short', 17));
    expect(issues).toHaveLength(16);
    expect(issues[15]).toEqual({
      message: 'short',
      path: ['Symbol(s15)', ...Array.from({ length: 15 }, (_, j) => j + 1)],
    });
    expect((await issuesOf(many(1, 'x'.repeat(256))))[0]?.message).toHaveLength(256);
    expect((await issuesOf(many(1, 'x'.repeat(257))))[0]?.message).toHaveLength(256);
    const wide = await issuesOf(many(16, '€'.repeat(256)));
    expect(wide).toHaveLength(7);
    expect((await issuesOf(many(1, 'half \ud800')))[0]?.message).toBe('half \ufffd');
  });
});

describe('without a contract', () => {
  it('handlers return and yield JSON as it is, and the type of an answer is that of its request', async () => {
    const session = await open({
      async *onRequest(request) {
        yield { sum: request.json<number[]>().reduce((sum, each) => sum + each, 0) };
        yield { sum: 0, text: 'and more' };
      },
    });
    const sums: number[] = [];
    for await (const part of session.stream<{ sum: number }>([1, 2])) sums.push(part.json().sum);
    expect(sums).toEqual([3, 0]);
    const other = await open({ onRequest: async () => ({ sum: 5 }) });
    const { sum } = (await other.request<{ sum: number }>('')).json();
    expect(sum).toBe(5);
  });
});

describe('mistakes', () => {
  const contract = defineContract({ sum: { input: z.number(), output: z.number() } });

  it.each<[string, () => unknown]>([
    ['a name', () => defineContract({ [['then'].join()]: {} })],
    ['a long name', () => defineContract({ ['x'.repeat(65)]: {} })],
    ['a name with a space', () => defineContract({ 'a b': {} })],
    ['a schema', () => defineContract({ sum: { input: { type: 'number' } as never } })],
  ])('in %s are found when a contract is defined', (_, define) => {
    expect(define).toThrow(expect.objectContaining({ code: 'invalid_argument' }));
  });

  it('in a member of a procedure are found as well', () => {
    const define = () => defineContract({ sum: { outputs: z.number() } } as never);
    expect(define).toThrow('sum: unknown option "outputs", did you mean "output"?');
  });

  it('in handlers are found when they are given', () => {
    expect(() => defineContract({ ['x'.repeat(64)]: {} })).not.toThrow();
    expect(() => serve(contract, {} as never)).toThrow('serve: the procedure "sum" has no handler');
    expect(() => serve(contract, { sum: Number, sums: Number } as never)).toThrow('did you mean "sum"?');
    expect(() => serve(contract, { sum: Number }, { validate: false } as never)).toThrow('validate');
  });

  it('of a handler are told to its caller as internal', async () => {
    const parts = defineContract({ count: { parts: z.number() } });
    const { url } = await peers.serve({ onRequest: serve(parts, { count: () => 5 } as never) });
    const session = peers.use(await connect(url, { WebSocket }));
    const reply = contractClient(parts, session).stream.count();
    expect(await failure(reply.output())).toMatchObject({ code: 'internal' });
  });

  it('in replies pass if the server says so', async () => {
    const onRequest = serve(contract, { sum: () => 'five' as never }, { validateReplies: false });
    expect(await contractClient(contract, await open({ onRequest })).call.sum(1)).toBe('five');
    const server = createServer({ onRequest });
    await server.close();
  });
});
