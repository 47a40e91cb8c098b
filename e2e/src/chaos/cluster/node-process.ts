import { appendFileSync } from 'node:fs';
import { nodes, type Server, type ServerOptions } from '@parlance/server';
import { offer } from '../../../../scripts/child-process.js';
import { UNLIMITED } from '../../helpers/unlimited.js';

/** What all nodes have in common that are processes of their own. SIGTERM drains them. */

export interface NodeSetup {
  /** Of Redis. */
  readonly redis: string;
  readonly peerPort: number;
  /** Where other nodes find the peer port. */
  readonly advertise: string;
  readonly secret: string;
  readonly drainMs: number;
  readonly returnWithinMs: number;
  /** A file to which the log is appended. */
  readonly log: string | undefined;
}

type ServedNode = Pick<Server, 'listen' | 'close'> & { readonly sessions: { keys(): Iterable<string> } };

export type LogFields = Readonly<Record<string, unknown>>;

export class NodeProcess<Setup extends NodeSetup> {
  readonly setup: Setup = JSON.parse(process.argv[2] as string);
  readonly #events: Record<string, number> = {};
  #incarnation = '';

  /** @param onLogged sees each line of the log. */
  options(onLogged: (fields: LogFields) => void = () => {}) {
    const { peerPort, advertise, secret } = this.setup;
    const log = (fields: LogFields) => {
      this.#log(fields);
      onLogged(fields);
    };
    return {
      features: [nodes({ listen: { port: peerPort }, advertise, secret })],
      logger: { debug: log, info: log, warn: log, error: log },
      limits: UNLIMITED,
      timers: { pingIntervalMs: 10_000, pongTimeoutMs: 5_000, resumeWindowMs: 40_000 },
      authenticate: ({ token }) => (token === undefined ? null : { principal: token }),
    } satisfies ServerOptions;
  }

  /** @param drain what SIGTERM does before the server is closed. */
  async serve(server: ServedNode, drain: () => Promise<void>) {
    process.once('SIGTERM', async () => {
      await drain();
      await server.close();
      process.exit();
    });
    const { port } = await server.listen();
    const commands = {
      port: () => port,
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

export type NodeCommands = Awaited<ReturnType<NodeProcess<NodeSetup>['serve']>>;
