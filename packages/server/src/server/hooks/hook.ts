import type { HandlerReply, Message, RequestContext } from '@parlance/protocol';
import type { ServerSession } from '../../session/served-session.js';

/** A request on its way to `onRequest`. */
export interface RequestHookContext<Data = unknown> extends RequestContext<ServerSession<Data>> {
  readonly kind: 'request';
  readonly message: Message;
}

/** A one-way message or a tensor on its way to the reader of the session. */
export interface MessageHookContext<Data = unknown> {
  readonly kind: 'message';
  readonly message: Message;
  readonly session: ServerSession<Data>;
}

export type HookContext<Data = unknown> = RequestHookContext<Data> | MessageHookContext<Data>;

/** The reply of a handler. */
export type HookReply = HandlerReply;

/**
 * Runs around requests and messages. `next` calls the next hook, and in the end the handler, or hands the message to the
 * reader; without it, the hook answers itself, and a message is dropped.
 *
 * For a request, `next` resolves to the reply of the handler, as it is before it is sent: parts are yielded while the
 * reply is read, after the hook has returned. A hook that returns nothing, or `undefined`, leaves the reply as it is. For
 * a message, it resolves when the reader asks for the one after it, or is left.
 *
 * An error that a hook throws is one of the handler; for a message, of the reader.
 *
 * @typeParam Data of `session.data`.
 */
export type Hook<Data = unknown> = (
  context: HookContext<Data>,
  next: () => Promise<HookReply>,
) => HookReply | Promise<HookReply | ReturnType<() => void>>;
