import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer as createHttpServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type ClientOptions, type ClientSession, connect, loadEncoding } from '@parlance/client';
import { type ChatSessionSource, SessionChatTransport, sessionChats } from '@parlance/client/ai';
import { events as clientEvents, contractClient, defineContract } from '@parlance/client/contract';
import { tap, watchSockets } from '@parlance/client/inspect';
import {
  agents,
  cluster,
  createServer,
  durable,
  groups,
  hooks,
  keptReplies,
  type ModelIdentity,
  memoryCluster,
  type Server,
  type ServerOptions,
  type Session,
  scan,
  tensors,
} from '@parlance/server';
import { type ChatSocketOptions, chatHandler, chatSocket } from '@parlance/server/ai';
import { events, serve } from '@parlance/server/contract';
import { createOpenAIGateway, type OpenAIGatewayOptions } from '@parlance/server/openai';
import { createUserInterface } from '@parlance/server/ui';
import type { UIMessage } from 'ai';
import WebSocket from 'ws';
import { eventContract } from '../kit/event-contract.js';

/** The places in which functions of an application are called: how to hand one in, and how to have it called. */

/** The function of the application, whatever its type is. */
// biome-ignore lint/suspicious/noExplicitAny: it stands for functions of all types
type Callback = any;

/** An object that is set up with a function. */
export interface Place {
  /** Has the function called. May reject, and need not settle. */
  provoke(): unknown;
  /** Something else that the function must not touch. Rejects if it was touched. */
  neighbour(): Promise<unknown>;
}

/** @param use closes something when the test is over. */
export type SetUp = (
  callback: Callback,
  use: <T extends AsyncDisposable>(resource: T) => T,
) => Promise<Place>;

const RECONNECT = { reconnect: false } as const;
const quiet = () => {};
const EMITTING = () => ({ modules: [clientEvents(eventContract)] });
const VICTIM = 'victim';

/** Only the victim's calls reach the function; others get the answer of an application without faults. */
const onlyFor =
  (callback: Callback, isVictim: (...given: Callback[]) => boolean, otherwise: Callback) =>
  (...given: Callback[]) =>
    isVictim(...given) ? callback(...given) : otherwise;

let others = 0;
const isOfVictim = (session: Session) => session.principal === VICTIM;

/** Answers of a server whose functions have no faults. */
const SOUND: ServerOptions = {
  onError: quiet,
  authenticate: ({ token = 'neighbour' }) => ({
    principal: token,
    ...(token === VICTIM && { agentId: 'a' }),
  }),
  onRequest: ({ text }) => `re: ${text}`,
  onSession: async (session) => {
    for await (const message of session) await session.send(message.text);
  },
};

async function listening(options: ServerOptions, use: Parameters<SetUp>[1], listen = {}) {
  const server: Server = use(createServer({ ...SOUND, ...options }));
  return { server, ...(await server.listen(listen)) };
}

type Provoke = (session: ClientSession, url: string) => unknown;

/** A server with options, a neighbour that stays, and a victim that comes each time. */
async function atServer(
  options: ServerOptions,
  use: Parameters<SetUp>[1],
  provoke: Provoke = (session) => session.request('hello'),
  client: ClientOptions | (() => ClientOptions) = {},
): Promise<Place> {
  const { url } = await listening(options, use);
  const dial = async (token: string, more: ClientOptions = {}) =>
    use(await connect(url, { WebSocket, ...RECONNECT, onError: quiet, token, ...more }));
  const neighbour = await dial('neighbour');
  return {
    provoke: async () => {
      const session = await dial(VICTIM, typeof client === 'function' ? client() : client);
      await soon(provoke(session, url));
    },
    neighbour: () => asks(neighbour),
  };
}

async function asks(session: ClientSession): Promise<void> {
  const { text } = await session.request('hello');
  if (text !== 're: hello') throw new Error(`the neighbour got "${text}"`);
}

/** Waits for what need not settle, as the function may hang. */
const soon = (value: unknown, ms = 60) =>
  Promise.race([Promise.resolve(value), new Promise((resolve) => setTimeout(resolve, ms))]);

/** A client with options beside a server without faults. */
const atClient = async (
  options: (callback: Callback) => ClientOptions,
  callback: Callback,
  use: Parameters<SetUp>[1],
  provoke: Provoke = (session) => session.request('hello'),
  server: ServerOptions = {},
): Promise<Place> => {
  const { url } = await listening(server, use);
  const neighbour = use(await connect(url, { WebSocket, onError: quiet }));
  return {
    provoke: async () => {
      const attempt = connect(url, {
        WebSocket,
        ...RECONNECT,
        token: VICTIM,
        onError: quiet,
        ...options(callback),
      });
      attempt.then(use, quiet);
      const session = (await soon(attempt, 2_000)) as ClientSession | undefined;
      if (session !== undefined) await soon(provoke(session, url));
    },
    neighbour: () => asks(neighbour),
  };
};

async function upstream(use: Parameters<SetUp>[1], status = 200): Promise<string> {
  const http = createHttpServer((_request, response) => {
    response.writeHead(status, { 'content-type': 'application/json' }).end('{}');
  });
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
  use({ [Symbol.asyncDispose]: async () => void http.close().closeAllConnections() });
  return `http://127.0.0.1:${(http.address() as AddressInfo).port}/v1`;
}

const gatewayWith =
  (
    options: (callback: Callback) => Partial<OpenAIGatewayOptions>,
    body = '{"model":"m","messages":[],"stream":true}',
  ): SetUp =>
  async (callback, use) => {
    const gateway = createOpenAIGateway({ baseUrl: await upstream(use), ...options(callback) });
    const onRequest: ServerOptions['onRequest'] = (request, context) =>
      isOfVictim(context.session) ? gateway(request, context) : `re: ${request.text}`;
    return await atServer({ onRequest }, use, (session) => session.request(body));
  };

const CHAT: UIMessage[] = [{ id: '1', role: 'user', parts: [{ type: 'text', text: 'hello' }] }];
const chat = (options: object) => async (source: ChatSessionSource) =>
  new SessionChatTransport(source, options as never).sendMessages({
    ...{
      trigger: 'submit-message',
      chatId: 'c',
      messageId: undefined,
      messages: CHAT,
      abortSignal: undefined,
    },
  });

const chatServer = (onRequest: ServerOptions['onRequest']): ServerOptions => ({
  onRequest: (request, context) =>
    isOfVictim(context.session) ? onRequest?.(request, context) : (`re: ${request.text}` as Callback),
});

/** A question over the WebSocket of the AI SDK. */
const chatSocketWith =
  (options: (callback: Callback) => Partial<ChatSocketOptions>): SetUp =>
  (callback, use) => {
    const onChat = () => new ReadableStream<never>({ start: (each) => each.close() });
    const feature = chatSocket({ path: '/chat', onChat, ...options(callback) });
    return atServer({ features: [feature] }, use, async (_session, url) => {
      const socket = new WebSocket(`${new URL('/chat', url)}?token=${VICTIM}`);
      use({ [Symbol.asyncDispose]: async () => socket.terminate() });
      await once(socket, 'open');
      const question = { type: 'send', requestId: '1', id: 'c', trigger: 'submit-message', messages: CHAT };
      socket.send(JSON.stringify({ ...question, headers: {}, body: {} }));
      await once(socket, 'message');
    });
  };

async function readAll(stream: ReadableStream<unknown>): Promise<void> {
  for await (const _ of stream);
}

const classOf = (callback: Callback): Callback =>
  class {
    constructor() {
      // biome-ignore lint/correctness/noConstructorReturn: as a function that is called with `new` does
      return callback();
    }
  };
const KEPT = class {
  readonly id = 'c';
};
const loggerOf = (callback: Callback) => ({
  debug: callback,
  info: callback,
  warn: callback,
  error: callback,
});
const fetches: Provoke = (session) => session.fetch('http://session/x');
const MODEL: ModelIdentity = {
  modelFamily: 'own',
  modelId: 'own/model',
  modelHash: 'a'.repeat(64),
  hiddenDim: 4096,
  numLayers: 32,
  numKvHeads: 8,
  headDim: 128,
  tokenizerHash: 'c'.repeat(64),
};
const OTHER_MODEL = {
  ...MODEL,
  modelFamily: 'other',
  modelHash: 'b'.repeat(64),
  tokenizerHash: 'd'.repeat(64),
};
/** Another model each time, because what two ends have agreed on is kept. */
const otherEnd = () => ({ avp: { identity: { ...OTHER_MODEL, modelId: `other/${++others}` } } });
const TENSOR = { data: new Int8Array(8), shape: [8], dtype: 'int8', payloadType: 'hidden_state' } as const;

/** A session with one answer that cannot be stopped. */
const UNSTOPPABLE = {
  // A source of a session is known by it.
  stream: quiet,
  replies: async () => [{ id: 'reply_1', name: 'chat:c', isOwn: true, state: 'running', parts: 1 }],
  follow: () => ({
    async *[Symbol.asyncIterator]() {},
    stop: () => Promise.reject(new Error('it cannot be stopped')),
    cancel: quiet,
  }),
};

async function* failingSource(): AsyncGenerator<Uint8Array> {
  yield new Uint8Array(1);
  throw new Error('the source has failed');
}

const fails = () => {
  throw new Error('a fault of the application');
};

const schemaOf = (validate: Callback) => ({ '~standard': { version: 1, vendor: 'own', validate } }) as const;

const store = (callback: Callback, faulty: string) => {
  const sound: Record<string, Callback> = { getItem: () => null, setItem: quiet, removeItem: quiet };
  // Only a session that comes back can be taken up.
  return { reconnect: true, store: { ...sound, [faulty]: callback } as Callback };
};

const watching = (name: string): SetUp => {
  const watcher = { onOpening: quiet, onOpen: quiet, onFrame: quiet, onClosed: quiet };
  return (callback, use) =>
    atClient(
      (each) => ({ WebSocket: watchSockets(WebSocket as Callback, { ...watcher, [name]: each }) }),
      callback,
      use,
      (session) => session.close(),
    );
};

const ENGINE = 'an engine or its client, which the tests of the engine break in all ways';
const IN_PAGES = 'runs in pages only, where an error ends nothing and reaches the state of the hook';

/** With each name that the types have, how the function is called, or why it is not one of an application. */
export const PLACES: Readonly<Record<string, SetUp | string>> = {
  'ServerOptions.authenticate': (callback, use) =>
    atServer(
      { authenticate: onlyFor(callback, ({ token }) => token === VICTIM, { principal: 'neighbour' }) },
      use,
    ),
  'ServerOptions.onSession': (callback, use) =>
    atServer({ onSession: onlyFor(callback, isOfVictim, undefined) }, use, (session) => session.closed),
  'ServerOptions.onRequest': (callback, use) =>
    atServer(
      {
        onRequest: Object.assign(
          ((request, context) =>
            isOfVictim(context.session)
              ? callback(request, context)
              : `re: ${request.text}`) satisfies ServerOptions['onRequest'],
          { prepare: callback },
        ),
      },
      use,
    ),
  'ServerOptions.onFetch': (callback, use) => atServer({ onFetch: callback }, use, fetches),
  'ServerOptions.onError': (callback, use) =>
    atServer(
      {
        onError: callback,
        onRequest: ({ text }, { session }) => (isOfVictim(session) ? fails() : `re: ${text}`),
      },
      use,
    ),
  'ServerOptions.logger': (callback, use) =>
    atServer(
      {
        logger: loggerOf(callback),
        onRequest: ({ text }, { session }) => (isOfVictim(session) ? fails() : `re: ${text}`),
      },
      use,
    ),
  'scan(check)': (callback, use) =>
    atServer(
      {
        features: [
          scan((message, context) =>
            isOfVictim(context.session) ? callback(message, context) : { safe: true },
          ),
        ],
      },
      use,
    ),
  'hooks(list)[]': (callback, use) =>
    atServer(
      {
        features: [
          hooks([(context, next) => (isOfVictim(context.session) ? callback(context, next) : next())]),
        ],
      },
      use,
      async (session) => {
        await session.send('hello');
        await session.request('hello');
      },
    ),
  'durable(policy)': (callback, use) =>
    atServer(
      {
        engine: memoryCluster(),
        features: [
          cluster({ secret: '0123456789abcdef0123456789abcdef' }),
          durable(onlyFor(callback, ({ principal }) => principal === VICTIM, false)),
        ],
      },
      use,
      undefined,
      // Only a session that comes back can be recorded.
      { reconnect: true },
    ),
  'AgentsOptions.authorize': (callback, use) =>
    atServer(
      {
        features: [agents({ authorize: callback })],
        authenticate: ({ token = 'neighbour' }) => ({ principal: token, agentId: token }),
      },
      use,
      (session) => session.request('x', { to: VICTIM }),
    ),
  'AgentsOptions.route': (callback, use) =>
    atServer({ features: [agents({ route: callback })] }, use, (session) =>
      session.request('x', { to: 'b' }),
    ),
  'GroupsOptions.authorize': async (callback, use) => {
    const listened: Awaited<ReturnType<typeof listening>> = await listening(
      {
        features: [groups({ authorize: onlyFor(callback, isOfVictim, true) })],
        onSession: async (session) => {
          listened.server.group('room').add(session);
          for await (const message of session) await session.send(message.text);
        },
      },
      use,
    );
    const dial = async (token: string) =>
      use(await connect(listened.url, { WebSocket, ...RECONNECT, onError: quiet, token }));
    const neighbour = await dial('neighbour');
    return {
      provoke: async () => {
        await soon((await dial(VICTIM)).request('hello'));
      },
      neighbour: () => asks(neighbour),
    };
  },
  'RepliesOptions.keep': (callback, use) =>
    atServer(
      {
        features: [
          keptReplies({
            keep: (request, context: Callback) => (isOfVictim(context.session) ? callback(request) : false),
          }),
        ],
      },
      use,
    ),
  'RepliesOptions.authorize': (callback, use) =>
    atServer(
      {
        features: [keptReplies({ authorize: callback })],
        onRequest: ({ text }, context) => {
          if (text === 'keep') context.keep({ name: 'kept', share: 'others' });
          return `re: ${text}`;
        },
      },
      use,
      // Each time another principal, because the answers of one are waited for one after the other.
      async (session, url) => {
        await session.request('keep');
        const token = `other ${++others}`;
        const other = await connect(url, { WebSocket, ...RECONNECT, token, onError: quiet });
        await soon(other.replies());
        void other.close().catch(quiet);
      },
    ),
  'ListenOptions.respond': async (callback, use) => {
    const { url, port } = await listening({}, use, { respond: callback });
    const neighbour = use(await connect(url, { WebSocket, onError: quiet }));
    return {
      provoke: () =>
        soon(fetch(`http://127.0.0.1:${port}/`, { signal: AbortSignal.timeout(200) }).catch(quiet)),
      neighbour: () => asks(neighbour),
    };
  },
  'ServerSession.on(listener)': (callback, use) =>
    atServer(
      {
        onSession: (session) => {
          if (isOfVictim(session)) for (const name of ['state', 'error'] as const) session.on(name, callback);
        },
      },
      use,
      (session) => session.close(),
    ),
  'ClientSession.on(listener)': (callback, use) =>
    atClient(
      () => ({}),
      callback,
      use,
      (session) => {
        for (const name of ['state', 'error'] as const) session.on(name, callback);
        return session.close();
      },
    ),
  'EventHandlers[key]': (callback, use) =>
    atServer(
      { features: [events(eventContract, { ping: callback })] },
      use,
      (session) => session.emit('ping'),
      EMITTING,
    ),
  'ServerSession.handle(handler)': (callback, use) =>
    atServer(
      {
        features: [events(eventContract)],
        onSession: (session) => {
          if (isOfVictim(session)) session.handle('ping', callback);
        },
      },
      use,
      (session) => session.emit('ping'),
      EMITTING,
    ),
  'ClientSession.handle(handler)': (callback, use) =>
    atClient(
      EMITTING,
      callback,
      use,
      (session) => {
        session.handle('ping', callback);
        return session.request('emit');
      },
      {
        features: [events(eventContract)],
        async onRequest({ text }, { session }) {
          if (text === 'emit') await session.emit('ping');
          return `re: ${text}`;
        },
      },
    ),
  'OpenAIGatewayOptions.apiKey': gatewayWith((apiKey) => ({ apiKey })),
  'OpenAIGatewayOptions.models': gatewayWith((models) => ({ models })),
  'OpenAIGatewayOptions.keep': gatewayWith((keep) => ({ keep })),
  'OpenAIGatewayOptions.fetch': gatewayWith((fetch) => ({ fetch })),
  'OpenAIGatewayOptions.onUsage': gatewayWith((onUsage) => ({ onUsage })),
  'OpenAIGatewayOptions.logger': gatewayWith((callback) => ({
    logger: loggerOf(callback),
    baseUrl: 'http://127.0.0.1:1/v1',
    maxRetries: 0,
  })),
  'chatHandler(answer)': (callback, use) =>
    atServer(chatServer(chatHandler(callback)), use, async (session) => readAll(await chat({})(session))),
  'ChatHandlerOptions.stream': (callback, use) => {
    const answer = () => ({ toUIMessageStream: () => new ReadableStream({ start: (each) => each.close() }) });
    const onRequest = chatHandler(answer as Callback, { stream: callback });
    return atServer(chatServer(onRequest), use, async (session) => readAll(await chat({})(session)));
  },
  'ChatHandlerOptions.otherwise': (callback, use) =>
    atServer(chatServer(chatHandler(fails, { otherwise: callback })), use),
  'ChatHandlerOptions.logger': (callback, use) =>
    atServer(chatServer(chatHandler(fails, { logger: loggerOf(callback) })), use, async (session) =>
      readAll(await chat({})(session)),
    ),
  'ChatSocketOptions.onChat': chatSocketWith((onChat) => ({ onChat })),
  'ChatSocketOptions.stream': chatSocketWith((stream) => ({
    onChat: () => ({ toUIMessageStream: () => new ReadableStream({ start: (each) => each.close() }) }),
    stream,
  })),
  'ChatSocketOptions.logger': chatSocketWith((callback) => ({ onChat: fails, logger: loggerOf(callback) })),
  'Handlers[key]': (callback, use) => {
    const contract = defineContract({ ask: { input: schemaOf((value: unknown) => ({ value })) } });
    return atServer(chatServer(serve(contract, { ask: callback } as Callback)), use, (session) =>
      (contractClient(contract, session).call as Callback).ask('x'),
    );
  },
  'ServeOptions.otherwise': (callback, use) =>
    atServer(chatServer(serve(defineContract({}), {}, { otherwise: callback })), use),
  'Schema.~standard.validate': (callback, use) => {
    const sound = defineContract({ ask: { input: schemaOf((value: unknown) => ({ value })) } });
    const faulty = defineContract({ ask: { input: schemaOf(callback) } });
    return atServer(chatServer(serve(faulty, { ask: quiet } as Callback)), use, (session) =>
      (contractClient(sound, session).call as Callback).ask('x'),
    );
  },
  'ClientOptions.WebSocket': (callback, use) =>
    atClient(
      () => ({
        WebSocket: classOf(callback),
      }),
      callback,
      use,
    ),
  'ClientOptions.logger': (callback, use) =>
    atClient(
      (each) => ({ logger: loggerOf(each), onRequest: fails }),
      callback,
      use,
      undefined,
      askingBack(),
    ),
  'ClientOptions.onError': (callback, use) =>
    atClient((onError) => ({ onError, onRequest: fails }), callback, use, undefined, askingBack()),
  'ClientOptions.onRequest': (callback, use) =>
    atClient((onRequest) => ({ onRequest }), callback, use, undefined, askingBack()),
  'ClientOptions.onFetch': (callback, use) =>
    atClient((onFetch) => ({ onFetch }), callback, use, undefined, {
      onSession: async (session) => void (await session.fetch('http://session/x').catch(quiet)),
    }),
  'ClientOptions.token': (callback, use) => atClient((token) => ({ token }), callback, use),
  'ClientOptions.traceparent': (callback, use) => atClient((traceparent) => ({ traceparent }), callback, use),
  'SessionStore.getItem': (callback, use) => atClient((each) => store(each, 'getItem'), callback, use),
  'SessionStore.setItem': (callback, use) => atClient((each) => store(each, 'setItem'), callback, use),
  'SessionStore.removeItem': (callback, use) =>
    atClient(
      (each) => store(each, 'removeItem'),
      callback,
      use,
      (session) => session.close(),
    ),
  'SessionChatTransport(session)': async (callback, use) => {
    const place = await atServer({}, use);
    return { ...place, provoke: () => soon(chat({})(callback)) };
  },
  'SessionChatTransportOptions.body': transportWith('body'),
  'SessionChatTransportOptions.headers': transportWith('headers'),
  'SessionChatTransportOptions.prepareSendMessagesRequest': transportWith('prepareSendMessagesRequest'),
  'SessionChatTransportOptions.logger': async (callback, use) => ({
    ...(await atServer({}, use)),
    provoke: async () => {
      const stopping = new AbortController();
      const transport = new SessionChatTransport(UNSTOPPABLE as Callback, { logger: loggerOf(callback) });
      await transport.reconnectToStream({ chatId: 'c', abortSignal: stopping.signal });
      stopping.abort();
    },
  }),
  'SessionChatsOptions.Chat': async (callback, use) => ({
    ...(await atServer({}, use)),
    provoke: async () =>
      sessionChats(new SessionChatTransport(UNSTOPPABLE as Callback), { Chat: classOf(callback) }).get('c'),
  }),
  'SessionChatsOptions.init': async (callback, use) => ({
    ...(await atServer({}, use)),
    provoke: async () =>
      sessionChats(new SessionChatTransport(UNSTOPPABLE as Callback), { Chat: KEPT, init: callback }).get(
        'c',
      ),
  }),
  'SendTensorOptions.fallback': (callback, use) =>
    atServer(
      { features: [tensors({ avp: { identity: MODEL } })] },
      use,
      (session) => session.sendTensor(TENSOR, { fallback: callback }),
      otherEnd,
    ),
  'AvpOptions.maps.has': (callback, use) =>
    atServer(
      { features: [tensors({ avp: { identity: MODEL, maps: { has: callback } } })] },
      use,
      undefined,
      otherEnd,
    ),
  'AvpOptions.tokens': (callback, use) =>
    atServer(
      { features: [tensors({ avp: { identity: MODEL, tokens: callback } })] },
      use,
      undefined,
      otherEnd,
    ),
  'SendTensorOptions.onProgress': tensorWith((onProgress) => ({ onProgress })),
  'SocketWatcher.onOpening': watching('onOpening'),
  'SocketWatcher.onOpen': watching('onOpen'),
  'SocketWatcher.onFrame': watching('onFrame'),
  'SocketWatcher.onClosed': watching('onClosed'),
  'tap(sink)': (callback, use) =>
    atClient((sink) => ({ WebSocket: tap(WebSocket as Callback, sink) }), callback, use),
  'RecorderOptions.selection': (callback, use) =>
    atClient(
      (selection) => ({ WebSocket: tap(WebSocket as Callback, quiet, { selection } as Callback) }),
      callback,
      use,
    ),
  'LoadOptions.onProgress': async (callback, use) => ({
    ...(await atServer({}, use)),
    // A source that fails, so that the next call loads again.
    provoke: () => loadEncoding('LLAMA_BPE', { onProgress: callback, source: failingSource() }),
  }),
  'UserInterfaceOptions.edit': async (callback, use) => ({
    ...(await atServer({}, use)),
    async provoke() {
      const folder = await mkdtemp(join(tmpdir(), 'parlance-pages-'));
      try {
        await writeFile(join(folder, 'index.html'), '<title>page</title>');
        createUserInterface({ folder, edit: callback });
      } finally {
        await rm(folder, { recursive: true });
      }
    },
  }),

  // Those of others, or none of an application.
  'Engine.connect': ENGINE,
  'Engine.connectLogs': ENGINE,
  'Engine.connectStore': ENGINE,
  'ReplyLogs.listen(onEnded)': ENGINE,
  'ReplyLogs.watch(onChanges)': ENGINE,
  'IoredisClient.call': ENGINE,
  'IoredisClient.callBuffer': ENGINE,
  'IoredisClient.duplicate': ENGINE,
  'NodeRedisClient.sendCommand': ENGINE,
  'NodeRedisClient.duplicate': ENGINE,
  'memoryCluster(now)': 'a clock for tests',
  'Session.on(listener)': 'as ServerSession.on and ClientSession.on',
  'Session.handle(handler)': 'as ServerSession.handle and ClientSession.handle',
  'tap(WebSocket)': 'as ClientOptions.WebSocket',
  'watchSockets(WebSocket)': 'as ClientOptions.WebSocket',
  'useMessages(onMessage)':
    'runs in pages only, where what it throws is reported as uncaught and ends nothing',
  'useSession(source)': IN_PAGES,
  'SessionOptions.onReset': IN_PAGES,
  'RoomCalls.join': IN_PAGES,
  'RoomCalls.leave': IN_PAGES,
  'ReadOptions.read': IN_PAGES,
};

/** Types whose objects we make, and whose members and methods are therefore ours; options that stand for others here. */
export const OURS: Readonly<Record<string, RegExp>> = {
  'objects of ours that are handed back': /^(Calling|Chat|Client|Server)?Session\.\w+$/,
  'what a handler or a reader gets':
    /^(RequestContext|Message|Readable|AssembledTensor|StreamedTensor)\.\w+$/,
  'what we hand to a socket': /^WebSocketLike\.\w+\(\w+\)$/,
  'as in ServerOptions': /^TestServerOptions\./,
  'as in ClientOptions': /^(TestServer\.connect\(options\)|ChatConnection|SessionOptions)\.(?!onReset$)/,
};

function askingBack(): ServerOptions {
  return { onSession: async (session) => void (await session.request('and you?').catch(quiet)) };
}

function transportWith(name: string): SetUp {
  return (callback, use) =>
    atServer(
      chatServer(chatHandler(() => new ReadableStream({ start: (each) => each.close() }))),
      use,
      async (session) => readAll(await chat({ [name]: callback })(session)),
    );
}

function tensorWith(options: (callback: Callback) => Callback): SetUp {
  return (callback, use) => atServer({}, use, (session) => session.sendTensor(TENSOR, options(callback)));
}
