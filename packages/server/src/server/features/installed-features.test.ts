import { ProtocolError } from '@parlance/protocol';
import { SILENT_LOGGER } from '@parlance/protocol/internal';
import { describe, expect, it } from 'vitest';
import { scan } from '../../agents/scan-feature.js';
import { cluster } from '../../cluster/feature.js';
import { createServer } from '../../create-server.js';
import { durable } from '../../durable/feature.js';
import { memoryCluster } from '../../engine/memory.js';
import { groups } from '../../groups/feature.js';
import { admin } from '../../operate/admin/feature.js';
import { metrics } from '../../operate/observe/feature.js';
import { batching } from '../../replies/batching.js';
import type { ServerEndpoint } from '../../session/endpoint.js';
import { hooks } from '../hooks/feature.js';
import type { SessionServer } from '../server.js';
import { chooseFeatures, without } from './choose-features.js';
import { type Feature, Service } from './feature.js';
import { InstalledFeatures, type ServerOfFeatures } from './installed-features.js';
import { inOrder } from './order.js';
import type { OwnHooks, OwnHost } from './own-feature.js';

const feature = (name: string, feature: OwnHooks = {}, after?: readonly string[]): Feature => ({
  name,
  after,
  install: () => feature,
});

/** A server as far as features without a session need one. */
const SERVER = {} as ServerOfFeatures;
const installed = (...features: Feature[]) => new InstalledFeatures(features, SERVER, SILENT_LOGGER);

function fakeSession(id: string) {
  const faults: unknown[] = [];
  const session = { id, slots: undefined, crash: (error: unknown) => void faults.push(error) };
  return { session: session as unknown as ServerEndpoint, faults };
}

const orderOf = (server: unknown): readonly string[] => (server as SessionServer).features.order;

const AGREED = ['link', 'resume', 'context'];

describe('the order of features', () => {
  it('is the same for every server', () => {
    const authenticate = () => ({ principal: 'p' });
    expect(orderOf(createServer())).toEqual([
      ...AGREED,
      'metrics',
      'tracing',
      'tensors',
      'http-stream',
      'replies',
      'groups',
    ]);
    const all = createServer({
      authenticate,
      features: [
        metrics(),
        scan(() => ({ safe: true })),
        batching({ ms: 5 }),
        hooks([(_context, next) => next()]),
        admin({ token: '0123456789abcdef' }),
      ],
    });
    expect(orderOf(all)).toEqual([
      ...AGREED,
      ...['metrics', 'tracing', 'tensors', 'http-stream', 'scan', 'replies', 'agents', 'groups'],
      ...['batching', 'hooks', 'admin'],
    ]);
  });

  it('has what needs an engine before what asks for it', () => {
    const engine = memoryCluster();
    const features = [durable(true, { allowVolatileEngine: true }), cluster()];
    const server = createServer({ authenticate: () => ({ principal: 'p' }), engine, features });
    expect(orderOf(server)).toEqual([
      ...AGREED,
      ...['metrics', 'tracing', 'tensors', 'cluster', 'single-node'],
      ...['http-stream', 'durable', 'replies', 'agents', 'groups'],
    ]);
    expect(() => createServer({ features: [durable()] })).toThrow('the option engine');
    expect(() => createServer({ features: [cluster()] })).toThrow('the option engine');
  });

  it('is as given, except that each comes after those that it names', () => {
    const named = (name: string, ...after: string[]) => ({ name, after });
    const items = [named('a', 'c'), named('b'), named('c', 'd', 'unknown'), named('d')];
    expect(inOrder(items).map(({ name }) => name)).toEqual(['d', 'c', 'a', 'b']);
  });

  it('has what provides a port before what names the port', () => {
    const port = new Service<number>('number');
    const items = [
      { name: 'taker', after: [port] },
      { name: 'other' },
      { name: 'giver', provides: [port] },
      { name: 'namesake', provides: [new Service<number>('number')] },
    ];
    expect(inOrder(items).map(({ name }) => name)).toEqual(['giver', 'taker', 'other', 'namesake']);
  });

  it('does not exist in a circle, which is refused with its members', () => {
    const items = [
      { name: 'x', after: ['a'] },
      { name: 'a', after: ['b'] },
      { name: 'b', after: ['a'] },
    ];
    expect(() => inOrder(items)).toThrow('features: a comes after b comes after a');
  });
});

describe('the features of a server', () => {
  const defaults = [feature('a'), feature('b')];
  const namesOf = (...given: Feature[]) => chooseFeatures(defaults, given).map(({ name }) => name);

  it('are its defaults, replaced in their place, and those that are added', () => {
    const other = feature('a');
    expect(chooseFeatures(defaults, [feature('c'), other])[0]).toBe(other);
    expect(namesOf(feature('c'))).toEqual(['a', 'b', 'c']);
  });

  it('can be removed', () => {
    expect(namesOf(without('a'))).toEqual(['b']);
    const server = createServer({ features: [without('groups')] });
    expect(() => server.group('g')).toThrow('the server was created without the feature groups');
  });

  it('have one of a name', () => {
    expect(() => namesOf(feature('c'), feature('c'))).toThrow('features: c is there twice');
    expect(() => createServer({ features: [without('grops')] })).toThrow('there is no default grops');
  });

  it('are features', () => {
    for (const wrong of [null, 'groups', {}, { name: 'x' }, { name: '', install: () => ({}) }, groups])
      expect(() => createServer({ features: [wrong as unknown as Feature] })).toThrow('features: a list');
  });
});

describe('features', () => {
  it('give each other what they provide, if it comes before', () => {
    const port = new Service<number>('number');
    const seen: unknown[] = [];
    const giver: Feature = {
      name: 'giver',
      install(host: OwnHost) {
        host.provide(port, 7);
        return {};
      },
    };
    const taker: Feature = {
      name: 'taker',
      after: ['giver'],
      install(host: OwnHost) {
        seen.push(host.use(port));
        return {};
      },
    };
    installed(taker, giver);
    installed(taker);
    expect(seen).toEqual([7, undefined]);
  });

  it('do not set the same value twice', () => {
    const tells = (name: string) => feature(name, { offer: { securityScanning: true } });
    expect(() => installed(tells('a'), tells('b'))).toThrow('b: another feature sets securityScanning');
    const labelled = (name: string) => feature(name, { labels: { robot: () => name } });
    expect(() => installed(labelled('a'), labelled('b'))).toThrow('b: another feature sets robot');
  });

  it('wrap handlers from the first to the last', async () => {
    const calls: string[] = [];
    const wrapping = (name: string) =>
      feature(name, {
        wrap: (next) => (message, context) => {
          calls.push(name);
          return next(message, context);
        },
      });
    const handler = installed(wrapping('inner'), wrapping('outer')).wrap(() => 'reply');
    await handler({} as never, {} as never);
    expect(calls).toEqual(['inner', 'outer']);
  });

  it('end the session that one of them fails for, and no other, and keep none from its feature', () => {
    const ended: string[] = [];
    const features = installed(
      feature('bad', {
        ended({ id }) {
          if (id === 'a') throw new Error('a fault');
        },
      }),
      feature('good', { ended: ({ id }) => void ended.push(id) }),
    );
    const [a, b] = [fakeSession('a'), fakeSession('b')];
    features.ended(a.session, undefined);
    features.ended(b.session, undefined);
    expect([a.faults.length, b.faults.length, ended]).toEqual([1, 0, ['a', 'b']]);
  });

  it('end the session also if one of them fails later, or is asked whether a session may leave', async () => {
    const fault = () => {
      throw new Error('a fault');
    };
    const late = async () => fault();
    const tick = late as () => void;
    const features = installed(
      feature('bad', {
        ready: late as () => void,
        others: { hold() {}, isQuiet: fault, settle() {} },
        leaves: fault,
        tick,
      }),
    );
    const { session, faults } = fakeSession('a');
    features.ready(session);
    features.tick();
    await new Promise(setImmediate);
    expect(faults.length).toBe(1);
    expect(features.isQuiet(session)).toBe(false);
    expect(features.leaves(session, 1, 'move')).toBe(false);
    expect(faults.length).toBe(3);
  });

  it('are not ready if one of them fails', () => {
    const fault = () => {
      throw new Error('a fault');
    };
    const features = installed(feature('bad', { tick: fault }));
    expect(() => features.tick()).not.toThrow();
    expect(features.unready()).toBeUndefined();
    expect(installed(feature('bad', { refuses: fault })).unready()).toBe('the feature bad has failed');
  });

  it('start when those before them have started, and only once', async () => {
    const log: string[] = [];
    let fails = true;
    const features = installed(
      feature('late', { start: () => void log.push('late') }, ['early', 'unsure']),
      feature('early', {
        async start() {
          await Promise.resolve();
          log.push('early');
        },
      }),
      feature('unsure', {
        start() {
          if (fails) throw new ProtocolError('unsupported', 'not yet');
        },
      }),
    );
    await expect(features.start()).rejects.toThrow('not yet');
    expect(log).toEqual(['early']);
    fails = false;
    await features.start();
    expect(log).toEqual(['early', 'late']);
  });

  it('close from the last to the first, also if one of them fails', async () => {
    const log: string[] = [];
    const features = installed(
      feature('first', { close: () => void log.push('first') }),
      feature('bad', {
        close() {
          throw new Error('a fault');
        },
      }),
      feature('last', { close: async () => void log.push('last') }),
    );
    await features.close(new ProtocolError('draining', 'the server closes'));
    expect(log).toEqual(['last', 'first']);
  });
});

describe('a slot', () => {
  it('has the state of a session, made when it is first needed, in an array of its full length', () => {
    const slots: { of(session: ServerEndpoint): unknown; peek(session: ServerEndpoint): unknown }[] = [];
    const keeping = (name: string): Feature => ({
      name,
      install(host: OwnHost) {
        slots.push(host.slot(({ id }) => ({ name, id })));
        return {};
      },
    });
    installed(keeping('a'), keeping('b'), keeping('c'));
    const { session } = fakeSession('s');
    expect(slots.map((slot) => slot.peek(session))).toEqual([undefined, undefined, undefined]);
    const made = slots[1]?.of(session);
    expect(made).toEqual({ name: 'b', id: 's' });
    expect(slots[1]?.of(session)).toBe(made);
    expect(session.slots).toEqual([undefined, made, undefined]);
  });
});
