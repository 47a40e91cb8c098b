import {
  BodyCodec,
  type Logger,
  type M2MHeader,
  ProtocolError,
  type ReceivedBody,
  readM2MBodyHeader,
} from '@parlance/protocol';
import { ask, assertOptions, loggable, type OptionKinds } from '@parlance/protocol/internal';

/** Which agents may see and reach each other. */

/** One side of a question: an agent, or a session without an agent ID that reads the directory. */
export interface Party {
  readonly id: string | undefined;
  readonly principal: string;
}

/** `list` asks whether one may know that the other exists. */
export type RelayKind = 'list' | 'message' | 'request' | 'tensor';

/** The question that `authorize` answers. */
export interface RelayQuestion extends RouteQuestion {
  readonly to: Party;
}

/** The question that `route` answers. */
export interface RouteQuestion {
  readonly from: Party;
  readonly kind: RelayKind;
  /**
   * The routing header of an M2M body, with model and roles. It is read on access, without decompressing anything,
   * and it is the sender's unverified claim. `undefined` for other bodies and unreadable headers.
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
   * How a second session with the same agent ID and principal is handled: `takeOver` gives it the ID and ends the
   * older session with `taken_over`; `refuse` refuses it. Agents of other principals never conflict, because an
   * agent ID belongs to its principal.
   *
   * @default 'takeOver'
   */
  readonly onConflict?: 'takeOver' | 'refuse' | undefined;
  /**
   * Called for every message and request, and for every agent in a list, so it must return synchronously. An agent
   * that `from` may not see does not exist for it. Throwing refuses.
   *
   * @default the same principal only
   */
  readonly authorize?: ((question: RelayQuestion) => boolean) | undefined;
  /**
   * Names the agent that a body for `to` goes to, for example by the model in its header; `to` may then
   * be the name of a service. A returned string is an agent ID of the sender's own principal, or an address;
   * `{ principal, id }` is an agent of any principal. `authorize` is then called for the named agent; without
   * `authorize`, a route may name another principal's agent. If it throws, no agent is reached.
   *
   * @default `to` itself
   */
  readonly route?: ((to: string, question: RouteQuestion) => string | AgentName) | undefined;
}

const KINDS: OptionKinds<AgentsOptions> = { onConflict: 'text', authorize: 'function', route: 'function' };
const CONFLICTS: readonly AgentsOptions['onConflict'][] = ['takeOver', 'refuse'];

/**
 * @param isProven whether the server has `authenticate`, which proves agent IDs.
 * @throws {ProtocolError} `invalid_option`.
 */
export function assertAgents(options: AgentsOptions, isProven: boolean): void {
  assertOptions(options, KINDS, 'agents');
  const { onConflict } = options;
  if (onConflict !== undefined && !CONFLICTS.includes(onConflict))
    throw new ProtocolError('invalid_option', `agents.onConflict must be one of ${CONFLICTS.join(', ')}`);
  if (!isProven)
    throw new ProtocolError('invalid_option', 'agents requires authenticate, which proves agent IDs');
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

  /** Whether the application decides which agents may reach each other. */
  get isDecided(): boolean {
    return this.#options.authorize !== undefined;
  }

  /** The agent that a body for `name` goes to, by name or by principal and ID; `undefined` if `route` fails. */
  route(
    from: Party,
    name: string,
    kind: RelayKind,
    body: ReceivedBody | undefined,
  ): string | AgentName | undefined {
    const { route } = this.#options;
    if (route === undefined) return name;
    const onThrown = (error: unknown): undefined => {
      const fields = { event: 'agents.route_failed', err: loggable(error) };
      this.#logger.error(fields, 'agents.route failed; no agent is reached');
    };
    const read = (routed: unknown): string | AgentName => {
      if (routed === undefined || routed === null) return name;
      if (typeof routed === 'string') return routed;
      const { principal, id } = routed as Partial<AgentName>;
      if (typeof principal === 'string' && typeof id === 'string') return { principal, id };
      throw new TypeError('agents.route returned neither a string nor { principal, id }');
    };
    return ask(() => route(name, new Question(from, kind, body)), read, onThrown);
  }

  #allows(question: Question): boolean {
    const { authorize } = this.#options;
    if (authorize === undefined) return question.from.principal === question.to.principal;
    const onThrown = (error: unknown) => {
      const fields = { event: 'agents.authorize_failed', err: loggable(error) };
      this.#logger.error(fields, 'agents.authorize threw; the request is refused');
      return false;
    };
    return ask(
      () => authorize(question),
      (answer) => answer === true,
      onThrown,
    );
  }
}

const NO_PARTY: Party = Object.freeze({ id: undefined, principal: '' });

/** Reads the header of a body only when it is accessed. */
class Question implements RelayQuestion {
  readonly from: Party;
  readonly kind: RelayKind;
  readonly to: Party;
  readonly #body: ReceivedBody | undefined;

  constructor(from: Party, kind: RelayKind, body: ReceivedBody | undefined, to = NO_PARTY) {
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
