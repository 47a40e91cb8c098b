import type { ProtocolError, StringMap, Undelivered } from '@parlance/protocol';
import { isAgentId } from '@parlance/protocol/internal';
import { NO_BODY } from '../base/no-body.js';
import type { ServerEndpoint } from '../session/endpoint.js';
import type { Agent } from './agent.js';
import type { Directory } from './directory.js';
import { type AgentState, readAgentState } from './move-state.js';
import type { MessageRange } from './pending-deliveries.js';
import type { Relay } from './relay.js';
import type { RelayTarget } from './target.js';

export type { AgentState } from './move-state.js';

/** Calls to other nodes that are needed to move an agent. */
export interface MovePeers {
  /** Holds messages for the agent from now on. */
  hold(agent: Agent): HoldingTarget;
  /** The agent of this node that was held stays: what was held is for it. */
  release(target: HoldingTarget): void;
  /** Asks other nodes to send the agent nothing that is new. @param isCut what they still send is refused. */
  holdOthers(agent: Agent, isCut: boolean): void;
  /** They do not, and the fate of what the agent sent before it came here is known. */
  isHeldByOthers(agent: Agent): boolean;
  releaseOthers(agent: Agent): void;
  /**
   * The agent is at `node` now.
   *
   * @param handOver gives unconfirmed messages to `target`, and reports about those of the agent to `stub`.
   */
  move(
    agent: Agent,
    target: HoldingTarget,
    node: string,
    handOver: (stub: RelayTarget) => { readonly isPending: boolean; readonly written: number },
  ): void;
  /**
   * The agent has come here from the node `from`, where messages of and to it are accounted for.
   *
   * @returns the stand-in that it had here, which continues with the messages that are under way.
   */
  adopt(agent: Agent, from: string, account: AccountEvents): HoldingTarget | undefined;
  /**
   * The agent of a recorded session is here. No other node has the session any more.
   *
   * @returns as {@link adopt}.
   */
  takeOver(agent: Agent): HoldingTarget | undefined;
}

export interface AccountEvents {
  /** Tells the former node that so many messages more to the agent are confirmed. */
  confirm: () => void;
  readonly written: number;
  readonly onReport: (report: Undelivered) => void;
  /** @param isComplete whether every message of the agent has arrived or was reported. */
  readonly onSettled: (isComplete: boolean) => void;
}

/** A stand-in that can hold what is for an agent. */
export interface HoldingTarget extends RelayTarget {
  /** Nothing is under way or waits. */
  readonly isIdle: boolean;
  onSettled: (() => void) | undefined;
  /** Forgets what is under way. */
  reset(): void;
}

/**
 * Sessions of agents that move to another node. The node that has one:
 *
 * 1. {@link hold}: messages to it wait.
 * 2. When {@link isQuiet}, takes {@link stateOf} together with the snapshot of the session.
 * 3. When the other node has taken it: {@link handleMoved}, before it forgets the session. Otherwise {@link release}.
 *
 * At its deadline it calls {@link settle} first, after which the session is quiet and cannot continue here.
 *
 * The node that takes it calls {@link read} before it takes it, and {@link adopt} afterwards.
 *
 * All of this is safe to call for a session that is no agent. Nothing throws but {@link read}.
 */
export class AgentMoves {
  readonly #directory: Directory;
  readonly #relay: Relay;
  readonly #held = new WeakSet<ServerEndpoint>();
  /** `undefined` without other nodes. */
  peers: MovePeers | undefined;

  constructor(directory: Directory, relay: Relay) {
    this.#directory = directory;
    this.#relay = relay;
  }

  /** Messages of other sessions to this one, and news of the directory, wait from now on. May be called again. */
  hold(session: ServerEndpoint): void {
    this.#held.add(session);
    this.#directory.watchers.hold(session);
    const agent = this.#holdAgent(session);
    if (agent === undefined) return;
    agent.isHeld = true;
    this.peers?.holdOthers(agent, false);
  }

  #holdAgent(session: ServerEndpoint): Agent | undefined {
    const agent = this.#directory.agentOf(session);
    if (agent === undefined || this.peers === undefined) return undefined;
    // Messages that were sent before an earlier move may still be under way.
    if (agent.former === undefined) agent.via ??= this.peers.hold(agent);
    return agent;
  }

  /** Nothing is under way between a session that is held and others, in either direction. */
  isQuiet(session: ServerEndpoint): boolean {
    if (!this.#held.has(session)) return false;
    const { requests, messages } = this.#relay;
    const agent = this.#holdAgent(session);
    return (
      (agent === undefined || (this.#isHeld(agent.via) && this.peers?.isHeldByOthers(agent) === true)) &&
      requests.isQuiet(session) &&
      messages.isQuiet(session) &&
      this.#directory.watchers.isQuiet(session)
    );
  }

  /** Whether this stream of the session is its watch of the directory, which continues after a move. */
  isWatch(session: ServerEndpoint, streamId: number): boolean {
    return this.#directory.watchers.stateOf(session)?.stream === streamId;
  }

  /** The session stays here. */
  release(session: ServerEndpoint): void {
    this.#held.delete(session);
    this.#relay.messages.reports.thaw(session);
    this.#directory.watchers.release(session);
    const agent = this.#directory.agentOf(session);
    if (agent !== undefined) {
      agent.isHeld = false;
      this.peers?.releaseOthers(agent);
    }
    const via = agent?.via as HoldingTarget | undefined;
    if (agent === undefined || via === undefined || !this.#isHeld(via)) return;
    via.onSettled = () => {
      if (!via.isIdle) return;
      via.onSettled = undefined;
      if (agent.via === via) agent.via = undefined;
    };
    this.peers?.release(via);
  }

  /**
   * There is no more time: its requests and those to it end with `error`, and messages that are not written count as
   * unknown. Only a session that moves or ends now may be settled.
   */
  settle(session: ServerEndpoint, error: ProtocolError): void {
    const agent = this.#directory.agentOf(session);
    for (const target of [agent?.via, agent?.former] as readonly (HoldingTarget | undefined)[])
      if (target !== undefined && !this.#isHeld(target)) this.#abandon(target);
    this.hold(session);
    if (agent !== undefined) this.peers?.holdOthers(agent, true);
    this.#relay.requests.settle(session, error);
    this.#relay.messages.settle(session);
  }

  /** Messages that are under way through a stand-in may arrive, but this node will not learn whether they did. */
  #abandon(target: HoldingTarget): void {
    this.#relay.handleEnded(target, false);
    target.reset();
  }

  /**
   * The state that the other node needs, as JSON; `undefined` if it needs none. Call it when {@link isQuiet}, with the
   * snapshot.
   *
   * @param how a `record` has the numbers and messages of a session itself.
   */
  stateOf(session: ServerEndpoint, how: 'move' | 'record'): string | undefined {
    if (how === 'record') {
      const stated = this.#directory.statedOf(session);
      return stated && JSON.stringify({ stated: statedOf(stated) });
    }
    const agent = this.#directory.agentOf(session);
    const watch = this.#directory.watchers.stateOf(session);
    if (agent === undefined && watch === undefined) return undefined;
    const { frames, pending, counter, heard } = this.#relay.messages.stateOf(session);
    const state: AgentState = {
      stated: agent && statedOf(agent.stated ?? {}),
      frames,
      pending,
      counter,
      heard,
      watch,
    };
    return JSON.stringify(state);
  }

  /** The session is at another node now. Call it before the session is forgotten here, which is silent from then on. */
  handleMoved(session: ServerEndpoint, node: string): void {
    const agent = this.#directory.agentOf(session);
    this.#relay.handleMoved(session);
    if (agent === undefined || this.peers === undefined) return;
    const target = (agent.via as HoldingTarget | undefined) ?? this.peers.hold(agent);
    target.state = session.state;
    target.onSettled = undefined;
    this.peers.move(agent, target, node, (stub) => this.#relay.messages.handOver(session, target, stub));
    this.#directory.handleMoved(agent, target);
  }

  /** @throws {ProtocolError} `bad_message` if it is not a state of {@link stateOf}. */
  read(text: unknown): AgentState {
    return readAgentState(text);
  }

  /** A session that is restored here, and is of this node now, continues as the agent that it was. */
  adopt(session: ServerEndpoint, state: AgentState, from: string | undefined): void {
    const { stated, watch } = state;
    if (from === undefined) return this.takeOver(session, stated ?? {});
    if (stated !== undefined && session.agentId !== undefined) this.#adoptAgent(session, stated, state, from);
    if (watch !== undefined) {
      session.answer(watch.stream, NO_BODY, this.#directory.watchers.resumed(session, watch));
    }
  }

  /**
   * A session of a node that has died continues here as its agent. Other nodes may have kept the entry of the agent.
   */
  takeOver(session: ServerEndpoint, stated: StringMap): void {
    if (session.agentId === undefined || !isAgentId(session.agentId)) return;
    if (stated['agents'] === undefined || session.negotiated.extensions['agents'] === undefined) return;
    this.#relay.messages.takeOver(session);
    const agent = this.#directory.adopt(session, stated);
    this.#goOnWith(agent, this.peers?.takeOver(agent));
  }

  #adoptAgent(session: ServerEndpoint, stated: StringMap, state: AgentState, from: string): void {
    const { messages } = this.#relay;
    const agent = this.#directory.adopt(session, stated);
    const pending = new PendingMessages(state.pending);
    const account: AccountEvents = {
      confirm: () => {},
      written: state.frames.length,
      onReport: (report) => {
        pending.remove(report);
        messages.reports.tell(session, report);
      },
      onSettled: (isComplete) => {
        if (isComplete) return;
        for (const [to, first, count] of pending.ranges)
          messages.reports.tell(session, { to, outcome: 'unknown', code: 'peer_gone', first, count });
      },
    };
    const handleNothing = () => {};
    messages.restore(session, state, {
      handleTaken: handleNothing,
      handleAway: handleNothing,
      handleWritten: handleNothing,
      handleConfirmed: () => account.confirm(),
      handleLost: handleNothing,
      handleRefused: handleNothing,
    });
    this.#goOnWith(agent, this.peers?.adopt(agent, from, account));
  }

  /** The agent's former stand-in takes messages until it has written all that it holds. */
  #goOnWith(agent: Agent, former: HoldingTarget | undefined): void {
    if (former === undefined || former.isIdle) return;
    agent.former = former;
    former.onSettled = () => {
      if (!former.isIdle) return;
      former.onSettled = undefined;
      if (agent.former === former) agent.former = undefined;
    };
  }

  #isHeld(target: RelayTarget | undefined): boolean {
    return target !== undefined && 'isHeld' in target && target.isHeld === true;
  }
}

/** The messages of a session whose fate only its former node can tell. */
class PendingMessages {
  #ranges: MessageRange[];

  constructor(ranges: readonly MessageRange[]) {
    this.#ranges = [...ranges];
  }

  get ranges(): readonly MessageRange[] {
    return this.#ranges;
  }

  /** These are reported. */
  remove({ to, first, count }: Undelivered): void {
    const left: MessageRange[] = [];
    for (const range of this.#ranges) {
      const [name, begin, length] = range;
      if (name !== to || begin === undefined || first === undefined) left.push(range);
      else {
        const [end, cut] = [begin + length, first + count];
        if (begin < first) left.push([name, begin, Math.min(end, first) - begin]);
        if (end > cut) left.push([name, Math.max(begin, cut), end - Math.max(begin, cut)]);
      }
    }
    this.#ranges = left;
  }
}

/** The parts of a HELLO that describe an agent. */
function statedOf({ agents, avp }: StringMap): StringMap {
  return { ...(agents === undefined ? {} : { agents }), ...(avp === undefined ? {} : { avp }) };
}
