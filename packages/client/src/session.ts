import type { Body, SendOptions, Session } from '@parlance/protocol';
import { UserSession, type UserSessionHost } from '@parlance/protocol/client';
import type { SessionFetch } from './fetch.js';

/**
 * The session of a client. If it is lost or its server drains, a new one takes its place in the same object.
 */
export interface ClientSession extends Session {
  /** `fetch` over this session, bound to it; see {@link SessionFetch} for what it carries. */
  readonly fetch: SessionFetch;
}

export interface ClientSessionHost extends UserSessionHost {
  /** Sends now, or in the next session if the present one is being left. */
  send(send: () => Promise<void>): Promise<void>;
}

let hostIn: (session: ClientUserSession) => ClientSessionHost;

export class ClientUserSession extends UserSession implements ClientSession {
  static {
    hostIn = (session) => session.#host;
  }

  readonly fetch: SessionFetch = async (input, init) => {
    const { createFetch } = await import('./fetch.js');
    return await createFetch(this)(input, init);
  };
  readonly #host: ClientSessionHost;

  constructor(host: ClientSessionHost) {
    super(host);
    this.#host = host;
  }

  override send(body: Body, options?: SendOptions): Promise<void> {
    return this.#host.send(() => super.send(body, options));
  }
}

/** The host that a session of `connect` was created with. */
export function clientHostOf(session: ClientSession): ClientSessionHost {
  return hostIn(session as ClientUserSession);
}
