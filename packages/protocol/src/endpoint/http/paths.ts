import type { RequestHandler } from '../requests/responder.js';
import type { Session } from '../session.js';

/** A request handler that knows which HTTP requests it answers, so that `onFetch` gets the others. */
export type PathHandler<Of extends Session = Session> = RequestHandler<Of> & {
  readonly servesPath?: ((path: string) => boolean) | undefined;
};

/** Makes a handler serve the paths of the one that it passes other requests to. */
export function withPathsOf<Of extends Session = Session>(
  handler: RequestHandler<Of>,
  otherwise: PathHandler<Of> | undefined,
): PathHandler<Of> {
  return otherwise === undefined ? handler : Object.assign(handler, { servesPath: otherwise.servesPath });
}
