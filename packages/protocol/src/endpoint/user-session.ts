import { SELF, workAsTheyAre } from '../base/as-they-are.js';
import { called } from '../base/callbacks.js';
import { ProtocolError } from '../base/errors.js';
import { present, showAs } from '../base/shown.js';
import type { Negotiated } from '../control/agreement.js';
import type { SessionState } from '../session/types.js';
import { agentVerbs } from './agents/verb.js';
import {
  assertCloseOptions,
  assertEventName,
  assertRequestOptions,
  assertSendOptions,
  NONE,
  recipientOf,
} from './call-options.js';
import { AsyncClosing } from './disposal.js';
import type { Message } from './messages/message.js';
import type { Body } from './messages/part.js';
import type { ReplyStream } from './requests/reply.js';
import { replyVerbs } from './requests/verbs.js';
import type {
  CloseOptions,
  CloseResult,
  RequestOptions,
  SendOptions,
  Session,
  SessionEvents,
} from './session.js';
import type { SessionEnd } from './session-end.js';
import type { SessionStats } from './stats.js';
import { tensorVerbs } from './tensors/verb.js';
import type { UserSessionHost } from './user-session-host.js';
import { addVerbs } from './verbs.js';

/**
 * The session that an application holds: only the documented methods, on top of the {@link UserSessionHost}.
 */
// biome-ignore lint/suspicious/noUnsafeDeclarationMerging: the methods of features are added below
export class UserSession extends AsyncClosing {
  readonly [SELF] = this;
  static hostIn(session: UserSession): UserSessionHost {
    return session[SELF].#host;
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
      return this.#host.outbound.send(body, options, recipientOf(this.#host, options.to));
    });
  }

  request<Json>(body: Body, options: RequestOptions = NONE): Promise<Message<Json>> {
    return called(() => {
      const { outbound } = this.#host;
      return outbound.request(body, this.#checked(options), recipientOf(this.#host, options.to));
    });
  }

  stream<Json>(body: Body, options: RequestOptions = NONE): ReplyStream<Json> {
    const { outbound } = this.#host;
    return outbound.stream(body, this.#checked(options), recipientOf(this.#host, options.to));
  }

  [Symbol.asyncIterator](): AsyncIterator<Message> {
    return this.#host.mailbox[Symbol.asyncIterator]();
  }

  flush(): Promise<void> {
    return called(() => this.#host.flush());
  }

  on<Name extends keyof SessionEvents>(
    name: Name,
    listener: (event: SessionEvents[Name]) => unknown,
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
}

/** Its methods, also those that features have declared. */
export interface UserSession extends Session {}

/** The host that a session was created with. */
export function hostOf(session: UserSession): UserSessionHost {
  return UserSession.hostIn(session);
}

addVerbs(UserSession.prototype, hostOf, { ...tensorVerbs, ...agentVerbs, ...replyVerbs });
showAs(UserSession, 'Session', ({ id, state, principal, agentId }) =>
  present({ id, state, principal, agentId }),
);
workAsTheyAre(UserSession);
