import type { RequestHandler } from '../requests/responder.js';

/** A request handler that knows which HTTP requests it answers, so that `onFetch` gets the others. */
export type PathHandler = RequestHandler & { readonly servesPath?: ((path: string) => boolean) | undefined };

/** Makes a handler serve the paths of the one that it passes other requests to. */
export function withPathsOf(handler: RequestHandler, otherwise: PathHandler | undefined): PathHandler {
  return otherwise === undefined ? handler : Object.assign(handler, { servesPath: otherwise.servesPath });
}
