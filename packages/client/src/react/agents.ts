import { useSyncExternalStore } from 'react';
import { isBack } from '../frameworks/is-back.js';
import type { AgentChange, AgentInfo, Session } from '../index.js';
import { type Failure, failureOf, NO_FAILURE } from './failure.js';
import { useView, View } from './view.js';

/** The agents of a server as a component sees them. */
export interface AgentsView extends Failure {
  readonly status: 'loading' | 'ready' | 'failed';
  readonly list: readonly AgentInfo[];
}

/** The agents that a session may see, kept up to date while the component is mounted. */
export function useAgents(session: Session | undefined): AgentsView {
  const view = useView(() => new Watching(session), session);
  return useSyncExternalStore(view.watch, view.getState, view.getState);
}

class Watching extends View<AgentsView> {
  readonly #session: Session | undefined;
  #changes: AsyncIterator<AgentChange> | undefined;
  /** Counts the times that this view has begun. */
  #turn = 0;

  constructor(session: Session | undefined) {
    super({ status: 'loading', list: [], ...NO_FAILURE });
    this.#session = session;
  }

  protected begin(): void {
    if (this.#session !== undefined) void this.#follow(this.#session);
  }

  protected end(): void {
    this.#turn++;
    // next() has already thrown its error.
    this.#changes?.return?.().catch(() => {});
    this.#changes = undefined;
  }

  async #follow(session: Session): Promise<void> {
    const turn = ++this.#turn;
    const isLeft = (): boolean => turn !== this.#turn;
    for (;;) {
      try {
        return await this.#read(session, isLeft);
      } catch (error) {
        if (isLeft()) return;
        const goesOn = await isBack(session, error);
        if (isLeft()) return;
        if (!goesOn) return this.set({ status: 'failed', ...failureOf(error) });
      }
    }
  }

  async #read(session: Session, isLeft: () => boolean): Promise<void> {
    const agents = await session.agents();
    if (isLeft()) return;
    this.set({ status: 'ready', list: agents.list });
    const changes = agents[Symbol.asyncIterator]();
    this.#changes = changes;
    while (!(await changes.next()).done && !isLeft()) this.setSoon({ list: agents.list });
  }
}
