import {
  type KeepOptions,
  type Logger,
  type Message,
  type Metadata,
  ProtocolError,
  type RequestContext,
  type RequestHandler,
} from '@parlance/protocol';
import { catchLate, loggable } from '@parlance/protocol/internal';

/** Whether a reply is kept whose handler does not call `keep`. */
export type KeepPolicy =
  | boolean
  | KeepOptions
  | ((request: Message, context: { readonly metadata: Metadata }) => boolean | KeepOptions | undefined);

/** A handler whose reply is kept if the policy says so, before it runs. */
export function keepReplies(handler: RequestHandler, policy: KeepPolicy, logger: Logger): RequestHandler {
  if (policy === false) return handler;
  return (request, context) => {
    keepByPolicy(policy, request, context, logger);
    return handler(request, context);
  };
}

/**
 * Keeps a reply if the policy says so. If it cannot be kept, that is logged, and it is sent as usual.
 *
 * @param defaults options that the policy does not set.
 * @returns whether it is kept.
 */
export function keepByPolicy(
  policy: KeepPolicy,
  request: Message,
  context: RequestContext,
  logger: Logger,
  defaults: KeepOptions = {},
): boolean {
  try {
    const chosen = typeof policy === 'function' ? policy(request, context) : policy;
    if (chosen === undefined || chosen === false) return false;
    // A promise has no properties of its own, so every reply would be kept; if it rejects, the process would end.
    if (typeof chosen === 'object' && 'then' in chosen) {
      catchLate(chosen, () => {});
      throw new ProtocolError('invalid_option', 'keep: the function must not return a promise');
    }
    return context.keep(chosen === true ? defaults : { ...defaults, ...chosen }) !== undefined;
  } catch (error) {
    const fields = { event: 'reply.unkept', session: context.session.id, err: loggable(error) };
    logger.warn(fields, 'a reply cannot be kept and is sent as usual');
    return false;
  }
}
