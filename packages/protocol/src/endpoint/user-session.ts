import { parts } from '#parts';
import { SELF, workAsTheyAre } from '../base/as-they-are.js';
import { called } from '../base/callbacks.js';
import { DIRECTORY, REPLIES } from '../base/constants.js';
import { ProtocolError } from '../base/errors.js';
import { present, showAs } from '../base/shown.js';
import type { Negotiated } from '../control/agreement.js';
import { isAgentAddress, isAgentId } from '../link/addressing.js';
import type { SessionState } from '../session/types.js';
import type { Agents } from './agents/agents.js';
import {
  assertCloseOptions,
  assertEventName,
  assertFollowOptions,
  assertRequestOptions,
  assertSendOptions,
  NONE,
} from './call-options.js';
import { AsyncClosing } from './disposal.js';
import type { Listeners } from './listeners.js';
import type { Message } from './messages/message.js';
import type { Body } from './messages/part.js';
import type { Outbound } from './outbound.js';
import {
  canFollow,
  type FollowedReply,
  Following,
  type FollowOptions,
  type ReplyInfo,
  replyTarget,
} from './requests/follow.js';
import type { ReplyStream } from './requests/reply.js';
import type {
  CloseOptions,
  CloseResult,
  RequestOptions,
  SendOptions,
  SendTensorOptions,
  Session,
  SessionEvents,
} from './session.js';
import type { SessionEnd } from './session-end.js';
import type { SessionStats } from './stats.js';
import type { TensorInput } from './tensors/tensor.js';

/** Drives the session that an application holds. */
export interface UserSessionHost {
  /** Client: the session can address other agents of the server. */
  readonly reachesAgents: boolean;
  readonly id: string;
  readonly state: SessionState;
  readonly principal: string | undefined;
  readonly agentId: string | undefined;
  /** @throws {ProtocolError} `session_closed` before ACCEPT. */
  readonly negotiated: Negotiated;
  readonly mailbox: AsyncIterable<Message>;
  readonly listeners: Listeners;
  /** @throws {ProtocolError} `session_closed` unless the session is ready. */
  readonly outbound: UserOutbound;
  flush(): Promise<void>;
  stats(): SessionStats;
  readonly closed: Promise<SessionEnd>;
  close(options?: CloseOptions): Promise<CloseResult>;
}

/** What the session that an application holds sends with. */
export type UserOutbound = Pick<Outbound, 'send' | 'request' | 'stream' | 'sendTensor'>;

let hostIn: (session: UserSession) => UserSessionHost;

/**
 * The session that an application holds: only the documented methods, on top of the {@link UserSessionHost}.
 */
export class UserSession extends AsyncClosing implements Session {
  readonly [SELF] = this;
  static {
    hostIn = (session) => session[SELF].#host;
    showAs(UserSession, 'Session', ({ id, state, principal, agentId }) =>
      present({ id, state, principal, agentId }),
    );
  }

  readonly #host: UserSessionHost;

  constructor(host: UserSessionHost) {
    super();
    this.#host = host;
  }

  /** @internal Libraries that take a `fetch` call it with this. */
  call(): never {
    throw new ProtocolError('invalid_argument', 'fetch: a session is no function; pass session.fetch');
  }

  get id(): string {
    return this.#host.id;
  }
  get state(): SessionState {
    return this.#host.state;
  }
  get negotiated(): Negotiated {
    return this.#host.negotiated;
  }
  get principal(): string | undefined {
    return this.#host.principal;
  }
  get agentId(): string | undefined {
    return this.#host.agentId;
  }

  send(body: Body, options: SendOptions = NONE): Promise<void> {
    return called(() => {
      assertSendOptions(options);
      options.signal?.throwIfAborted();
      return this.#host.outbound.send(body, options, this.#recipient(options.to));
    });
  }

  request<Json>(body: Body, options: RequestOptions = NONE): Promise<Message<Json>> {
    return called(() => {
      const { outbound } = this.#host;
      return outbound.request(body, this.#checked(options), this.#recipient(options.to));
    });
  }

  stream<Json>(body: Body, options: RequestOptions = NONE): ReplyStream<Json> {
    const { outbound } = this.#host;
    return outbound.stream(body, this.#checked(options), this.#recipient(options.to));
  }

  sendTensor(tensor: TensorInput, options: SendTensorOptions = NONE): Promise<void> {
    return called(async () => {
      if (options !== NONE) (await parts.tensors.load()).assertSendTensorOptions(options);
      options.signal?.throwIfAborted();
      await this.#host.outbound.sendTensor(tensor, options, this.#recipient(options.to));
    });
  }

  agents(): Promise<Agents> {
    return called(async () => {
      const { askForAgents } = await parts.agents.load();
      return await askForAgents((query) => this.#host.outbound.stream(query, NONE, DIRECTORY));
    });
  }

  follow<Json>(reply: string, options: FollowOptions = NONE): FollowedReply<Json> {
    assertFollowOptions(reply, options);
    const { after = 0, signal } = options;
    signal?.throwIfAborted();
    const target = replyTarget(reply);
    const metadata = { follow: after === 0 ? target : { ...target, after } };
    const stop = () =>
      called(async () => void (await this.#keeper().request('', { metadata: { stop: target } }, REPLIES)));
    return new Following(this.#keeper().stream('', { metadata, signal }, REPLIES), after, stop);
  }

  replies(): Promise<readonly ReplyInfo[]> {
    return called(async () => {
      const { readReplies } = await parts.requests.load();
      return await readReplies(this.#keeper().stream('', { metadata: { list: {} } }, REPLIES));
    });
  }

  /** @throws {ProtocolError} `unsupported`, `session_closed`. */
  #keeper(): UserOutbound {
    const { outbound, negotiated, reachesAgents } = this.#host;
    if (!reachesAgents) throw new ProtocolError('unsupported', 'only a client follows replies');
    if (canFollow(negotiated)) return outbound;
    throw new ProtocolError(
      'unsupported',
      'the server keeps no replies: the extension "replies" was not agreed on',
    );
  }

  [Symbol.asyncIterator](): AsyncIterator<Message> {
    return this.#host.mailbox[Symbol.asyncIterator]();
  }

  flush(): Promise<void> {
    return called(() => this.#host.flush());
  }

  on<Name extends keyof SessionEvents>(
    name: Name,
    listener: (event: SessionEvents[Name]) => void,
  ): () => void {
    assertEventName(name);
    return this.#host.listeners.add(name, listener);
  }

  stats(): SessionStats {
    return this.#host.stats();
  }

  get closed(): Promise<SessionEnd> {
    return this.#host.closed;
  }

  close(options: CloseOptions = NONE): Promise<CloseResult> {
    return called(() => {
      assertCloseOptions(options);
      return this.#host.close(options);
    });
  }

  #checked(options: RequestOptions): RequestOptions {
    assertRequestOptions(options);
    options.signal?.throwIfAborted();
    return options;
  }

  /** @throws {ProtocolError} `unsupported` at a server, `invalid_argument` for an invalid agent ID. */
  #recipient(to: string | undefined): string | undefined {
    if (to === undefined) return undefined;
    if (!this.#host.reachesAgents) {
      throw new ProtocolError('unsupported', 'to: a session of a server sends to its own client only');
    }
    if (isAgentId(to) || isAgentAddress(to)) return to;
    throw new ProtocolError(
      'invalid_argument',
      'to: expected an agent ID (1 to 128 letters, digits, - and _) or an address from agents()',
    );
  }
}

/** The host that a session was created with. */
export function hostOf(session: UserSession): UserSessionHost {
  return hostIn(session);
}

workAsTheyAre(UserSession);
