import { afterEach, describe, expect, it, vi } from 'vitest';
import { parts } from '#parts';
import { type Algorithm, Extension, Subprotocol } from '../base/constants.js';
import { ProtocolError } from '../base/errors.js';
import { resolveLimits, resolveTimers } from '../base/limits.js';
import type { BodyForm } from '../codec/algorithms.js';
import { CLIENT_FORMS } from '../control/forms.js';
import type { SessionCode } from '../session/channel-module.js';
import { createClientSession } from '../session/create-client.js';
import { createServerSession } from '../session/create-server.js';
import { ManualClock } from '../testing/manual-clock.js';
import { TEST_CAPABILITIES } from '../testing/simulation.js';
import type { CodecLoader } from './codec-loader.js';
import { Endpoint } from './endpoint.js';
import type { Wire } from './ports.js';
import type { RequestHandler } from './requests/responder.js';

/** A client that loads its codecs after ACCEPT, as a page does, and its server. */

const LIMITS = resolveLimits();
const TEXT = 'The same words again. '.repeat(200);

/** Loads what a test tells it to, and fails for what a test tells it to. */
class TestLoader implements CodecLoader {
  readonly isLazy = true;
  readonly ready = new Set<BodyForm>(['NONE']);
  readonly requested: BodyForm[] = [];
  readonly #waiting = new Map<BodyForm, { resolve: () => void; reject: (error: Error) => void }>();

  isReady(form: BodyForm): boolean {
    return this.ready.has(form);
  }
  load(form: BodyForm): Promise<void> {
    if (this.ready.has(form)) return Promise.resolve();
    this.requested.push(form);
    return new Promise((resolve, reject) => this.#waiting.set(form, { resolve, reject }));
  }
  async finish(form: BodyForm): Promise<void> {
    this.ready.add(form);
    this.#waiting.get(form)?.resolve();
    await tick();
  }
  async fail(form: BodyForm): Promise<void> {
    this.#waiting.get(form)?.reject(new ProtocolError('codec_not_loaded', 'blocked'));
    await tick();
  }
}

const tick = () => new Promise((resolve) => setTimeout(resolve, 5));

async function setUp({
  knowsReady = true,
  isLoaded = false,
  algorithms = ['BROTLI', 'NONE'],
  isDurable = false,
  streams = parts.requests,
  onRequest,
  codecsAfter,
}: {
  knowsReady?: boolean;
  isLoaded?: boolean;
  algorithms?: Algorithm[];
  isDurable?: boolean;
  streams?: SessionCode['streams'];
  onRequest?: RequestHandler;
  codecsAfter?: PromiseLike<unknown>;
} = {}) {
  const clock = new ManualClock();
  const loader = new TestLoader();
  if (isLoaded) loader.ready.add('BROTLI');
  const warnings: unknown[] = [];
  const common = { subprotocol: Subprotocol.BINARY, limits: LIMITS, timers: resolveTimers() };
  const capabilities = (ready: string | undefined) => ({
    ...TEST_CAPABILITIES,
    algorithms,
    encodings: [],
    extensions: {
      link: '{}',
      ...(ready === undefined ? {} : { [Extension.READY]: ready }),
      ...(isDurable ? { [Extension.RESUME]: '{}', [Extension.DURABLE]: '1' } : {}),
    },
  });
  const clientOptions = {
    ...common,
    capabilities: capabilities('["BROTLI"]'),
    isDecodable: (codec: number) => codec === 0 || loader.ready.has('BROTLI'),
  };
  const server = createServerSession({
    ...common,
    role: 'server',
    capabilities: capabilities(knowsReady ? '[]' : undefined),
  });
  const ends = {
    client: new Endpoint({
      core: createClientSession(clientOptions, { forms: CLIENT_FORMS, plain: undefined, streams }),
      clock,
      limits: LIMITS,
      role: 'client',
      codecs: loader,
      codecsAfter,
      channelOf: () => parts.durable.load(),
      logger: {
        debug() {},
        info() {},
        warn: (fields) => void warnings.push(fields),
        error() {},
      },
    }),
    server: new Endpoint({
      core: server,
      clock,
      limits: LIMITS,
      role: 'server',
      onRequest,
      onHello: () => void server.accept('session', 0, { isDurable }),
      onApplied() {
        if (server.record?.pollCommit() === undefined) return;
        server.record.handleCommitted(0);
        queueMicrotask(() => ends.server.pump());
      },
    }),
  };
  const wire = (to: () => Endpoint): Wire => ({
    bufferedAmount: 0,
    send: (frame) => {
      const copy = frame.slice();
      queueMicrotask(() => to().handleMessage(copy));
    },
    close() {},
  });
  ends.server.handleConnected(wire(() => ends.client));
  ends.client.handleConnected(wire(() => ends.server));
  await tick();
  return { ...ends, loader, clock, warnings };
}

async function next(end: Endpoint): Promise<string> {
  for await (const message of end.session) return `${message.algorithm} ${message.text}`;
  return 'none';
}

describe('a client that loads its codecs after ACCEPT', () => {
  it('is ready at once, and sends as it is until a codec is loaded', async () => {
    const { client, server, loader } = await setUp();
    expect(client.session.state).toBe('established');
    await client.session.send(TEXT);
    expect(await next(server)).toBe(`NONE ${TEXT}`);
    void client.session.send('forced', { algorithm: 'BROTLI' });
    await loader.finish('BROTLI');
    expect(await next(server)).toBe('BROTLI forced');
    await client.session.send(TEXT);
    expect(await next(server)).toBe(`BROTLI ${TEXT}`);
  });

  it('opens a durable session when the code of these is loaded, and has kept what came before', async () => {
    const { client, server, loader } = await setUp({ isDurable: true });
    await server.session.send('early');
    server.pump();
    expect(await next(client)).toBe('NONE early');
    expect(client.core.channel).toHaveProperty('stateHave');
    await client.session.send(TEXT);
    expect(await next(server)).toBe(`NONE ${TEXT}`);
    expect(loader.requested).toEqual([]);
  });

  it('leaves the connection to its first messages for a second', async () => {
    const { loader, clock } = await setUp();
    clock.pass(999);
    expect(loader.requested).toEqual([]);
    clock.pass(1);
    expect(loader.requested).toEqual(['BROTLI']);
  });

  it('loads its codecs when a reply has begun to arrive, as its rest would be in full size', async () => {
    let speak = () => {};
    const thought = new Promise<void>((resolve) => {
      speak = resolve;
    });
    const { client, loader, clock } = await setUp({
      async *onRequest() {
        await thought;
        yield 'the beginning';
        await new Promise(() => {});
      },
    });
    const first = client.session.stream('a question')[Symbol.asyncIterator]().next();
    await tick();
    clock.pass(0);
    expect(loader.requested).toEqual([]);
    speak();
    expect((await first).value?.text).toBe('the beginning');
    expect(loader.requested).toEqual([]);
    clock.pass(0);
    expect(loader.requested).toEqual(['BROTLI']);
    clock.pass(1_000);
    expect(loader.requested).toEqual(['BROTLI']);
  });

  it.each(['resolves', 'rejects'] as const)(
    'loads none before the promise of its application %s, not even with a reply',
    async (how) => {
      let settle = { resolve: () => {}, reject: () => {} };
      const codecsAfter = new Promise<void>((resolve, reject) => {
        settle = { resolve, reject: () => reject(new Error('never mind')) };
      });
      const { client, server, loader, clock } = await setUp({
        onRequest: () => 'an answer',
        codecsAfter,
      });
      expect(await client.session.request('a question')).toMatchObject({ text: 'an answer' });
      clock.pass(60_000);
      await tick();
      expect(loader.requested).toEqual([]);
      how === 'resolves' ? settle.resolve() : settle.reject();
      await tick();
      expect(loader.requested).toEqual(['BROTLI']);
      await loader.finish('BROTLI');
      await server.session.send(TEXT);
      expect(await next(client)).toBe(`BROTLI ${TEXT}`);
    },
  );

  it('loads what it is told to use before that promise', async () => {
    const { client, server, loader } = await setUp({ codecsAfter: new Promise(() => {}) });
    void client.session.send('forced', { algorithm: 'BROTLI' });
    await loader.finish('BROTLI');
    expect(await next(server)).toBe('BROTLI forced');
  });

  it('gets a codec from the server only after it has said that it is ready', async () => {
    const { client, server, loader, clock } = await setUp();
    await server.session.send(TEXT);
    expect(await next(client)).toBe(`NONE ${TEXT}`);
    clock.pass(1_000);
    await loader.finish('BROTLI');
    await server.session.send(TEXT);
    expect(await next(client)).toBe(`BROTLI ${TEXT}`);
  });

  it('says at once that it is ready, if an earlier session has loaded everything since HELLO', async () => {
    const { client, server, loader } = await setUp({ isLoaded: true });
    await server.session.send(TEXT);
    expect(await next(client)).toBe(`BROTLI ${TEXT}`);
    expect([server.core.awaitedCodecs.size, loader.requested]).toEqual([0, []]);
  });

  it.each([true, false])(
    'decodes a body that came before its code, in order (the server knows READY: %s)',
    async (knowsReady) => {
      const { client, server, loader } = await setUp({ knowsReady });
      await server.session.send('first', { algorithm: 'BROTLI' });
      await server.session.send('second', { algorithm: 'NONE' });
      await tick();
      expect([loader.requested, client.mailbox.size]).toEqual([['BROTLI'], 0]);
      await loader.finish('BROTLI');
      expect([await next(client), await next(client)]).toEqual(['BROTLI first', 'NONE second']);
    },
  );

  it('keeps the order of messages while one of them waits for its code', async () => {
    const { client, server, loader } = await setUp();
    void client.session.send('first', { algorithm: 'BROTLI' });
    void client.session.send('second');
    await tick();
    expect(server.mailbox.size).toBe(0);
    await loader.finish('BROTLI');
    expect([await next(server), await next(server)]).toEqual(['BROTLI first', 'NONE second']);
  });

  it('leaves out a codec that cannot be loaded, and reports it once', async () => {
    const { client, server, loader, clock, warnings } = await setUp();
    clock.pass(1_000);
    await loader.fail('BROTLI');
    expect(warnings).toEqual([expect.objectContaining({ event: 'codec.unavailable', codec: 'BROTLI' })]);
    await Promise.all([client.session.send(TEXT), server.session.send(TEXT)]);
    expect([await next(server), await next(client)]).toEqual([`NONE ${TEXT}`, `NONE ${TEXT}`]);
    await server.session.send('forced', { algorithm: 'BROTLI' });
    await server.session.send('after it');
    await tick();
    expect([client.session.state, client.mailbox.size, warnings.length]).toEqual(['established', 2, 1]);
    const sending = client.session.send('forced', { algorithm: 'BROTLI' });
    await tick();
    await loader.fail('BROTLI');
    await expect(sending).rejects.toMatchObject({ code: 'codec_not_loaded' });
  });

  it('waits for codecs without which it could send nothing, and leaves out those that fail', async () => {
    const { client, server, loader } = await setUp({ algorithms: ['BROTLI', 'DICTIONARY'] });
    expect([client.session.state, loader.requested]).toEqual(['connecting', ['BROTLI', 'DICTIONARY']]);
    await loader.fail('BROTLI');
    expect(client.session.state).toBe('connecting');
    await loader.finish('DICTIONARY');
    expect(client.session.state).toBe('established');
    await client.session.send('"role":"user"');
    expect(await next(server)).toBe('DICTIONARY "role":"user"');
  });

  it('fails if it could send nothing at all', async () => {
    const { client, loader } = await setUp({ algorithms: ['BROTLI'] });
    await loader.fail('BROTLI');
    await loader.fail('BROTLI');
    expect(client.session.state).toBe('closed');
  });
});

describe('a client without the code of streams', () => {
  afterEach(() => vi.restoreAllMocks());

  /** The code of streams, which a test loads. */
  function lateStreams() {
    const streams = {
      isLoaded: false,
      get: () => {
        if (streams.isLoaded) return parts.requests.get();
        throw new ProtocolError('codec_not_loaded', 'blocked');
      },
    };
    let settle: { resolve: () => void; reject: (error: Error) => void };
    const load = vi.spyOn(parts.requests, 'load').mockImplementation(
      () =>
        new Promise((resolve, reject) => {
          settle = { resolve: () => resolve(parts.requests.get()), reject };
        }),
    );
    const finish = async () => {
      streams.isLoaded = true;
      settle.resolve();
      await tick();
    };
    return { streams, load, finish, fail: (error: Error) => settle.reject(error) };
  }

  it('sends and receives messages, and loads nothing for them', async () => {
    const { streams, load } = lateStreams();
    const { client, server } = await setUp({ streams });
    await Promise.all([client.session.send('there'), server.session.send('back')]);
    expect([await next(server), await next(client)]).toEqual(['NONE there', 'NONE back']);
    expect(load).not.toHaveBeenCalled();
  });

  it('takes a request, and what comes after it, when the code is loaded, in order', async () => {
    const { streams, load, finish } = lateStreams();
    const { client, server } = await setUp({ streams });
    await server.session.send('before');
    const asked = server.session.request('a question');
    const refused = expect(asked).rejects.toMatchObject({ code: 'unsupported' });
    await server.session.send('after');
    await tick();
    expect([load.mock.calls.length, client.mailbox.size]).toEqual([1, 1]);
    // None of it is acknowledged before.
    expect(server.core.channel.framesUnconfirmed).toBeGreaterThanOrEqual(2);
    await finish();
    await refused;
    expect([await next(client), await next(client)]).toEqual(['NONE before', 'NONE after']);
  });

  it('ends the session with a typed error if the code cannot be loaded', async () => {
    const { streams, fail } = lateStreams();
    const { client, server } = await setUp({ streams });
    const over = client.closed;
    server.session.request('a question').catch(() => {});
    await tick();
    fail(new ProtocolError('codec_not_loaded', 'offline'));
    expect(await over).toMatchObject({ error: { code: 'codec_not_loaded', retryable: true } });
  });
});
