import type { Additions, RequestHandler, SessionPort } from '@parlance/protocol';
import type { ClientSession } from './session.js';

/** Something that an application adds to the sessions of its clients. It may be given to several calls of `connect`. */
export interface SessionModule {
  /** A client has one module of a name. */
  readonly name: string;
  /**
   * Called once for each call of `connect`, before it connects.
   *
   * @param session whose members throw `session_closed` until the session is established.
   * @throws {ProtocolError} `invalid_option`; `connect` rejects with what it throws.
   */
  install(session: SessionPort<ClientSession>): SessionModuleHooks;
}

/** A module in one client. Every member is optional. */
export interface SessionModuleHooks extends Additions<ClientSession> {
  /**
   * A handler around another one: `onRequest`, or one that refuses if there is none. The first module is the outermost. A session that
   * is shared by tabs answers no requests, so it has no module with this hook.
   */
  wrap?(next: RequestHandler): RequestHandler;
}
