import type { ClientSession, connect } from '@parlance/client';
import type { Server, ServerOptions, ServerSession } from '@parlance/server';
import { type CuttingProxy, createCuttingProxy } from './cutting-proxy.js';
import type { Peers } from './peers.js';

/** A server and a client that comes back at once, with a proxy between them that cuts the connection. */
export interface CutSession {
  readonly server: Server;
  readonly proxy: CuttingProxy;
  readonly session: ClientSession;
  /** The session as the server has it. */
  readonly served: ServerSession;
  /** All states of the client since it connected. */
  readonly states: readonly string[];
}

export async function cutSession(
  peers: Peers,
  options: ServerOptions = {},
  client: Parameters<typeof connect>[1] = {},
): Promise<CutSession> {
  const { server, port } = await peers.serve(options);
  const proxy = peers.use(await createCuttingProxy(port));
  const url = `ws://127.0.0.1:${proxy.port}/session`;
  const reconnect = { minDelayMs: 5, maxDelayMs: 50 };
  const session = await peers.dial(url, { reconnect, ...client });
  const states: string[] = [];
  session.on('state', (state) => states.push(state));
  const [served] = server.sessions.values();
  return { server, proxy, session, served: served as ServerSession, states };
}
