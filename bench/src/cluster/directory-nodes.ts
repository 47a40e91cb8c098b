import { setTimeout as sleep } from 'node:timers/promises';
import { resolveLimits } from '@parlance/protocol';
import { newIncarnation, newSessionId, SILENT_LOGGER } from '@parlance/protocol/internal';
import { redis } from '@parlance/server/redis';
import { Directory } from '../../../packages/server/src/agents/directory.js';
import { Roster } from '../../../packages/server/src/agents/nodes/roster.js';
import type { RelayTarget } from '../../../packages/server/src/agents/target.js';
import { type Engine, memoryCluster } from '../../../packages/server/src/index.js';
import type { ServerEndpoint } from '../../../packages/server/src/session/endpoint.js';
import { offer } from '../../../scripts/child-process.js';
import { cpuTime } from '../process/cpu.js';

/** The directories of several nodes, with agents that have no clients, in one process. */

const url = process.argv[2] ?? '';
const cluster: Engine = url === '' ? memoryCluster() : redis({ url });
const PRINCIPALS = 100;
const limits = resolveLimits();
const negotiated = { algorithms: ['NONE'], encoding: null, extensions: { agents: '{}' } } as const;
const STATED = { agents: JSON.stringify({ metadata: { skills: ['summing', 'translating'] } }) };

/** The parts of a session that a directory uses. */
class SimulatedSession {
  readonly isRemote = false;
  readonly state = 'established';
  readonly negotiated = negotiated;
  readonly listeners = { add() {} };
  readonly id: string;
  readonly principal: string;
  readonly agentId: string;

  constructor(node: string, number: number) {
    this.id = newSessionId(node);
    this.principal = `principal-${number % PRINCIPALS}`;
    this.agentId = `agent-${number}`;
  }

  abort(): void {
    throw new Error(`${this.agentId} was ended`);
  }
}

/** A change that some nodes have not seen. */
interface Unseen {
  readonly since: number;
  left: number;
}

class DirectoryNode {
  readonly name = newIncarnation();
  readonly sessions: SimulatedSession[] = [];
  readonly directory: Directory;
  readonly roster: Roster;
  others = 0;

  constructor(onSeen: (session: RelayTarget) => void) {
    const options = { limits, logger: SILENT_LOGGER, onConflict: 'takeOver' } as const;
    this.directory = new Directory({
      ...options,
      policy: { isDecided: false, mayList: () => true },
      key: new Uint8Array(32),
      clock: { soon() {} },
    });
    this.roster = new Roster({
      ...options,
      link: cluster.connect(),
      incarnation: this.name,
      directory: this.directory,
      now: () => performance.now(),
      isNodeAlive: () => true,
      others: () => [],
      peers: {
        targetOf: (_node, { sessionId, ...agent }) =>
          ({ id: sessionId, ...agent, isRemote: true, state: 'established' }) as RelayTarget,
        handleAway: ({ session }) => session,
        reroute() {},
        forget() {},
      },
    });
    const { directory } = this;
    const [add, remove] = [directory.addRemote.bind(directory), directory.removeRemote.bind(directory)];
    directory.addRemote = (session, ...rest) => {
      add(session, ...rest);
      this.others++;
      onSeen(session);
    };
    directory.removeRemote = (session) => {
      remove(session);
      this.others--;
    };
  }

  join(number: number): SimulatedSession {
    const session = new SimulatedSession(this.name, number);
    const endpoint = session as object as ServerEndpoint;
    this.sessions.push(session);
    const admitted = this.directory.admit(endpoint, STATED);
    if (admitted === undefined || 'code' in admitted) throw new Error('the agent was refused');
    admitted.accepted(endpoint);
    this.directory.join(endpoint);
    return session;
  }

  leave(): number {
    const session = this.sessions.shift() as SimulatedSession;
    this.directory.leave(session as object as ServerEndpoint);
    return Number(session.agentId.split('-')[1]);
  }
}

const unseen = new Map<string, Unseen>();
const taken: number[] = [];
function handleSeen({ id }: RelayTarget): void {
  const change = unseen.get(id);
  if (change === undefined || --change.left > 0) return;
  unseen.delete(id);
  taken.push(performance.now() - change.since);
}

let nodes: DirectoryNode[] = [];

const commands = {
  async open({ count, agents }: { readonly count: number; readonly agents: number }): Promise<void> {
    nodes = Array.from({ length: count }, () => new DirectoryNode(handleSeen));
    for (const { roster } of nodes) await roster.start();
    const each = agents / count;
    for (const [i, node] of nodes.entries()) {
      for (let number = i * each; number < (i + 1) * each; number++) {
        node.join(number);
        if (number % 100 === 0) await sleep(1);
      }
    }
    while (nodes.some(({ others }) => others !== agents - each)) await sleep(20);
  },

  /**
   * Agents leave, and come back at another node at once.
   *
   * @returns milliseconds from each coming back until all other nodes know it.
   */
  async change({ count, perSecond }: { readonly count: number; readonly perSecond: number }) {
    taken.length = 0;
    const cpu = cpuTime();
    const start = performance.now();
    for (let i = 0; i < count; i++) {
      const early = start + (i * 1_000) / perSecond - performance.now();
      if (early > 1) await sleep(early);
      const node = nodes[i % nodes.length] as DirectoryNode;
      const number = node.leave();
      const since = performance.now();
      const next = nodes[(i * 7 + 3) % nodes.length] as DirectoryNode;
      unseen.set(next.join(number).id, { since, left: nodes.length - 1 });
    }
    const end = performance.now() + 10_000;
    while (unseen.size > 0 && performance.now() < end) await sleep(5);
    if (unseen.size > 0) throw new Error(`${unseen.size} changes were not seen by all nodes`);
    return { taken, cpuUs: cpuTime() - cpu, ms: performance.now() - start };
  },

  /** The processor time of the nodes while nothing changes. @returns microseconds. */
  async rest({ ms }: { readonly ms: number }): Promise<number> {
    const cpu = cpuTime();
    await sleep(ms);
    return cpuTime() - cpu;
  },

  async close(): Promise<void> {
    for (const { roster } of nodes) await roster.stop();
  },
};
export type DirectoryCommands = typeof commands;

offer(commands);
