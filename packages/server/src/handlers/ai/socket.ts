import type { IncomingMessage } from 'node:http';
import { ProtocolError, type RequestContext, type Session } from '@parlance/protocol';
import { assertOptions, guardLogger, type OptionKinds, withPathsOf } from '@parlance/protocol/internal';
import type { UIMessage } from 'ai';
import type { Feature } from '../../server/features/feature.js';
import { serveChats } from './connection.js';
import { assertKeep, CHAT_KINDS, type ChatAnswer, type ChatHandlerOptions, chatHandler } from './handler.js';
import type { ChatRequest } from './request.js';

export interface ChatSocketOptions<ChatMessage extends UIMessage = UIMessage>
  extends Omit<ChatHandlerOptions<ChatMessage>, 'otherwise'> {
  /** The path of the WebSockets, such as `/chat`. It differs from that of sessions. */
  readonly path: string;
  /** As of {@link chatHandler}. */
  readonly onChat: (
    request: ChatRequest<ChatMessage>,
  ) => ChatAnswer<ChatMessage> | Promise<ChatAnswer<ChatMessage>>;
  /** The one of the transport's `protocols` that is selected. A browser needs it if the transport has any. @default none */
  readonly subprotocol?: string | undefined;
}

const KINDS: OptionKinds<ChatSocketOptions> = {
  ...CHAT_KINDS,
  path: 'text',
  onChat: 'function',
  subprotocol: 'text',
};

/**
 * The server of an unmodified `WebSocketChatTransport` of the AI SDK (`ai` 7.0.135 or later), which speaks a protocol of its own.
 *
 *     createServer({
 *       authenticate,
 *       features: [chatSocket({
 *         path: '/chat',
 *         onChat: async ({ messages, signal }) =>
 *           streamText({ model, messages: await convertToModelMessages(messages), abortSignal: signal }),
 *       })],
 *     })
 *
 * Each WebSocket has a session within the process, of the principal that `authenticate` names. Its `token` is the parameter `token` of
 * the URL, or that of an `Authorization` header. Answers continue when the WebSocket is closed or lost, and are followed
 * from their first chunk by each WebSocket of the same principal.
 *
 * @throws {ProtocolError} `invalid_option`.
 */
export function chatSocket<ChatMessage extends UIMessage = UIMessage>(
  options: ChatSocketOptions<ChatMessage>,
): Feature {
  assertOptions(options, KINDS as OptionKinds<ChatSocketOptions<ChatMessage>>);
  const { path, onChat, subprotocol, ...rest } = options;
  if (typeof path !== 'string' || !path.startsWith('/')) throw expected('path', 'a path that begins with /');
  if (typeof onChat !== 'function') throw expected('onChat', 'a function');
  assertKeep(rest.keep);
  return {
    name: `chat ${path}`,
    install(host) {
      if (path === host.path) throw expected('path', 'another path than that of sessions');
      const logger = guardLogger(options.logger ?? host.logger);
      const answer = chatHandler(onChat, { ...rest, logger });
      const chats = host.slot(() => 'a chat at this path');
      const begin = async (request: IncomingMessage): Promise<Session> => {
        const session = await host.session(await host.identify(request, tokenOf(request)));
        const found = host.find(session.id);
        if (found !== undefined) chats.of(found);
        return session;
      };
      const isChat = ({ session: { id } }: RequestContext): boolean => {
        const session = host.find(id);
        return session !== undefined && chats.peek(session) !== undefined;
      };
      return {
        wrap: (next) =>
          withPathsOf((message, context) => (isChat(context) ? answer : next)(message, context), next),
        upgrade: (asked) =>
          asked !== path
            ? undefined
            : { subprotocol, open: (socket, { request }) => serveChats(socket, begin(request), logger) },
      };
    },
  };
}

/** Browsers set no headers for a WebSocket. Without the parameter, that of an `Authorization` header counts. */
function tokenOf({ url = '' }: IncomingMessage): { readonly token?: string } {
  const token = new URLSearchParams(url.slice(url.indexOf('?') + 1)).get('token');
  return token === null ? {} : { token };
}

function expected(option: string, what: string): ProtocolError {
  return new ProtocolError('invalid_option', `chatSocket: ${option}: ${what} is expected`);
}
