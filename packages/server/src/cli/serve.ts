import { createHash, timingSafeEqual } from 'node:crypto';
import { isProtocolError, type Message, type Session } from '@parlance/protocol';
import { createServer, type Identity, type Server } from '../index.js';
import { ExitCode } from './failure.js';
import { createLog, type LogLevel } from './log.js';
import { createResponder } from './responder.js';
import type { Terminal } from './terminal.js';

/** `parlance serve`: a session server that runs until it is told to stop. */

export interface ServeOptions {
  readonly port: number;
  readonly host: string;
  readonly path: string;
  /** Base URL of an OpenAI-compatible API. */
  readonly upstream: string | undefined;
  /** What that API wants to be shown. */
  readonly apiKey: string | undefined;
  readonly origins: readonly string[];
  readonly logLevel: LogLevel;
  /** What clients have to present. */
  readonly token: string | undefined;
  /** Health, readiness and metrics get a port of their own. @default they are not served */
  readonly metricsPort: number | undefined;
  readonly drainTimeoutMs: number;
}

/** Resolves when the server has been stopped by a signal. */
export async function serve(options: ServeOptions, terminal: Terminal): Promise<ExitCode> {
  const { port, host, path, origins, token, upstream, apiKey, metricsPort, drainTimeoutMs } = options;
  const logger = createLog(options.logLevel, terminal);
  const server = createServer({
    path,
    origins,
    logger,
    authenticate: token === undefined ? undefined : (credentials) => admit(credentials, token),
    onRequest: await createResponder({ upstream, apiKey, logger }),
    onSession: (session) => echo(session),
  });
  const stopped = whenToldToStop();
  const { url } = await server.listen({ port, host });
  try {
    if (metricsPort !== undefined) await server.listenMetrics({ port: metricsPort, host });
  } catch (error) {
    // What listens already would keep the process alive.
    await server.close();
    throw error;
  }
  logger.info({ event: 'serve.ready', url }, `clients connect to ${url}`);
  const signal = await stopped;
  logger.info({ event: 'serve.stopping', signal }, `stopping after ${signal}`);
  await stopServing(server, drainTimeoutMs);
  return ExitCode.OK;
}

/** Sends sessions away, lets what they are doing finish until the deadline, and closes the rest. */
async function stopServing(server: Server, timeoutMs: number): Promise<void> {
  await server.drain({ timeoutMs });
  await server.close();
}

/** The first SIGTERM or SIGINT asks, the second insists. */
function whenToldToStop(): Promise<string> {
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

function admit(
  { token, agentId }: { token: string | undefined; agentId: string | undefined },
  expected: string,
): Identity | null {
  return token !== undefined && timingSafeEqual(digest(token), digest(expected))
    ? { principal: 'token', agentId }
    : null;
}

/** Of equal length whatever was presented. */
function digest(token: string): Buffer {
  return createHash('sha256').update(token).digest();
}

/** One-way messages come back as they are, tensors too. */
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

/** Text where it is some, so that it is coded as such. */
function contentOf(message: Message): string | Uint8Array {
  try {
    return message.text;
  } catch (error) {
    if (isProtocolError(error) && error.code === 'bad_utf8') return message.bytes;
    throw error;
  }
}
