import { Agent, globalAgent } from 'node:http';
import { globalAgent as globalTlsAgent, Agent as TlsAgent } from 'node:https';
import { isIP, type Socket } from 'node:net';
import { setImmediate } from 'node:timers';

/** Milliseconds that a connection is kept for the next request. Servers that close them wait for 5 s and more. */
const KEEP_ALIVE_MS = 4_000;
/** The same for one that has had no request: servers wait for 20 s and more. */
const SPARE_MS = 15_000;
/** Milliseconds between two attempts to open a connection that no request waits for. */
const PAUSE_MS = 1_000;

/** The connections to one upstream. */
export interface Connections {
  readonly agent: Agent;
  /** Opens a connection for the next request if none is open. At most one waits so, and not for long. */
  prepare(): void;
  /** Closes kept connections that the upstream has closed, which Node may not have read yet. `undefined` if none is kept. */
  settle(): Promise<void> | undefined;
}

/** The proxies that Node's own clients use in this process; `undefined` if they use none. */
function proxiesOfNode(isSecure: boolean): NodeJS.ProcessEnv | undefined {
  const { options } = (isSecure ? globalTlsAgent : globalAgent) as Agent & { readonly options: ProxyOptions };
  return options.proxyEnv;
}

/** As Node 22.21 and 24.5 have it. */
interface ProxyOptions {
  readonly proxyEnv?: NodeJS.ProcessEnv | undefined;
}

/**
 * Advice for an upstream that cannot be reached, if the environment names a proxy that is not used; `undefined` if it
 * names none.
 */
export function unusedProxy({ protocol }: URL, env: NodeJS.ProcessEnv = process.env): string | undefined {
  const isSecure = protocol === 'https:';
  const name = isSecure ? 'HTTPS_PROXY' : 'HTTP_PROXY';
  if ((env[name] ?? env[name.toLowerCase()] ?? '') === '' || proxiesOfNode(isSecure) !== undefined)
    return undefined;
  return `${name} is set and not used: set NODE_USE_ENV_PROXY=1 as well, with Node 22.21, 24.5 or newer`;
}

/** Connections are kept open between requests. @param now milliseconds */
export function createConnections(
  { protocol, hostname, port }: URL,
  now: () => number = () => performance.now(),
): Connections {
  const isSecure = protocol === 'https:';
  const host = hostname.replace(/^\[|\]$/g, '');
  const proxyEnv = proxiesOfNode(isSecure);
  const kept = { keepAlive: true, timeout: KEEP_ALIVE_MS, ...(proxyEnv && { proxyEnv }) };
  const agent = isSecure ? new TlsAgent(kept) : new Agent(kept);
  const connect = agent.createConnection.bind(agent);
  const target = {
    ...(agent as Agent & { readonly options: object }).options,
    host,
    port: port === '' ? (isSecure ? 443 : 80) : Number(port),
    // The name of a certificate is never an address.
    ...(isSecure && isIP(host) === 0 && { servername: host }),
  };
  let spare: Spare | undefined;
  let preparedAt = Number.NEGATIVE_INFINITY;
  agent.createConnection = (options, onCreated) => spare?.take() ?? connect(options, onCreated);
  return {
    agent,
    settle() {
      return Object.keys(agent.freeSockets).length === 0 && spare?.isOpen !== true
        ? undefined
        : settled(agent);
    },
    prepare() {
      // The agent connects to a proxy by itself.
      if (proxyEnv !== undefined) return;
      const isOpen = spare?.isOpen === true || Object.keys(agent.freeSockets).length > 0;
      if (isOpen || now() - preparedAt < PAUSE_MS) return;
      preparedAt = now();
      spare = new Spare(connect(target) as Socket);
    },
  };
}

async function settled(agent: Agent): Promise<void> {
  // Node reads what has arrived between two ticks of the event loop.
  await new Promise((resolve) => setImmediate(resolve));
  for (const socket of Object.values(agent.freeSockets).flat()) {
    if (socket?.readableEnded === true || socket?.writable === false) socket.destroy();
  }
}

/** A connection without a request so far. It keeps no process alive, and its failure is not reported. */
class Spare {
  #socket: Socket | undefined;

  constructor(socket: Socket) {
    this.#socket = socket;
    socket.unref();
    socket.on('error', ignore);
    socket.setTimeout(SPARE_MS, this.#close);
  }

  readonly #close = (): void => {
    this.#socket?.destroy();
    this.#socket = undefined;
  };

  get isOpen(): boolean {
    return this.#socket !== undefined && !this.#socket.destroyed && this.#socket.writable;
  }

  /** `undefined` if it was taken before, or the upstream has closed it or sent something. */
  take(): Socket | undefined {
    const socket = this.#socket;
    if (socket === undefined) return undefined;
    const isUsable = this.isOpen && socket.readableLength === 0;
    if (!isUsable) socket.destroy();
    this.#socket = undefined;
    if (!isUsable) return undefined;
    socket.setTimeout(0, this.#close);
    socket.off('error', ignore);
    socket.ref();
    return socket;
  }
}

function ignore(): void {}
