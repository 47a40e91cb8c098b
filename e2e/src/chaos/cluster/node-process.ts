import { appendFileSync } from 'node:fs';
import { cluster, type Server, type ServerOptions } from '@parlance/server';
import { offer } from '../../../../scripts/child-process.js';
import type { EngineAddress } from '../../kit/engine-address.js';
import { UNLIMITED } from '../../kit/unlimited.js';

/** The common code of nodes that are processes of their own. SIGTERM drains them. */

export interface NodeSetup {
  readonly engine: EngineAddress;
  /** How it knows others. @default it is a node of no cluster */
  readonly peers: Peers | undefined;
  readonly drainMs: number;
  readonly returnWithinMs: number;
  /** A file to which the log is appended. */
  readonly log: string | undefined;
}

interface Peers {
  readonly secret: string;
  /** Where it listens, and where others find that. @default a port of its own choice */
  readonly address: { readonly port: number; readonly advertise: string } | undefined;
}

/** A failure of an engine in the memory of a node. */
export interface EngineBlow {
  readonly kind: 'slow' | 'silence' | 'fill';
  readonly ms: number;
}

type ServedNode = Pick<Server, 'listen' | 'close'> & { readonly sessions: { keys(): Iterable<string> } };

export type LogFields = Readonly<Record<string, unknown>>;

export class NodeProcess<Setup extends NodeSetup> {
  readonly setup: Setup = JSON.parse(process.argv[2] as string);
  readonly #events: Record<string, number> = {};
  #incarnation = '';

  /** @param onLogged sees each line of the log. */
  options(onLogged: (fields: LogFields) => void = () => {}) {
    const { peers } = this.setup;
    const log = (fields: LogFields) => {
      this.#log(fields);
      onLogged(fields);
    };
    return {
      features: peers === undefined ? [] : [cluster(optionsOf(peers))],
      logger: { debug: log, info: log, warn: log, error: log },
      limits: UNLIMITED,
      timers: { pingIntervalMs: 10_000, pongTimeoutMs: 5_000, resumeWindowMs: 40_000 },
      authenticate: ({ token }) => (token === undefined ? null : { principal: token }),
    } satisfies ServerOptions;
  }

  /**
   * @param drain what SIGTERM does before the server is closed.
   * @param more `create`s another server of this process, and lets an engine in its memory `fail`.
   */
  async serve<Served extends ServedNode>(
    server: Served,
    drain: (server: Served) => Promise<void>,
    {
      create,
      fail,
    }: { readonly create?: () => Served; readonly fail?: (blow: EngineBlow) => Promise<void> } = {},
  ) {
    const servers = [server];
    process.once('SIGTERM', async () => {
      await drain(server);
      await server.close();
      process.exit();
    });
    const { port } = await server.listen();
    const commands = {
      port: () => port,
      async add() {
        if (create === undefined) throw new Error('this process has one server');
        const next = create();
        const at = servers.push(next) - 1;
        return { at, port: (await next.listen()).port };
      },
      fail: async (blow: EngineBlow) => await fail?.(blow),
      async leave(at: number) {
        const leaving = servers[at] as Served;
        await drain(leaving);
        await leaving.close();
      },
      incarnation: () => this.#incarnation,
      sessions: () => [...server.sessions.keys()],
      events: () => this.#events,
      /** Milliseconds of processor time that this process has used. */
      cpuMs(): number {
        const { user, system } = process.cpuUsage();
        return (user + system) / 1_000;
      },
    };
    offer(commands);
    return commands;
  }

  #log(fields: LogFields): void {
    const event = String(fields['event']);
    this.#events[event] = (this.#events[event] ?? 0) + 1;
    if (event === 'node.member') this.#incarnation = String(fields['node']);
    const { log } = this.setup;
    if (log === undefined) return;
    const line = { time: new Date().toISOString(), at: this.#incarnation, ...fields };
    appendFileSync(log, `${JSON.stringify(line)}\n`);
  }
}

const optionsOf = ({ secret, address }: Peers) =>
  address === undefined
    ? { secret }
    : { secret, listen: { port: address.port }, advertise: address.advertise };

export type NodeCommands = Awaited<ReturnType<NodeProcess<NodeSetup>['serve']>>;
