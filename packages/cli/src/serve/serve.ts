import {
  decodeHttpRequest,
  isProtocolError,
  type Logger,
  type Message,
  type RequestContext,
  type Session,
} from '@parlance/protocol';
import { loggable, withResolvers } from '@parlance/protocol/internal';
import {
  type AdminOptions,
  admin,
  cluster,
  createServer,
  durable,
  keptReplies,
  type Server,
} from '@parlance/server';
import { addressOfPages, createUserInterface, type UserInterface } from '@parlance/server/ui';
import { ExitCode } from '../base/failure.js';
import { PAGES } from '../base/pages.js';
import { isEqual } from '../base/secret.js';
import type { Terminal } from '../base/terminal.js';
import { type EngineAddress, openEngine } from '../engine/engine-address.js';
import { type Addresses, bannerOf } from './banner.js';
import { type ClusterFlags, clusterOptions, namingFlags } from './cluster-options.js';
import { createLog, type LogLevel } from './log.js';
import { createResponder } from './responder.js';

export interface ServeOptions {
  readonly port: number;
  readonly host: string;
  readonly path: string;
  /** Whether clients may come over HTTP, too. */
  readonly http?: boolean | undefined;
  /** Base URL of an OpenAI-compatible API. */
  readonly upstream: string | undefined;
  /** Key that the upstream requires. */
  readonly apiKey: string | undefined;
  readonly origins: readonly string[];
  readonly hosts?: readonly string[] | undefined;
  readonly trustedProxies?: readonly string[] | undefined;
  readonly logLevel: LogLevel;
  /** Token that clients must present. @default clients on this machine need none */
  readonly token: string | undefined;
  /** Port for metrics, health and readiness. @default not served */
  readonly metricsPort: number | undefined;
  /** Whether browsers on this machine get the chat page and the inspector. */
  readonly ui: boolean;
  /** Whether the chat page keeps chats in the browsers of its users. */
  readonly history: boolean;
  readonly drainTimeoutMs: number;
  /** @default not served */
  readonly admin?: AdminOptions | undefined;
  /** @default the server is on its own */
  readonly cluster?: ClusterFlags | undefined;
  /**
   * The engine in which sessions and replies outlive the process; not together with `cluster`.
   *
   * @default they end with it
   */
  readonly engine?: (EngineAddress & { /** That says so. */ readonly flag: string }) | undefined;
}

/** `parlance serve`: runs a session server. Resolves once a signal, or an operator who drains it, has stopped it. */
export async function serve(options: ServeOptions, terminal: Terminal): Promise<ExitCode> {
  const { host, path, origins, hosts, trustedProxies, token, upstream, apiKey, drainTimeoutMs } = options;
  const logger = createLog(options.logLevel, terminal);
  const nodes = options.cluster && (await clusterOptions(options.cluster, host));
  const alone = options.engine && (await openEngine(options.engine, options.engine.flag));
  // The built-in responder is for trying things out, so its replies can be followed; without a token, by every
  // client that is admitted.
  const replies = keptReplies({
    keep: (_request, context) => keptAs(context, upstream === undefined),
    authorize: token === undefined ? () => true : undefined,
  });
  const { promise: drained, resolve: handleDrain } = withResolvers<string>();
  const onRequest = await createResponder({ upstream, apiKey, logger });
  const server = namingFlags(() =>
    createServer({
      path,
      origins,
      hosts,
      trustedProxies,
      transports: options.http === false ? ['websocket'] : undefined,
      logger,
      authenticate:
        token === undefined
          ? undefined
          : ({ token: given, agentId }) => (isEqual(given, token) ? { principal: 'token', agentId } : null),
      onRequest,
      onSession: (session) => echo(session),
      engine: alone ?? nodes?.engine,
      features: [
        replies,
        {
          name: 'exit',
          // An operator drains the server: a supervisor starts it again, once it has ended.
          install: () => ({ drain: { announce: () => handleDrain('a drain') } }),
        },
        ...(options.admin === undefined ? [] : [admin(options.admin)]),
        ...(nodes === undefined ? [] : [cluster(nodes.node)]),
        ...(alone === undefined ? [] : [durable()]),
      ],
    }),
  );
  const stopped = untilSignal();
  const addresses = await open(server, options, logger);
  // The token goes to the screen of a person, once, and to no log.
  if (terminal.isInteractive) terminal.write(bannerOf(addresses, terminal, options.admin?.token));
  else logger.info({ event: 'serve.ready', ...addresses }, `ready at ${addresses.url}`);
  const signal = await Promise.race([stopped, drained]);
  logger.info({ event: 'serve.stopping', signal }, `stopping after ${signal}`);
  await stopServing(server, drainTimeoutMs);
  return ExitCode.OK;
}

/** Opens the ports. If one cannot be opened, none of the others may keep the process alive. */
async function open(server: Server, options: ServeOptions, logger: Logger): Promise<Addresses> {
  const { port, host, metricsPort } = options;
  try {
    const respond = userInterface(options, logger);
    const listening = await server.listen({ port, host, respond });
    const metrics =
      metricsPort === undefined ? undefined : await server.listenMetrics({ port: metricsPort, host });
    const page = respond && addressOfPages(listening);
    return {
      url: listening.url,
      page,
      inspector: page && `${page}inspect`,
      metrics: metrics?.url,
      dashboard: server.admin?.url,
    };
  } catch (error) {
    await server.close();
    throw error;
  }
}

/** `undefined` if it is off, or if the sources run without a build. */
function userInterface(options: ServeOptions, logger: Logger): UserInterface | undefined {
  const { ui, hosts } = options;
  if (!ui) return undefined;
  try {
    return createUserInterface({ folder: PAGES, hosts, edit: (html) => marked(html, options) });
  } catch (error) {
    if (!isProtocolError(error)) throw error;
    logger.warn({ event: 'ui.missing', err: loggable(error) }, 'the chat page is not served');
    return undefined;
  }
}

/** Tells the chat page that it may try HTTP as well, and that it may keep nothing in the browser. */
function marked(html: string, { http, history }: ServeOptions): string {
  const marks = [...(http === false ? [] : ['data-http']), ...(history ? [] : ['data-history="off"'])];
  return html.replace('<html ', ['<html', ...marks, ''].join(' '));
}

/** Asks clients to reconnect elsewhere, waits for requests until the deadline, and closes what is left. */
async function stopServing(server: Server, timeoutMs: number): Promise<void> {
  await server.drain({ timeoutMs });
  await server.close();
}

/** The first SIGTERM or SIGINT stops the server in order, the second one exits at once. */
function untilSignal(): Promise<string> {
  return new Promise((resolve) => {
    let isStopping = false;
    for (const signal of ['SIGTERM', 'SIGINT'] as const) {
      process.on(signal, () => {
        if (isStopping) process.exit(ExitCode.FAILURE);
        isStopping = true;
        resolve(signal);
      });
    }
  });
}

/**
 * The chat page names each answer, so that it can continue it after it was loaded again. Only the built-in responder's
 * answers may be followed by others.
 */
function keptAs(
  { metadata }: Pick<RequestContext, 'metadata'>,
  share: boolean,
): false | { readonly name?: string; readonly share?: boolean } {
  const name = decodeHttpRequest(metadata)?.headers.get('x-parlance-reply-name');
  if (name === undefined && !share) return false;
  return { ...(share && { share }), ...(name !== undefined && { name }) };
}

/** Sends one-way messages back, including tensors. */
async function echo(session: Session): Promise<void> {
  for await (const message of session) {
    const { tensor } = message;
    if (tensor?.data === undefined) await session.send(contentOf(message));
    else {
      const { data, shape, dtype, payloadType } = tensor;
      await session.sendTensor({ data, shape, dtype, payloadType });
    }
  }
}

/** Text if the message is text, so that it is encoded as text. */
function contentOf(message: Message): string | Uint8Array {
  try {
    return message.text;
  } catch (error) {
    if (isProtocolError(error) && error.code === 'bad_utf8') return message.bytes;
    throw error;
  }
}
