import {
  catchLate,
  type Endpoint,
  LinkCodec,
  type Logger,
  loggable,
  type M2MHeader,
  ProtocolError,
  type ReceivedBody,
  readM2MBodyHeader,
} from '@parlance/protocol';
import type { Agent, Directory } from '../directory.js';

/** Who may see and reach whom: what a server says about its agents. */

/** One side of a question: an agent, or a session without an agent ID that looks at the directory. */
export interface Party {
  readonly id: string | undefined;
  readonly principal: string;
}

/** `list`: may one know of the other at all. */
export type RelayKind = 'list' | 'message' | 'request' | 'tensor';

/** What `authorize` decides upon. */
export interface RelayQuestion extends RouteQuestion {
  readonly to: Party;
}

/** What `route` decides upon. */
export interface RouteQuestion {
  readonly from: Party;
  readonly kind: RelayKind;
  /**
   * The routing header of an M2M body, with model and roles, read without decompressing anything when it
   * is asked for. It is the sender's claim. `undefined` for other bodies and unreadable headers.
   */
  readonly header: M2MHeader | undefined;
}

export interface AgentsOptions {
  /**
   * What becomes of a second session with the same agent ID and principal: the newer one takes the ID
   * over and the older ends with `taken_over`, or the newer one is refused. Another principal is always
   * refused.
   *
   * @default 'takeOver'
   */
  readonly onConflict?: 'takeOver' | 'refuse' | undefined;
  /**
   * Asked for every message and request, and for every agent of a list, so it answers at once. What
   * `from` may not see does not exist for it. A throw refuses.
   *
   * @default the same principal only
   */
  readonly authorize?: ((question: RelayQuestion) => boolean) | undefined;
  /**
   * Names the agent that a body for `to` goes to, for example by the model of its header; `to` may then
   * be the name of a service. `authorize` is asked about whoever is named. A throw reaches nobody.
   *
   * @default `to` itself
   */
  readonly route?: ((to: string, question: RouteQuestion) => string) | undefined;
}

export class Policy {
  readonly #options: AgentsOptions;
  readonly #directory: Directory;
  readonly #logger: Logger;

  constructor(options: AgentsOptions, directory: Directory, logger: Logger) {
    this.#options = options;
    this.#directory = directory;
    this.#logger = logger;
  }

  mayList(from: Party, to: Agent): boolean {
    return this.#allows(new Question(from, 'list', undefined, to.party));
  }

  /**
   * The agent that a body from `session` to `name` goes to.
   *
   * @param body `undefined` for a tensor, which comes in pieces.
   * @throws {ProtocolError} `unknown_agent`, also for one that the sender may not see; `forbidden`.
   */
  admit(session: Endpoint, name: string, kind: RelayKind, body: ReceivedBody | undefined): Agent {
    const from = this.#directory.agentOf(session)?.party;
    if (from === undefined) {
      throw new ProtocolError('forbidden', 'only an agent, a session with an agent ID, may write to others');
    }
    const agent = this.#directory.get(this.#route(name, new Question(from, kind, body)));
    if (agent === undefined || !this.mayList(from, agent)) {
      throw new ProtocolError('unknown_agent', `there is no agent ${name}`);
    }
    if (this.#allows(new Question(from, kind, body, agent.party))) return agent;
    throw new ProtocolError('forbidden', `${from.id} may send no ${kind} to ${name}`);
  }

  #route(name: string, question: RouteQuestion): string {
    const onThrown = (error: unknown) => {
      const fields = { event: 'agents.route_failed', err: loggable(error) };
      this.#logger.error(fields, 'agents.route threw, so that nobody is reached');
    };
    try {
      const named: unknown = this.#options.route?.(name, question) ?? name;
      catchLate(named, onThrown);
      if (typeof named !== 'string') throw new TypeError('agents.route returned no agent ID');
      return named;
    } catch (error) {
      onThrown(error);
      return '';
    }
  }

  #allows(question: Question): boolean {
    const { authorize } = this.#options;
    if (authorize === undefined) return question.from.principal === question.to.principal;
    const onThrown = (error: unknown) => {
      const fields = { event: 'agents.authorize_failed', err: loggable(error) };
      this.#logger.error(fields, 'agents.authorize threw, which refuses');
    };
    try {
      const answer: unknown = authorize(question);
      catchLate(answer, onThrown);
      return answer === true;
    } catch (error) {
      onThrown(error);
      return false;
    }
  }
}

const NOBODY: Party = Object.freeze({ id: undefined, principal: '' });

/** Reads the header of a body only where somebody asks for it. */
class Question implements RelayQuestion {
  readonly from: Party;
  readonly kind: RelayKind;
  readonly to: Party;
  readonly #body: ReceivedBody | undefined;

  constructor(from: Party, kind: RelayKind, body: ReceivedBody | undefined, to = NOBODY) {
    this.from = from;
    this.kind = kind;
    this.to = to;
    this.#body = body;
  }

  get header(): M2MHeader | undefined {
    if (this.#body?.codec !== LinkCodec.M2M) return undefined;
    try {
      return readM2MBodyHeader(this.#body.bytes);
    } catch {
      return undefined;
    }
  }
}
