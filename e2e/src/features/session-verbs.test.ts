import { type ClientOptions, connect, type SessionModule } from '@parlance/client';
import { createServer, type Feature, type FeatureHooks, type ServerSession } from '@parlance/server';
import { afterEach, describe, expect, it } from 'vitest';
import { createPeers } from '../kit/peers.js';
import { hintingFeature, hintingModule } from './hinting.js';

/** Methods, events and incoming requests that features of a server and modules of a client add to sessions. */

const peers = createPeers();
afterEach(() => peers[Symbol.asyncDispose]());

const onRequest = ({ text }: { readonly text: string }) => `re: ${text}`;

/** A session that gives hints at both ends. */
async function hinting() {
  const errors: unknown[] = [];
  const logger = {
    ...{ debug() {}, info() {}, warn() {} },
    error: ({ event }: Readonly<Record<string, unknown>>) => void errors.push(event),
  };
  const { url, server } = await peers.serve({ features: [hintingFeature()], onRequest, logger });
  const options = { modules: [hintingModule()], onRequest: () => 'from the client', logger };
  const near = await peers.dial(url, options);
  const far = server.sessions.get(near.id) as ServerSession;
  return { near, far, errors, url };
}

describe('a method and an event of another package', () => {
  it('is there at both ends, with an acknowledgement', async () => {
    const { near, far } = await hinting();
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      const heard: unknown[] = [];
      to.on('typing', ({ who }) => heard.push(who));
      const stop = to.on('moved', ([x, y]) => heard.push(x + y));
      await from.hint('typing', { who: 'Ada' });
      await from.hint('moved', [1, 2]);
      stop();
      await from.hint('moved', [3, 4]);
      expect(heard).toEqual(['Ada', 3]);
    }
    expect((await near.request('hello')).text).toBe('re: hello');
    expect((await far.request('hello')).text).toBe('from the client');
  });

  it('works on a wrapper of the session', async () => {
    const { near, far } = await hinting();
    const heard: string[] = [];
    for (const end of [near, far]) end.on('typing', ({ who }) => heard.push(who));
    await new Proxy(near, {}).hint('typing', { who: 'near' });
    await new Proxy(far, {}).hint('typing', { who: 'far' });
    expect(heard).toEqual(['near', 'far']);
  });

  it('is refused by an end that does not have it', async () => {
    const { far, url } = await hinting();
    const bare = await peers.dial(url);
    expect(bare).not.toHaveProperty('hint');
    expect(() => bare.on('typing', () => {})).toThrow(
      /a session has no event "typing".*contract: session\.handle\(name, handler\)/,
    );
    await far.close();
    await expect(far.hint('typing', { who: 'nobody' })).rejects.toMatchObject({ code: 'session_closed' });
  });

  it('throws to its caller what its author throws, and ends nothing', async () => {
    const { near, far, errors } = await hinting();
    far.on('typing', () => {
      throw new Error('a listener');
    });
    for (const end of [near, far]) {
      await expect(end.hint('nothing' as 'typing', { who: '' })).rejects.toThrow('no event nothing');
      // Its caller does not wait for the result.
      void end.hint('nothing' as 'typing', { who: '' });
      await expect(end.hint('moved', (() => {}) as never)).rejects.toMatchObject({
        code: 'invalid_argument',
      });
    }
    await near.hint('typing', { who: 'Ada' });
    expect(errors).toEqual(['listener.failed']);
    await expect(near.request(Uint8Array.of(1), { metadata: { hint: 'typing' } })).rejects.toMatchObject({
      code: 'bad_json',
    });
    expect((await near.request('still')).text).toBe('re: still');
  });
});

it('throws at once what a method throws at once', async () => {
  const fail = () => {
    throw new RangeError('of its own');
  };
  const hooks = { verbs: { fail } } as FeatureHooks;
  const { url, server } = await peers.serve({
    onRequest,
    features: [{ name: 'failing', install: () => hooks }],
  });
  const near = await peers.dial(url, { modules: [{ name: 'failing', install: () => hooks as never }] });
  for (const end of [near, server.sessions.get(near.id)])
    expect(() => (end as unknown as { fail(): void }).fail()).toThrow(RangeError);
  expect((await near.request('still')).text).toBe('re: still');
});

describe('a name that is taken', () => {
  const verb = () => {};
  const adding = (name: string, ...names: readonly string[]): Feature & SessionModule => ({
    name,
    install: () => ({ verbs: Object.fromEntries(names.map((each) => [each, verb])) }) as never,
  });
  const telling = (name: string, ...events: readonly string[]): Feature & SessionModule => ({
    name,
    install: () => ({ events }) as never,
  });
  const taken = (name: string) => `ann cannot add the method "${name}": sessions have it already`;

  it.each([
    [[adding('ann', 'send')], taken('send')],
    [[adding('ann', 'sendTensor')], taken('sendTensor')],
    [[adding('ann', 'follow')], taken('follow')],
    [[adding('ann', 'fetch')], taken('fetch')],
    [[adding('ann', 'then')], taken('then')],
    [[adding('ann', 'toString')], taken('toString')],
    [[telling('ann', 'state')], 'ann cannot add the event "state": sessions have it already'],
    [[adding('ann', 'emit'), adding('ben', 'emit')], 'ben and ann both add the method "emit" to sessions'],
    [[telling('ann', 'news'), telling('ben', 'news')], 'ben and ann both add the event "news" to sessions'],
    [
      [{ name: 'ann', install: () => ({ verbs: { say: 1 } }) as never }],
      'ann: the method say is not a function',
    ],
    [[{ name: 'ann', install: () => ({ events: 'news' }) as never }], 'ann: events must be a list of names'],
  ] as const)('%# is refused at both ends', async (added, message) => {
    expect(() => createServer({ features: added })).toThrow(message);
    const connecting = connect('ws://127.0.0.1:1', { modules: added });
    await expect(connecting).rejects.toMatchObject({ code: 'invalid_option', message });
  });
});

describe('modules that cannot be installed', () => {
  const module: SessionModule = { name: 'ann', install: () => ({ wrap: (next) => next }) };
  const broken = (install: unknown) => [{ name: 'ann', install }] as unknown as readonly SessionModule[];
  it.each<[string, ClientOptions]>([
    ['modules: a list of objects with name and install is expected', { modules: [null as never] }],
    ['modules: ann is there twice', { modules: [module, module] }],
    ['modules: install of ann must return an object', { modules: broken(() => 1) }],
    ['modules: wrap of ann must return a function', { modules: broken(() => ({ wrap: () => 1 })) }],
    ['modules: ann answers requests, which a shared session does not', { modules: [module], shared: true }],
    [
      'the session has not been established yet',
      { modules: broken((port: never) => ({ port: { ...(port as object) } })) },
    ],
  ])('%s', async (message, options) => {
    const code = message.startsWith('modules') ? 'invalid_option' : 'session_closed';
    await expect(connect('ws://127.0.0.1:1', options)).rejects.toMatchObject({ code, message });
  });

  it('have their error thrown by connect', async () => {
    const fault = new RangeError('of its own');
    const install = () => {
      throw fault;
    };
    await expect(connect('ws://127.0.0.1:1', { modules: broken(install) })).rejects.toBe(fault);
  });
});
