import {
  BodyCodec,
  type Logger,
  type M2MHeader,
  type ReceivedBody,
  readM2MBodyHeader,
} from '@parlance/protocol';
import { catchLate, loggable } from '@parlance/protocol/internal';

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

/** An agent of any principal, as a route names it. */
export interface AgentName {
  readonly principal: string;
  readonly id: string;
}

export interface AgentsOptions {
  /**
   * What becomes of a second session with the same agent ID and principal: the newer one takes the ID
   * over and the older ends with `taken_over`, or the newer one is refused. Another principal's agents have
   * nothing to do with it: an agent ID belongs to its principal.
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
   * be the name of a service. A string is an agent ID of the sender's own principal, or an address;
   * `{ principal, id }` is an agent of any principal. `authorize` is asked about the agent that is named;
   * without `authorize`, naming another principal's agent is leave enough to reach it. A throw reaches no
   * agent.
   *
   * @default `to` itself
   */
  readonly route?: ((to: string, question: RouteQuestion) => string | AgentName) | undefined;
}

export class Policy {
  readonly #options: AgentsOptions;
  readonly #logger: Logger;

  constructor(options: AgentsOptions, logger: Logger) {
    this.#options = options;
    this.#logger = logger;
  }

  mayList(from: Party, to: Party): boolean {
    return this.#allows(new Question(from, 'list', undefined, to));
  }

  /** @param body `undefined` for a tensor, which comes in pieces. */
  maySend(from: Party, to: Party, kind: RelayKind, body: ReceivedBody | undefined): boolean {
    return this.#allows(new Question(from, kind, body, to));
  }

  /** Whether the application decides itself who may reach whom. */
  get isDecided(): boolean {
    return this.#options.authorize !== undefined;
  }

  /** The agent that a body for `name` goes to, by a name or its principal and ID; `undefined` for none. */
  route(
    from: Party,
    name: string,
    kind: RelayKind,
    body: ReceivedBody | undefined,
  ): string | AgentName | undefined {
    const { route } = this.#options;
    if (route === undefined) return name;
    const onThrown = (error: unknown) => {
      const fields = { event: 'agents.route_failed', err: loggable(error) };
      this.#logger.error(fields, 'agents.route failed, so that no agent is reached');
    };
    try {
      const routed = route(name, new Question(from, kind, body)) ?? name;
      if (typeof routed === 'string') return routed;
      catchLate(routed, onThrown);
      const { principal, id } = routed;
      if (typeof principal === 'string' && typeof id === 'string') return { principal, id };
      throw new TypeError('agents.route returned neither a string nor { principal, id }');
    } catch (error) {
      onThrown(error);
      return undefined;
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
    if (this.#body?.codec !== BodyCodec.M2M) return undefined;
    try {
      return readM2MBodyHeader(this.#body.bytes);
    } catch {
      return undefined;
    }
  }
}
