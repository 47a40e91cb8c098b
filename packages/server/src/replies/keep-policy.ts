import type { Logger, RequestHandler } from '@parlance/protocol';
import { loggable } from '@parlance/protocol/internal';
import type { KeepPolicy } from './options.js';

/** A handler whose replies are kept if the policy says so, before it runs. */
export function keepReplies(handler: RequestHandler, policy: KeepPolicy, logger: Logger): RequestHandler {
  if (policy === false) return handler;
  return (request, context) => {
    try {
      const chosen = typeof policy === 'function' ? policy(request, context) : policy;
      if (chosen !== undefined && chosen !== false) context.keep(chosen === true ? {} : chosen);
    } catch (error) {
      const fields = { event: 'reply.unkept', session: context.session.id, err: loggable(error) };
      logger.warn(fields, 'a reply cannot be kept and is sent as usual');
    }
    return handler(request, context);
  };
}
