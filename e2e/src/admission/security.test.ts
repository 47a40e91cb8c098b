import { type ClientOptions, type ClientSession, connect } from '@parlance/client';
import {
  type Algorithm,
  BodyCodec,
  type CodedBody,
  encodeM2MBody,
  type M2MSecurity,
  type Message,
  type ProtocolError,
  type RequestHandler,
  type Session,
  type SessionCore,
  Subprotocol,
} from '@parlance/protocol';
import { type Endpoint, hostOf, type UserSession } from '@parlance/protocol/internal';
import { createServer, type ServerOptions } from '@parlance/server';
import { afterEach, describe, expect, it } from 'vitest';
import WebSocket from 'ws';
import type { ReconnectingSession } from '../../../packages/client/src/reconnect/reconnecting-session.js';

/** With `security`, both ends send and accept only protected M2M bodies. */

const open: AsyncDisposable[] = [];
afterEach(async () => {
  for (const each of open.splice(0).reverse()) await each[Symbol.asyncDispose]();
});

const KEY = new Uint8Array(32).fill(7);
const MODES = ['HMAC', 'AEAD'] as const;
const protection = (mode: M2MSecurity['mode'], key = KEY): M2MSecurity => ({ mode, key });
const CHAT = '{"model":"gpt-4o","messages":[{"role":"user","content":"hello"}]}';
const text = (content: string) => new TextEncoder().encode(content);

async function serve(options: ServerOptions): Promise<string> {
  const server = createServer(options);
  open.push(server);
  return (await server.listen()).url;
}

async function dial(url: string, options: ClientOptions = {}): Promise<ClientSession> {
  const session = await connect(url, { WebSocket, ...options });
  open.push(session);
  return session;
}

/** The error that ends a session. */
function end(session: Session): Promise<ProtocolError> {
  return new Promise((resolve) => session.on('error', resolve));
}

/** Sends what no session would send by itself. */
function say<Result>(session: Session, command: (core: SessionCore) => Result): Result {
  const host = hostOf(session as UserSession) as unknown as Endpoint | ReconnectingSession;
  const endpoint = 'current' in host ? host.current : host;
  const result = command(endpoint.core);
  endpoint.pump();
  return result;
}

const body = (codec: BodyCodec, bytes: Uint8Array, metadata?: Uint8Array): CodedBody => ({
  codec,
  bytes,
  originalLength: bytes.length,
  secret: false,
  metadata,
});
/** `{}` */
const NO_METADATA = Uint8Array.of(0x80);
const rewritten = (frame: Uint8Array, mode: number) => {
  frame[3] = mode;
  return frame;
};

/** Bodies that a peer without the key might send, and the codes of their refusals. */
const UNPROTECTED: readonly (readonly [string, CodedBody, string])[] = [
  ['plain', body(BodyCodec.PLAIN, text(CHAT)), 'security_required'],
  ['empty', body(BodyCodec.PLAIN, text('')), 'security_required'],
  ['of metadata alone', body(BodyCodec.PLAIN, text(''), NO_METADATA), 'security_required'],
  ['of tokens', body(BodyCodec.TOKEN_NATIVE, Uint8Array.of(1)), 'security_required'],
  ['in Brotli', body(BodyCodec.BROTLI, text('x')), 'security_required'],
  ['in T1', body(BodyCodec.TOKEN, text('{}')), 'security_required'],
  ['of the dictionary', body(BodyCodec.DICTIONARY, text('{}')), 'security_required'],
  ['in M2M without protection', body(BodyCodec.M2M, encodeM2MBody(CHAT)), 'security_required'],
  [
    'in M2M with weaker protection',
    body(BodyCodec.M2M, encodeM2MBody(CHAT, { security: protection('HMAC') })),
    'security_required',
  ],
  [
    'in M2M that only states protection',
    body(BodyCodec.M2M, rewritten(encodeM2MBody(CHAT), 2)),
    'authentication_failed',
  ],
  [
    'in M2M under another key',
    body(BodyCodec.M2M, encodeM2MBody(CHAT, { security: protection('AEAD', new Uint8Array(32)) })),
    'authentication_failed',
  ],
  ['in M2M and cut off', body(BodyCodec.M2M, text('')), 'truncated'],
];
const ON_LINK: typeof UNPROTECTED = [
  ...UNPROTECTED,
  ['in context', body(BodyCodec.CONTEXT, Uint8Array.of(0, 0)), 'security_required'],
];
/** Without a link there are no metadata, and without an encoding this end has no form for tokens. */
const TEXT_FORMS = UNPROTECTED.filter(([what]) => what !== 'of metadata alone' && what !== 'of tokens');

describe('the agreement', () => {
  it.each(MODES)('with %s at both ends is M2M alone, without context, tokens and models', async (mode) => {
    const security = protection(mode);
    const url = await serve({ security });
    const { negotiated } = await dial(url, { security });
    expect(negotiated.algorithms).toEqual(['M2M']);
    expect(negotiated.encoding).toBeNull();
    expect(Object.keys(negotiated.extensions).sort()).toEqual(['link', 'replies', 'resume', 'std']);
  });

  it.each<Algorithm>(['BROTLI', 'TOKEN_NATIVE', 'TOKEN', 'DICTIONARY', 'NONE'])(
    'with a client that only has %s fails, with a reason',
    async (algorithm) => {
      const url = await serve({ security: protection('AEAD') });
      const failure = await dial(url, { algorithms: [algorithm] }).catch((error: ProtocolError) => error);
      expect(failure).toMatchObject({ code: 'rejected', closeCode: 4400 });
      expect(failure).toMatchObject({ reject: { code: 'NO_COMMON_ALGORITHM' } });
      expect((failure as ProtocolError).message).toMatch(/security.*M2M/);
    },
  );

  it('with options that leave M2M out fails before anything is sent', async () => {
    const options = { security: protection('AEAD'), algorithms: ['BROTLI', 'NONE'] as const };
    await expect(connect('ws://127.0.0.1:1', { WebSocket, ...options })).rejects.toMatchObject({
      code: 'invalid_option',
    });
    expect(() => createServer(options)).toThrow(/M2M/);
  });
});

describe('content for which both ends have the key', () => {
  const answer: RequestHandler = async function* (request, context) {
    context.setMetadata({ told: true });
    yield '';
    yield request.text;
    yield { bytes: request.bytes };
    yield { json: { metadata: context.metadata, header: request.header?.security } };
  };

  it.each([
    ['AEAD', {}],
    ['HMAC', {}],
    ['AEAD', { extensions: { link: false } }],
    ['HMAC', { subprotocol: Subprotocol.JSON }],
  ] as const)('passes with %s and %j, of any kind', async (mode, options) => {
    const security = protection(mode);
    const url = await serve({
      security,
      onSession: async (session) => {
        for await (const message of session) await session.send(message.text);
      },
    });
    const session = await dial(url, { ...options, security });
    const reader = session[Symbol.asyncIterator]();
    for (const content of ['', 'a', CHAT, '{"a":1}', 'word '.repeat(50_000)]) {
      await session.send(content);
      const { value } = (await reader.next()) as { value: Message };
      expect(value.text).toBe(content);
      expect(value.algorithm).toBe('M2M');
    }
  });

  it.each(MODES)('is answered in parts with %s, with metadata and with metadata alone', async (mode) => {
    const security = protection(mode);
    const url = await serve({ security, onRequest: answer });
    const session = await dial(url, { security });
    const stream = session.stream(CHAT, { metadata: { asked: 1 } });
    const parts: Message[] = [];
    for await (const part of stream) parts.push(part);
    expect(parts.map((part) => part.text)).toEqual([
      '',
      CHAT,
      CHAT,
      JSON.stringify({ metadata: { asked: 1 }, header: mode }),
    ]);
    expect(parts.every((part) => part.algorithm === 'M2M')).toBe(true);
    expect(stream.metadata).toEqual({ told: true });
    expect((await session.request('', { metadata: { asked: 2 } })).text).toContain('"asked":2');
  });

  it('may be empty in a reply', async () => {
    const security = protection('AEAD');
    const url = await serve({ security, onRequest: () => undefined });
    expect((await (await dial(url, { security })).request('x')).text).toBe('');
  });

  it('is neither a tensor nor token IDs', async () => {
    const security = protection('AEAD');
    const failures: unknown[] = [];
    const url = await serve({
      security,
      onRequest: () => ({ tokens: [1] }),
      onSession: (session) =>
        session
          .sendTensor({
            data: new Float32Array(4),
            shape: [4],
            dtype: 'float32',
            payloadType: 'hidden_state',
          })
          .catch((error) => void failures.push(error)),
    });
    const session = await dial(url, { security });
    await expect(
      session.sendTensor({
        data: new Float32Array(4),
        shape: [4],
        dtype: 'float32',
        payloadType: 'hidden_state',
      }),
    ).rejects.toMatchObject({
      code: 'unsupported',
    });
    await expect(session.request('x')).rejects.toMatchObject({ code: 'unsupported' });
    await expect.poll(() => failures).toMatchObject([{ code: 'unsupported' }]);
    expect(session.state).toBe('established');
  });

  it('passes from agent to agent, and back', async () => {
    const security = protection('AEAD');
    const url = await serve({
      security,
      authenticate: ({ agentId }) => ({ principal: 'acme', agentId }),
    });
    await dial(url, { security, agentId: 'b', onRequest: answer });
    const a = await dial(url, { security, agentId: 'a' });
    expect((await a.agents()).list.map(({ id }) => id)).toContain('b');
    expect((await a.request(CHAT, { to: 'b' })).text).toContain(CHAT);
    const undelivered = new Promise((resolve) => a.on('undelivered', resolve));
    await a.send('x', { to: 'not-there' });
    expect(await undelivered).toMatchObject({ to: 'not-there' });
  });
});

describe('a server refuses from a client without the key', () => {
  const setUp = async (client: ClientOptions = {}) => {
    const ran: string[] = [];
    const ended: (ProtocolError | undefined)[] = [];
    const url = await serve({
      security: protection('AEAD'),
      onRequest: (request) => {
        ran.push('request');
        return request.text;
      },
      onSession: async (session) => {
        session.on('error', (error) => ended.push(error));
        try {
          for await (const _message of session) ran.push('message');
        } catch {
          // The session reports the error in an event.
        }
      },
    });
    return { session: await dial(url, { algorithms: ['M2M', 'BROTLI', 'NONE'], ...client }), ran, ended };
  };

  const refuse = async (
    { session, ran, ended }: Awaited<ReturnType<typeof setUp>>,
    code: string,
    command: (core: SessionCore) => unknown,
  ) => {
    const ending = end(session);
    say(session, command);
    expect(await ending).toMatchObject({ closeCode: 4400, side: 'remote' });
    await expect.poll(() => ended).toMatchObject([{ code, closeCode: 4400 }]);
    expect(ran).toEqual([]);
    expect(session.stats().received.messages).toBe(0);
  };

  it.each(ON_LINK)('a request %s', async (_what, coded, code) => {
    await refuse(await setUp(), code, (core) => core.channel.request(coded));
  });

  it.each(ON_LINK)('a message %s', async (_what, coded, code) => {
    await refuse(await setUp(), code, (core) => core.channel.send(coded));
  });

  it.each(TEXT_FORMS)('a bare message %s', async (_what, coded, code) => {
    await refuse(await setUp({ extensions: { link: false } }), code, (core) => core.channel.send(coded));
  });

  it.each(TEXT_FORMS)('a message in JSON %s', async (_what, coded, code) => {
    await refuse(await setUp({ subprotocol: Subprotocol.JSON }), code, (core) => core.channel.send(coded));
  });

  it('a tensor', async () => {
    const setup = await setUp();
    const transfer = { payloadSize: 4, totalLength: 100, first: text('AV') };
    await refuse(setup, 'security_required', (core) => core.channel.transfer(transfer));
  });

  it('a body of several frames, at the first of them', async () => {
    const large = body(BodyCodec.PLAIN, new Uint8Array(1024 * 1024));
    await refuse(await setUp(), 'security_required', (core) => core.channel.request(large));
  });
});

describe('a client refuses from a server without the key', () => {
  const setUp = async (command: (core: SessionCore, streamId: number) => unknown) => {
    const url = await serve({
      // The answer bypasses the handler, which never returns one.
      onRequest: async (_request, { session }) => {
        say(session, (core) => command(core, 1));
        return await new Promise<never>(() => {});
      },
    });
    const session = await dial(url, { security: protection('AEAD') });
    const ending = end(session);
    return { session, ending };
  };

  const ways: readonly [string, (coded: CodedBody) => (core: SessionCore, streamId: number) => unknown][] = [
    ['response', (coded) => (core, streamId) => core.channel.respond(streamId, coded)],
    ['part', (coded) => (core, streamId) => core.channel.chunk(streamId, coded)],
    ['message', (coded) => (core) => core.channel.send(coded)],
    ['request', (coded) => (core) => core.channel.request(coded)],
  ];

  describe.each(ways)('a %s', (_way, command) => {
    it.each(ON_LINK)('%s', async (_what, coded, code) => {
      const { session, ending } = await setUp(command(coded));
      const reply = session.request(CHAT).catch((error: unknown) => error);
      expect(await ending).toMatchObject({ code, closeCode: 4400 });
      expect(await reply).toMatchObject({ code });
    });
  });

  it('and sends nothing unprotected itself', async () => {
    const said: Message[] = [];
    const url = await serve({
      onRequest: (request) => {
        said.push(request);
        return { json: JSON.parse(CHAT) };
      },
    });
    const session = await dial(url, { security: protection('HMAC') });
    const ending = end(session);
    await expect(session.request(CHAT)).rejects.toMatchObject({ code: 'security_required' });
    expect(await ending).toMatchObject({ code: 'security_required' });
    expect(said.map((message) => message.header?.security)).toEqual(['HMAC']);
  });
});
