import type { RequestHandler } from '../requests/responder.js';
import type { Session } from '../session.js';

/** A request handler that knows which HTTP requests it answers, so that `onFetch` gets the others. */
export type PathHandler<Of extends Session = Session> = RequestHandler<Of> & {
  readonly servesPath?: ((path: string) => boolean) | undefined;
  /** Called when a session begins, which may send requests soon. Errors are logged, and change nothing else. */
  readonly prepare?: (() => void) | undefined;
};

/** Makes a handler serve the paths of the one that it passes other requests to, and prepare it. */
export function withPathsOf<Of extends Session = Session>(
  handler: RequestHandler<Of>,
  otherwise: PathHandler<Of> | undefined,
): PathHandler<Of> {
  if (otherwise === undefined) return handler;
  const { servesPath, prepare } = otherwise;
  return Object.assign(handler, { servesPath, prepare });
}
