import { createServer as createHttpServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type ClientOptions, connect, type Session } from '@parlance/client';
import { contractClient, defineContract, serve } from '@parlance/client/contract';
import {
  agents,
  cluster,
  createServer,
  durable,
  type Feature,
  hooks,
  keptReplies,
  memoryCluster,
  metrics,
  type ServerOptions,
  scan,
  tensors,
} from '@parlance/server';
import { createOpenAIGateway } from '@parlance/server/openai';
import { createTestServer } from '@parlance/server/testing';
import { afterEach, describe, expect, it } from 'vitest';
import WebSocket from 'ws';
import { z } from 'zod';
import { createPeers, failure } from '../kit/peers.js';

/** Common mistakes: the error says what is wrong, and what to do about it. */

const peers = createPeers();
afterEach(() => peers[Symbol.asyncDispose]());

/** Code and message of the error that a call throws or rejects with. */
async function told(call: () => unknown): Promise<string> {
  const { name, code, message } = await failure((async () => call())());
  expect(name).toBe('ProtocolError');
  return `${code}: ${message}`;
}

describe('a server', () => {
  it.each([
    ['a port', 8080, 'call listen({ port: 8080 }) to open a port'],
    ['nothing', undefined, 'this is of type undefined'],
    ['null', null, 'this is null'],
    [
      'an app',
      Object.assign(() => {}, { listen() {}, on() {}, off() {} }),
      'this is an app, so pass createServer(app)',
    ],
    ['an app with a server', { server: createHttpServer() }, 'this object has one as its property "server"'],
  ])('is not attached to %s', async (_what, given, advice) => {
    expect(await told(() => peers.use(createServer()).attach(given as never))).toContain(
      `invalid_argument: attach: expected an HTTP server of Node; ${advice}`,
    );
  });

  it.each([
    ['throws', () => Promise.reject(new Error('the database is down'))],
    ['returns true', () => true as never],
  ])(
    'whose authenticate %s blames neither the client nor the token, and tells its operator',
    async (_what, authenticate) => {
      const errors: string[] = [];
      const onError: ServerOptions['onError'] = (error, { event }) =>
        errors.push(`${event} ${String(error)}`);
      const { url } = await peers.serve({ authenticate, onError });
      const error = await failure(connect(url, { WebSocket, token: 'right' }));
      expect([error.code, error.message, error.retryable]).toEqual([
        'rejected',
        'the server failed to check the credentials; its log says why',
        true,
      ]);
      expect(errors).toEqual([
        expect.stringMatching(
          /^auth.failed (Error: the database is down|ProtocolError: .*without a principal)$/,
        ),
      ]);
    },
  );

  it.each([
    ['that has no logger prints', {}],
    ['with a logger does not print', { logger: console }],
  ])('%s what its functions throw', async (_which, options) => {
    const thrown = new TypeError('cannot read x of undefined');
    const printed: unknown[][] = [];
    const { error, warn, info, debug } = console;
    const silent = { warn() {}, info() {}, debug() {} };
    Object.assign(console, silent, { error: (...what: unknown[]) => printed.push(what) });
    try {
      const onRequest = () => {
        throw thrown;
      };
      const { url } = await peers.use(createServer({ ...options, onRequest })).listen();
      const session = peers.use(await connect(url, { WebSocket }));
      expect((await failure(session.request('x'))).code).toBe('internal');
    } finally {
      Object.assign(console, { error, warn, info, debug });
    }
    const all = [['request.failed: a request handler failed', thrown]];
    expect(printed).toEqual('logger' in options ? [] : all);
  });
});

describe('the address of a connection', () => {
  let port = 0;
  const dial = (url: string, options: ClientOptions = {}) => connect(url, { WebSocket, ...options });

  it.each([
    ['127.0.0.1:8765/session', 'ws://127.0.0.1:8765/session'],
    ['localhost:8765/session', 'ws://localhost:8765/session'],
    ['localhost', 'ws://localhost'],
    ['ftp://localhost/session', 'ws://127.0.0.1:8765/session'],
    ['', 'ws://127.0.0.1:8765/session'],
  ])('%j is not the URL of a WebSocket, and the message suggests one', async (url, guess) => {
    expect(await told(() => dial(url))).toBe(
      `invalid_option: url: it must begin with ws:// or wss://, such as ${guess}`,
    );
  });

  it('is text or a URL', async () => {
    expect(await told(() => dial(undefined as never))).toMatch(/^invalid_option: url: .*, not undefined$/);
  });

  it('may be an http URL, as in the standard, and has no fragment', async () => {
    ({ port } = await peers.serve());
    const session = peers.use(await dial(`http://127.0.0.1:${port}/session`));
    expect(session.state).toBe('established');
    expect(await told(() => dial(`ws://127.0.0.1:${port}/session#here`))).toMatch(
      /^invalid_option: url: .*#here/,
    );
  });

  it('is in the error if nothing listens there, without secrets', async () => {
    const { server, port } = await peers.serve();
    await server.close();
    expect(await told(() => dial(`ws://me:canary@127.0.0.1:${port}/session?key=canary`))).toBe(
      `connection_failed: cannot connect to ws://127.0.0.1:${port}/session: nothing listens there; is the server running, and is the port right? (connect ECONNREFUSED 127.0.0.1:${port})`,
    );
    // A name with an address of each family fails twice, with an error without a message.
    expect(await told(() => dial(`ws://localhost:${port}/session`))).toMatch(
      /nothing listens there; .*ECONNREFUSED/,
    );
  });

  it('is not at another path, nor behind missing TLS, nor at any web server', async () => {
    ({ port } = await peers.serve());
    expect(await told(() => dial(`ws://127.0.0.1:${port}/sesion`))).toMatch(
      /HTTP 404: there is no session endpoint at \/sesion; the default path is \/session$/,
    );
    expect(await told(() => dial(`wss://127.0.0.1:${port}/session`))).toMatch(/use ws: or put a TLS proxy/);
    const web = createHttpServer((_request, response) => response.end('hello'));
    await new Promise<void>((resolve) => web.listen(0, '127.0.0.1', resolve));
    const { port: webPort } = web.address() as AddressInfo;
    expect(await told(() => dial(`ws://127.0.0.1:${webPort}/session`))).toMatch(
      /HTTP 200 instead of a WebSocket: it is not a session server/,
    );
    web.close();
  });

  it('is not answered in time', async () => {
    const silent = createHttpServer();
    silent.on('upgrade', () => {});
    await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve));
    const { port } = silent.address() as AddressInfo;
    const timers = { acceptTimeoutMs: 50 };
    expect(await told(() => dial(`ws://127.0.0.1:${port}/session`, { timers }))).toMatch(
      /^connection_failed: .*no answer within 50 ms/,
    );
    silent.closeAllConnections();
    silent.close();
  });

  it('takes a WebSocket class, and no other thing', async () => {
    const url = 'ws://127.0.0.1:1/session';
    expect(await told(() => connect(url, { WebSocket: (() => {}) as never }))).toMatch(
      /such as that of "ws"/,
    );
    expect(await told(() => connect(url, { WebSocket: { WebSocket } as never }))).toMatch(
      /a class is expected/,
    );
  });
});

describe('options', () => {
  it.each<[string, unknown, RegExp]>([
    ['a typo', { tokne: 'x' }, /did you mean "token"\?/],
    ['null', null, /^invalid_option: options: an object/],
    [
      'a token instead of options',
      'secret',
      /^invalid_option: options: an object is expected, not a string$/,
    ],
    ['a token of another kind', { token: 5 }, /^invalid_option: token: a string or a function/],
    ['an empty token', { token: '' }, /^invalid_option: token: expected a string of 1 to/],
    ['a token function without one', { token: () => null }, /^invalid_option: token: /],
    ['an agent ID with a space', { agentId: 'a b' }, /^invalid_option: agent.id: /],
    [
      'an agent ID in two places',
      { agentId: 'a', agent: { id: 'a' } },
      /^invalid_option: agent.id: agentId is given as well/,
    ],
    ['an unknown name in agent', { agent: { name: 'a' } }, /^invalid_option: .*agent/],
    [
      'a number for reconnect',
      { reconnect: 5 },
      /^invalid_option: reconnect: an object or true or false is expected, not a number$/,
    ],
    ['a typo in reconnect', { reconnect: { maxDelay: 5 } }, /did you mean "maxDelayMs"\?/],
    ['delays the wrong way round', { reconnect: { minDelayMs: 9, maxDelayMs: 5 } }, /not 9 and 5$/],
    ['an unknown subprotocol', { subprotocol: 'm2m' }, /m2m\.v1, m2m\.v1\.json$/],
    ['one algorithm', { algorithms: 'M2M' }, /^invalid_option: algorithms: a list/],
    ['an unknown algorithm', { algorithms: ['GZIP'] }, /unknown name "GZIP"; known names: M2M/],
    ['a limit of another name', { limits: { maxMesageSize: 1 } }, /did you mean "maxMessageSize"\?/],
    ['a limit as text', { limits: { maxMessageSize: '5' } }, /Infinity, not "5"$/],
    ['a timer of another name', { timers: { helloTimeout: 1 } }, /did you mean "helloTimeoutMs"\?/],
    ['an extension of another name', { extensions: { contxt: true } }, /did you mean "context"\?/],
    ['an extension that does not exist yet', { extensions: { seal: true } }, /unknown extension "seal"/],
    [
      'an extension that is not a flag',
      { extensions: { context: 'no' } },
      /^invalid_option: extensions\.context/,
    ],
    ['an unknown mode', { security: { mode: 'HMAC256', key: new Uint8Array(32) } }, /HMAC or AEAD/],
    [
      'a key that is too short',
      { security: { mode: 'AEAD', key: new Uint8Array(3) } },
      /^invalid_key: .*32 bytes/,
    ],
    ['a key that is text', { security: { mode: 'AEAD', key: 'canary' } }, /^invalid_option: security\.key/],
    ['a number for a batch', { batch: 50 }, /^invalid_option: batch: an object/],
    ['an invalid signal', { signal: {} }, /^invalid_option: signal: an AbortSignal/],
  ])('of a client: %s', async (_what, options, message) => {
    const said = await told(() => connect('ws://127.0.0.1:1/session', options as ClientOptions));
    expect(said).toMatch(message);
    expect(said).not.toContain('canary');
  });

  it.each<[string, unknown, RegExp]>([
    ['a typo', { onSesion() {} }, /did you mean "onSession"\?/],
    ['the port', { port: 8765 }, /unknown option "port"/],
    ['a handler of another kind', { onRequest: 'x' }, /^invalid_option: onRequest: a function/],
    ['a token in place of authenticate', { authenticate: 'x' }, /^invalid_option: authenticate: a function/],
    ['one origin', { origins: 'https://a.example' }, /^invalid_option: origins: a list/],
    ['an origin with a path', { origins: ['https://a.example/'] }, /write it as https:/],
    ['a path without a slash', { path: 'session' }, /path must begin with "\/"/],
    ['a path of another kind', { path: 5 }, /^invalid_option: path: a string/],
    ['a logger without methods', { logger: {} }, /^invalid_option: logger: .*console or pino\(\)/],
    ['an option that is a feature', { metrics: true }, /unknown option "metrics" .*features\)$/],
    ['a feature without a list', { features: metrics() }, /^invalid_option: features: a list/],
    ['agents without authentication', { features: [agents()] }, /agents requires authenticate/],
    ['a short key', { security: { mode: 'HMAC', key: new Uint8Array(2) } }, /^invalid_key/],
  ])('of a server: %s', async (_what, options, message) => {
    expect(await told(() => createServer(options as ServerOptions))).toMatch(message);
  });

  it.each<[string, (wrong: never) => Feature, unknown, RegExp]>([
    ['a path for metrics', metrics, '/metrics', /^invalid_option: metrics: an object/],
    ['a typo in metrics', metrics, { pth: '/m' }, /did you mean "path"\?/],
    ['a scan that is none', scan, { check: () => true }, /^invalid_option: scan: a function/],
    ['one hook', hooks, () => {}, /^invalid_option: hooks: a list/],
    ['a mode as tensors', tensors, 'stream', /^invalid_option: tensors: an object/],
    ['an unknown mode', tensors, { transfers: 'all' }, /^invalid_option: transfers: expected one of/],
    ['a policy for durable sessions', durable, 'all', /^invalid_option: durable.policy: true or false/],
    ['a typo in kept replies', keptReplies, { kep: true }, /did you mean "keep"\?/],
  ])('of a feature: %s', async (_what, feature, wrong, message) => {
    const created = () =>
      createServer({ engine: memoryCluster(), features: [cluster(), feature(wrong as never)] });
    expect(await told(created)).toMatch(message);
  });

  it.each<[string, unknown, RegExp]>([
    ['a number', 8765, /^invalid_option: listen: an object is expected, not a number$/],
    ['a typo', { prot: 8765 }, /did you mean "port"\?/],
    ['text for a port', { port: '8765' }, /^invalid_option: listen\.port: a number/],
    ['an invalid port', { port: 99_999 }, /0 to 65535/],
    [
      'an address of another machine',
      { host: '203.0.113.1' },
      /^connection_failed: .*this machine has no such address/,
    ],
  ])('of listen: %s', async (_what, options, message) => {
    const server = peers.use(createServer());
    expect(await told(() => server.listen(options as never))).toMatch(message);
  });

  it('of listen: a port in use, a server that listens already, and a closed one', async () => {
    const { server, port } = await peers.serve();
    expect(await told(() => peers.use(createServer()).listen({ port }))).toBe(
      `connection_failed: cannot listen on 127.0.0.1:${port}: that port is in use; stop its owner, or choose another port (0 chooses a free one)`,
    );
    expect(await told(() => server.listen())).toMatch(/already listening/);
    await server.close();
    expect(await told(() => server.listen())).toMatch(/was closed; create another one/);
    expect(await told(() => server.drain({ timeout: 5 } as never))).toMatch(/did you mean "timeoutMs"\?/);
  });
});

it('agent IDs that only a server can address are accepted', async () => {
  const { url } = await peers.serve();
  const session = await peers.dial(url, { agentId: 'agent:7@host.example' });
  expect(session.state).toBe('established');
});

describe('a client that is refused', () => {
  const authenticate: ServerOptions['authenticate'] = ({ token }) =>
    token === 'right' ? { principal: 'me' } : null;

  it('learns whether a token was missing', async () => {
    const { url } = await peers.serve({ authenticate });
    expect(await told(() => peers.dial(url))).toBe(
      'rejected: credentials are required: no token was presented',
    );
    expect(await told(() => peers.dial(url, { token: 'wrong' }))).toBe(
      'rejected: credentials are required: the token is wrong or expired',
    );
  });

  it('is told that the server has failed if expiresAt is in seconds, and the operator why', async () => {
    const told: string[] = [];
    const onError: ServerOptions['onError'] = (error) => told.push(String(error));
    const expiresAt = Math.floor(Date.now() / 1000) + 3600;
    const { url } = await peers.serve({ authenticate: () => ({ principal: 'me', expiresAt }), onError });
    expect((await failure(peers.dial(url, { token: 'right' }))).message).toBe(
      'the server failed to check the credentials; its log says why',
    );
    expect(told).toEqual([
      `ProtocolError: authenticate returned an identity whose expiresAt is before 2001 (${expiresAt}): it is in Unix milliseconds, and a JWT has seconds`,
    ]);
  });

  it('learns what the two ends do not have in common', async () => {
    const { url } = await peers.serve({ encodings: ['CL100K_BASE'], algorithms: ['TOKEN_NATIVE', 'M2M'] });
    expect(await told(() => peers.dial(url, { algorithms: ['BROTLI'] }))).toBe(
      'rejected: no algorithm in common: the client offers BROTLI, the server has TOKEN_NATIVE, M2M',
    );
    const encodings = ['O200K_BASE'] as const;
    expect(await told(() => peers.dial(url, { algorithms: ['TOKEN_NATIVE'], encodings }))).toBe(
      'rejected: no vocabulary in common for TOKEN_NATIVE: the client offers O200K_BASE, the server has CL100K_BASE',
    );
  });
});

describe('calls', () => {
  const setUp = async () => {
    const { url } = await peers.serve({ limits: { maxMessageSize: 1000 }, onRequest: () => 'ok' });
    return await peers.dial(url);
  };

  it('with content that cannot be sent', async () => {
    const session = await setUp();
    const circular: { self?: object } = {};
    circular.self = circular;
    for (const [body, message] of [
      [undefined, /^invalid_argument: undefined has no JSON form; expected a string, bytes/],
      [() => 1, /^invalid_argument: a function has no JSON form/],
      [{ a: 1n }, /^invalid_argument: .*has a BigInt, refers to itself or throws/],
      [circular, /^invalid_argument: .*has a BigInt, refers to itself or throws/],
      ['\ud800', /^lone_surrogate: /],
      ['x'.repeat(1001), /^message_too_large: 1001 bytes are more than the 1000/],
    ] as const) {
      expect(await told(() => session.send(body as never))).toMatch(message);
      expect(await told(() => session.request(body as never))).toMatch(message);
    }
    expect((await session.request('x')).text).toBe('ok');
  });

  it.each<[string, object, RegExp]>([
    ['a typo', { timeout: 5 }, /^invalid_option: unknown option "timeout", did you mean "timeoutMs"\?/],
    ['a time that is none', { timeoutMs: 'x' }, /^invalid_option: timeoutMs: a number/],
    ['a time that is over', { timeoutMs: -5 }, /^invalid_option: timeoutMs: expected more than 0/],
    ['no time at all', { timeoutMs: Number.NaN }, /^invalid_option: timeoutMs: expected more than 0/],
    ['metadata that are none', { metadata: 'x' }, /^invalid_option: metadata: an object/],
    ['an algorithm of another kind', { algorithm: 5 }, /^invalid_option: algorithm: a string/],
    ['an unknown algorithm', { algorithm: 'ZIP' }, /^unsupported: ZIP was not negotiated/],
  ])('with %s', async (_what, options, message) => {
    const session = await setUp();
    expect(await told(() => session.request('x', options))).toMatch(message);
    expect(await told(() => session.stream('x', options))).toMatch(message);
  });

  it('with options of other calls, and for unknown events', async () => {
    const session = await setUp();
    expect(await told(() => session.send('x', { timeoutMs: 5 } as never))).toMatch(
      /unknown option "timeoutMs"/,
    );
    const tensor = {
      data: new Float32Array(4),
      shape: [4],
      dtype: 'float32',
      payloadType: 'hidden_state',
    } as const;
    expect(await told(() => session.sendTensor(tensor, { progress() {} } as never))).toMatch(
      /unknown option/,
    );
    expect(await told(() => session.on('close' as never, () => {}))).toMatch(
      /no event "close"; known events: state, reset, error, undelivered, throttled, unread\. Events of your own are those of a contract/,
    );
  });

  it('to agents of a server without authentication', async () => {
    const session = await setUp();
    for (const call of [() => session.request('x', { to: 'worker' }), () => session.agents()]) {
      expect(await told(call)).toMatch(
        /^unsupported: .*a server agrees to it only with the option "authenticate"$/,
      );
    }
  });

  it('without a time limit wait', async () => {
    const session = await setUp();
    expect((await session.request('x', { timeoutMs: Infinity })).text).toBe('ok');
  });

  it('after the session was closed', async () => {
    const session = await setUp();
    await session.close();
    for (const call of [() => session.send('x'), () => session.request('x'), () => session.stream('x')]) {
      expect(await told(call)).toBe('session_closed: the session is closed; nothing can be sent');
    }
  });
});

describe('an authenticate that never settles', () => {
  it('has ten seconds, and then both ends are told at once', async () => {
    await using kit = await createTestServer({
      onError: (error, { event, message }) => void said.push([event, message, String(error)]),
      authenticate: ({ token }) => (token === 'slow' ? new Promise(() => {}) : { principal: token ?? '' }),
    });
    const said: string[][] = [];
    let error: unknown;
    const refused = failure(kit.connect({ token: 'slow' })).then((reason) => {
      error = reason;
    });
    await kit.clock.advance(9_900);
    expect([error, said]).toEqual([undefined, []]);
    await kit.clock.advance(200);
    await refused;
    expect(error).toMatchObject({
      code: 'rejected',
      message: 'the server has not checked the credentials in time; its log says why',
    });
    expect(said).toEqual([
      [
        'auth.late',
        'authenticate has not settled, so the client was refused; give what it waits for a time limit',
        'ProtocolError: no answer within 10000 ms',
      ],
    ]);
    expect((await kit.connect({ token: 'quick' })).state).toBe('established');
  });
});

describe('a key at one end only', () => {
  const key = new Uint8Array(32).fill(1);
  const security = { mode: 'AEAD', key } as const;
  const other = { mode: 'AEAD', key: new Uint8Array(32).fill(2) } as const;
  const SERVER_ONLY =
    'this server has the option security, and a client seems to have none: nothing that it sends without the key is read';
  const CLIENT_ONLY =
    'a client offers M2M alone, as with the option security, and this server has none: nothing that it seals can be read';
  it.each([
    {
      name: 'the server, for text',
      at: [security, undefined],
      body: 'hello',
      client:
        'unrepresentable: M2M alone was agreed on, which carries this text only with a key: if the other end has the option `security`, give this end the same',
      server: [SERVER_ONLY],
    },
    {
      name: 'the server, for JSON',
      at: [security, undefined],
      body: { a: 1 },
      client:
        'protocol_violation: the connection closed with code 4400: security_required: the frame declares security NONE, AEAD is required',
      server: [SERVER_ONLY, 'a client has sent a body without the key of this server'],
    },
    {
      name: 'the client',
      at: [undefined, security],
      body: 'hello',
      client:
        'security_required: the frame is protected by AEAD; give its receiver the same key as `security`',
      server: [CLIENT_ONLY],
    },
    {
      name: 'each, and they differ',
      at: [security, other],
      body: 'hello',
      client:
        'protocol_violation: the connection closed with code 4400: authentication_failed: the data is not authentic under this key; do both ends have the same?',
      server: ['a client has another key than this server, or its body was changed'],
    },
  ])('is told at both ends: $name', async ({ at: [here, there], body, client, server }) => {
    const said: string[] = [];
    const { url } = await peers.serve({
      onRequest: ({ text }) => text,
      ...(here && { security: here }),
      onError: (_error, { event, message }) => void said.push(`${event} ${message}`),
    });
    const session = await peers.dial(url, there && { security: there });
    expect(await told(() => session.request(body))).toBe(client);
    expect(said).toEqual(server.map((message) => `security.differs ${message}`));
  });

  it('is told of no pair that fits', async () => {
    const said: string[] = [];
    const onError: ServerOptions['onError'] = (_error, { event }) => said.push(event);
    for (const same of [{}, { security }]) {
      const { url } = await peers.serve({ onRequest: () => 'ok', ...same, onError });
      expect((await (await peers.dial(url, same)).request('hello')).text).toBe('ok');
    }
    expect(said).toEqual([]);
  });
});

describe('a gateway', () => {
  it.each([undefined, {}])('without options names the one that it needs: %o', (options) => {
    expect(() => createOpenAIGateway(options as never)).toThrow(
      expect.objectContaining({
        code: 'invalid_option',
        message: 'baseUrl: expected a URL such as https://api.openai.com/v1',
      }),
    );
  });
});

describe('a contract at a server without it', () => {
  const contract = defineContract({
    sum: { input: z.array(z.number()), output: z.number() },
    count: { parts: z.number() },
    both: { parts: z.number(), output: z.number() },
  });
  const calls: Record<string, (session: Session) => Promise<unknown>> = {
    call: async (session) => await contractClient(contract, session).call.sum([1]),
    stream: async (session) => {
      for await (const _ of contractClient(contract, session).stream.count());
    },
    output: async (session) => await contractClient(contract, session).stream.both().output(),
  };

  it.each(
    Object.keys(calls).flatMap((call) => ['x', Uint8Array.of(0xff)].map((answer) => ({ call, answer }))),
  )(
    'is told at both ends, and once at the server: $call, answered with $answer',
    async ({ call, answer }) => {
      const said: string[] = [];
      const { url } = await peers.serve({
        onRequest: () => answer,
        onError: (_error, { event, message }) => void said.push(`${event}: ${message}`),
      });
      const session = await peers.dial(url);
      for (let i = 0; i < 2; i++)
        expect(await failure(calls[call]?.(session) as Promise<unknown>)).toMatchObject({
          name: 'ContractError',
          code: 'unknown_procedure',
          message: expect.stringMatching(/^\w+: the other end has no such procedure$/),
        });
      expect(said).toEqual([
        'contract.unserved: a request is one of a contract, and a handler without that contract has answered it',
      ]);
    },
  );

  it('is told for an output whose answer is JSON', async () => {
    const { url } = await peers.serve({ onRequest: () => 5 });
    const session = await peers.dial(url);
    expect(await failure(calls['output']?.(session) as Promise<unknown>)).toMatchObject({
      code: 'unknown_procedure',
    });
  });

  it('is told of no contract that is served, behind any function, and of no other request', async () => {
    const said: string[] = [];
    const handler = serve(contract, {
      sum: (numbers) => numbers.length,
      async *count() {
        yield 1;
      },
      async *both() {
        yield 1;
        return 2;
      },
    });
    const { url } = await peers.serve({
      onRequest: async (request, context) => {
        await new Promise((resolve) => setImmediate(resolve));
        return context.metadata['procedure'] === undefined ? 'plain' : handler(request, context);
      },
      onError: (_error, { event }) => void said.push(event),
    });
    const session = await peers.dial(url);
    for (const call of Object.values(calls)) await call(session);
    await session.request('x');
    expect(said).toEqual([]);
  });
});
