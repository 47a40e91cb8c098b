import { ProtocolError, type RequestHandler } from '@parlance/protocol';
import type { ServerSession } from '../../session/served-session.js';
import type { Hook, HookContext, HookReply } from './hook.js';

/**
 * Runs hooks, the first one outermost, around `last`.
 *
 * @throws {ProtocolError} `invalid_argument` for a hook that calls `next` twice, which would handle a message twice.
 */
export async function runHooks(
  hooks: readonly Hook[],
  context: HookContext,
  last: () => HookReply | Promise<HookReply>,
): Promise<HookReply> {
  const run = async (index: number): Promise<HookReply> => {
    const hook = hooks[index];
    if (hook === undefined) return await last();
    let passed: Promise<HookReply> | undefined;
    let isOver = false;
    let reply: HookReply;
    const pass = async (): Promise<HookReply> => {
      if (passed !== undefined)
        throw new ProtocolError('invalid_argument', 'hooks: a hook may call next only once');
      try {
        reply = await run(index + 1);
        return reply;
      } finally {
        isOver = true;
      }
    };
    const returned = await hook(context, () => {
      const called = pass();
      // A hook that fails itself, or does not wait, leaves it without a reader.
      called.catch(() => {});
      passed ??= called;
      return called;
    });
    if (returned !== undefined) return returned;
    return isOver ? reply : await passed;
  };
  return await run(0);
}

/** The handler with hooks around it. */
export function hookRequests(handler: RequestHandler, hooks: readonly Hook[]): RequestHandler {
  if (hooks.length === 0) return handler;
  return async (message, context) => {
    // Each session of a server is a `ServerSession`.
    const session = context.session as ServerSession;
    const request: HookContext = { ...context, session, kind: 'request', message };
    return await runHooks(hooks, request, () => handler(message, context));
  };
}
