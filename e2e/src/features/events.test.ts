import type { ClientOptions, ClientSession } from '@parlance/client';
import * as client from '@parlance/client/contract';
import { RequestError, type ServerOptions, type ServerSession } from '@parlance/server';
import { ContractError, defineContract, type EventHandlers, events, serve } from '@parlance/server/contract';
import { afterEach, describe, expect, expectTypeOf, it } from 'vitest';
import { z } from 'zod';
import { createCuttingProxy } from '../kit/cutting-proxy.js';
import { eventContract } from '../kit/event-contract.js';
import { createPeers, failure } from '../kit/peers.js';

/** Events with an acknowledgement, at both ends of real sockets. */

const peers = createPeers();
afterEach(() => peers[Symbol.asyncDispose]());

type Handlers = EventHandlers<typeof eventContract.events>;

/** A session with events at both ends. */
async function open(
  { far: handlersFar, near: handlersNear }: { readonly far?: Handlers; readonly near?: Handlers } = {},
  options: ServerOptions = {},
) {
  const { url, server } = await peers.serve({ features: [events(eventContract, handlersFar)], ...options });
  const near = await peers.dial(url, { modules: [client.events(eventContract, handlersNear)] });
  return { near, far: server.sessions.get(near.id) as ServerSession, url };
}

/** Each end as the one that emits. */
async function bothWays(handlers: Handlers, options?: ServerOptions) {
  const { near, far } = await open({ far: handlers, near: handlers }, options);
  return [
    { from: near, to: far },
    { from: far, to: near },
  ] as const;
}

describe('emit', () => {
  it('resolves when the handler of the other end has returned, and not before', async () => {
    const heard: unknown[] = [];
    let release = (): void => {};
    const handlers: Handlers = {
      async saved({ id }) {
        await new Promise<void>((resolve) => {
          release = resolve;
        });
        heard.push(id);
      },
      typing: ({ who }) => void heard.push(who),
    };
    for (const { from } of await bothWays(handlers)) {
      let isDone = false;
      release = () => {};
      const emitted = from.emit('saved', { id: 7 }).then(() => {
        isDone = true;
      });
      // Events after it do not wait for it.
      await from.emit('typing', { who: '  Ada ' });
      expect([isDone, heard]).toEqual([false, ['Ada']]);
      release();
      await emitted;
      expect(heard.splice(0)).toEqual(['Ada', 7]);
    }
  });

  it('calls the handlers of one session as well, for as long as they are there', async () => {
    const heard: string[] = [];
    for (const { from, to } of await bothWays({ ping: () => void heard.push('all') })) {
      const stop = to.handle('ping', () => void heard.push('one'));
      const stopOther = to.handle('ping', async (_, { session }) => void heard.push(session.id));
      await from.emit('ping');
      expect(heard.splice(0)).toEqual(['all', 'one', to.id]);
      stop();
      stop();
      await from.emit('ping');
      expect(heard.splice(0)).toEqual(['all', to.id]);
      stopOther();
      await from.emit('ping');
      expect(heard.splice(0)).toEqual(['all']);
    }
  });

  it('rejects with the error of the handler', async () => {
    const errors: unknown[] = [];
    const onError = (error: unknown): void => void errors.push(error);
    const bug = new TypeError('secret');
    const handlers: Handlers = {
      saved() {
        throw new RequestError('full', 'the disk is full', { data: { bytes: 5 } });
      },
      async typing() {
        throw bug;
      },
    };
    for (const { from, to } of await bothWays(handlers, { onError })) {
      expect(await failure(from.emit('saved', { id: 1 }))).toMatchObject({
        code: 'full',
        message: 'the disk is full',
        side: 'remote',
        data: { bytes: 5 },
      });
      const error = await failure(from.emit('typing', { who: 'Ada' }));
      expect(error).toMatchObject({ code: 'internal', side: 'remote' });
      expect(error.message).not.toContain('secret');
      // All of several handlers are called, and none of their errors is lost.
      to.handle('typing', () => {
        throw new RangeError('another one');
      });
      expect(await failure(from.emit('typing', { who: 'Ada' }))).toMatchObject({ code: 'internal' });
    }
    expect(errors).toContain(bug);
    expect(errors).toContainEqual(
      new AggregateError([new RangeError('another one'), bug], 'several handlers of an event have failed'),
    );
  });

  it('rejects with `unhandled` if the other end has no handler', async () => {
    for (const { from, to } of await bothWays({})) {
      const error = await failure(from.emit('ping'));
      expect(error).toBeInstanceOf(ContractError);
      expect(error).toMatchObject({ code: 'unhandled', procedure: 'ping', side: 'remote' });
      const stop = to.handle('ping', () => {});
      await from.emit('ping');
      stop();
      expect(await failure(from.emit('ping'))).toMatchObject({ code: 'unhandled' });
    }
  });

  it.each<[string, ServerOptions]>([
    ['no handler of requests', {}],
    ['a handler that answers anything', { onRequest: () => 'thanks' }],
    ['a contract without events', { onRequest: serve(defineContract({ sum: {} }), { sum() {} }) }],
    [
      'a contract of another version',
      { features: [events(defineContract({}, { events: { saved: {} } }), { saved() {} })] },
    ],
  ])('rejects with `unhandled` if the other end has %s', async (_, options) => {
    const { url } = await peers.serve(options);
    const session = await peers.dial(url, { modules: [client.events(eventContract)] });
    expect(await failure(session.emit('ping'))).toMatchObject({ code: 'unhandled', procedure: 'ping' });
  });

  it('rejects with `invalid_input` if the schema refuses the data, and the handler never sees them', async () => {
    let calls = 0;
    for (const { from } of await bothWays({ saved: () => void calls++ })) {
      const error = await failure(from.emit('saved', { id: 'seven' } as never));
      expect(error).toMatchObject({ code: 'invalid_input', procedure: 'saved', issues: [{ path: ['id'] }] });
      expect(await failure(from.emit('saved', (() => {}) as never))).toMatchObject({
        code: 'invalid_argument',
      });
    }
    expect(calls).toBe(0);
  });

  it('rejects with `session_lost` if it cannot be known whether the event was handled', async () => {
    const { url, server, port } = await peers.serve({
      features: [events(eventContract, { saved: () => new Promise(() => {}) })],
    });
    const proxy = peers.use(await createCuttingProxy(() => port));
    const session = await peers.dial(url.replace(`:${port}`, `:${proxy.port}`), {
      modules: [client.events(eventContract)],
    });
    const lost = failure(session.emit('saved', { id: 1 }));
    await expect.poll(() => server.sessions.size).toBe(1);
    const { port: other } = await peers.serve({ features: [events(eventContract, { saved() {} })] });
    proxy.redirect(other);
    proxy.cut();
    expect(await lost).toMatchObject({ code: 'session_lost' });
    await session.emit('saved', { id: 2 });
  });

  it('takes the options of a request', async () => {
    const { near } = await open({ far: { never: () => new Promise(() => {}) } });
    expect(await failure(near.emit('never', undefined, { timeoutMs: 1 }))).toMatchObject({ code: 'timeout' });
    const signal = AbortSignal.abort(new Error('not now'));
    await expect(near.emit('never', undefined, { signal })).rejects.toThrow('not now');
    const metadata = { event: 'mine' };
    expect(await failure(near.emit('ping', undefined, { metadata }))).toMatchObject({
      code: 'invalid_argument',
    });
  });

  it('reaches another agent, and nobody else', async () => {
    const heard: unknown[] = [];
    const authenticate = ({ token }: { readonly token?: string | undefined }) => ({
      principal: 'p',
      agentId: token ?? '',
    });
    const { url } = await peers.serve({ features: [events(eventContract)], authenticate });
    const dial = (token: string) =>
      peers.dial(url, {
        token,
        agent: {},
        modules: [
          client.events(eventContract, {
            saved: ({ id }, _, { from }) => void heard.push([token, id, from]),
          }),
        ],
      });
    const [ann] = [await dial('ann'), await dial('ben')];
    await ann.emit('saved', { id: 3 }, { to: 'ben' });
    expect(heard).toEqual([['ben', 3, 'ann']]);
  });
});

it('requests are answered as before, beside events', async () => {
  const { near, far } = await open({ far: { ping() {} } }, { onRequest: ({ text }) => `re: ${text}` });
  await near.emit('ping');
  expect((await near.request('hello')).text).toBe('re: hello');
  expect(await failure(far.request('hello'))).toMatchObject({ code: 'unsupported' });
});

describe('names and handlers', () => {
  it('are refused at once if they are not those of the contract', async () => {
    const { near, far } = await open();
    for (const end of [near, far] as const) {
      const unknown = 'sved' as 'saved';
      const message = /the contract has no event "sved"; known events: saved, typing/;
      expect(await failure(end.emit(unknown, { id: 1 }))).toMatchObject({ code: 'invalid_argument' });
      expect(() => end.handle(unknown, () => {})).toThrow(message);
      expect(() => end.handle('saved', 5 as never)).toThrow('the handler of "saved" is not a function');
    }
    for (const create of [events, client.events] as readonly (typeof client.events)[]) {
      expect(() => create({} as typeof eventContract)).toThrow('events: a contract is expected');
      expect(() => create(eventContract, { svaed() {} } as never)).toThrow('did you mean "saved"?');
      expect(() => create(eventContract, { saved: 1 } as never)).toThrow(
        'the handler of "saved" is not a function',
      );
    }
    const wrong = (kinds: object) => () => defineContract({}, { events: kinds as never });
    expect(wrong({ 'no name': {} })).toThrow('"no name" is not a name');
    expect(wrong({ saved: { data: 5 } })).toThrow('saved.data is not a schema');
    expect(wrong({ saved: { input: z.string() } })).toThrow('saved: unknown option "input"');
  });

  it('have types at both ends', () => {
    type Emit = ClientSession['emit'];
    expectTypeOf<Parameters<typeof emitSaved>>().toEqualTypeOf<[{ id: number }]>();
    const emitSaved = (data: { id: number }) => (null as unknown as { emit: Emit }).emit('saved', data);
    () => {
      const far = null as unknown as ServerSession<{ name: string }>;
      void far.emit('ping');
      // @ts-expect-error the event has no such data
      void far.emit('saved', { id: 'one' });
      // @ts-expect-error it has data
      void far.emit('saved');
      // @ts-expect-error there is no such event
      void far.emit('nothing');
      far.handle('typing', ({ who }) => expectTypeOf(who).toBeString());
      events<Record<never, never>, typeof eventContract.events, ServerSession<{ name: string }>>(
        eventContract,
        {
          typing: ({ who }, { session }) => expectTypeOf([who, session.data.name]).toEqualTypeOf<string[]>(),
          // @ts-expect-error there is no such event
          nothing() {},
        },
      );
    };
    const options: ClientOptions = { modules: [client.events(eventContract)] };
    expect(options.modules).toHaveLength(1);
  });
});
