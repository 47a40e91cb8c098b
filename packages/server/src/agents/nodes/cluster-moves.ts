import type { Agent } from '../agent.js';
import type { AccountEvents, HoldingTarget, MovePeers } from '../moves.js';
import type { RelayTarget } from '../target.js';
import { newInflow } from './inflows.js';
import type { RelayPeers } from './peers.js';
import { RemoteTarget } from './remote-target.js';
import type { Roster } from './roster.js';

/** Moves agents between the nodes of a cluster: their entries in the directory, and what is sent to them. */
export class ClusterMoves implements MovePeers {
  readonly #peers: RelayPeers;
  readonly #roster: Roster;

  constructor(peers: RelayPeers, roster: Roster) {
    this.#peers = peers;
    this.#roster = roster;
  }

  hold({ id: agentId, party: { principal }, session }: Agent): RemoteTarget {
    const { id: sessionId, negotiated } = session;
    return this.#peers.holdFor({ sessionId, principal, agentId, negotiated });
  }

  release(target: HoldingTarget): void {
    this.#peers.reroute(target);
  }

  holdOthers({ session }: Agent, isCut: boolean): void {
    this.#peers.holdOthers(session.id, isCut);
    if (isCut) this.#peers.giveUpAccount(session.id);
  }

  isHeldByOthers({ session }: Agent): boolean {
    return this.#peers.isHeldByOthers(session.id);
  }

  releaseOthers({ session }: Agent): void {
    this.#peers.releaseOthers(session.id);
  }

  move(
    agent: Agent,
    target: HoldingTarget,
    node: string,
    handOver: (stub: RelayTarget) => { readonly isPending: boolean; readonly written: number },
  ): void {
    if (!(target instanceof RemoteTarget)) return;
    this.#roster.handleMoved(agent, node, target);
    this.#peers.handleMoved(agent.session, target, node, handOver);
  }

  adopt(agent: Agent, from: string, account: AccountEvents): RemoteTarget | undefined {
    const { written, onReport, onSettled } = account;
    const inflow = newInflow(agent.session.id, written);
    account.confirm = () => {
      inflow.confirmed++;
    };
    this.#peers.expectAccount(agent.session.id, { from, inflow, onReport, onSettled });
    return this.#goOnWith(this.#roster.adopt(agent, from));
  }

  takeOver(agent: Agent): RemoteTarget | undefined {
    this.#peers.handleTakenOver(agent.session.id);
    return this.#goOnWith(this.#roster.takeOver(agent));
  }

  #goOnWith(former: RelayTarget | undefined): RemoteTarget | undefined {
    if (!(former instanceof RemoteTarget)) return undefined;
    this.#peers.reroute(former);
    return former;
  }
}
