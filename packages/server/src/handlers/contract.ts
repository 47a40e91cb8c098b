import type { RequestHandler, Session } from '@parlance/protocol';
import type { Contract, Handlers, Procedures, ServeOptions } from '@parlance/protocol/contract';
import * as contracts from '@parlance/protocol/contract';
import type { ServerSession } from '../session/served-session.js';

export * from '@parlance/protocol/contract';
export { events } from '../server/events/feature.js';

/**
 * As `serve` of `@parlance/client/contract`, with the session of a server. Its `data` has the type that `createServer<Data>`
 * states, or the annotation of a handler; the compiler cannot take it from an `authenticate` beside this call, and `data` is
 * `any` then.
 */
export const serve: <
  P extends Procedures,
  // biome-ignore lint/suspicious/noExplicitAny: the type of the data is not known here
  Of extends Session = ServerSession<any>,
>(
  contract: Contract<P>,
  handlers: Handlers<NoInfer<P>, NoInfer<Of>>,
  options?: ServeOptions<NoInfer<Of>>,
) => RequestHandler<Of> = contracts.serve;
