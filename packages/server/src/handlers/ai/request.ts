import { type Message, type Metadata, ProtocolError, RequestError, type Session } from '@parlance/protocol';
import { CHAT, chatReplyName, type Fields, get, isFields } from '@parlance/protocol/internal';
import type { UIMessage } from 'ai';

/** One request of a chat. Everything but `session` and `signal` is what the client says: check it before you trust it. */
export interface ChatRequest<ChatMessage extends UIMessage = UIMessage> {
  /** The ID of the chat. */
  readonly id: string;
  /**
   * All messages of the chat, or those that the client's `prepareSendMessagesRequest` chose. Each has an ID, a role and
   * parts; `validateUIMessages` of the AI SDK checks the parts.
   */
  readonly messages: ChatMessage[];
  readonly trigger: 'submit-message' | 'regenerate-message';
  /** The message to regenerate or to edit. */
  readonly messageId: string | undefined;
  /** The `body` of the request and of the transport. */
  readonly body: Readonly<Record<string, unknown>>;
  readonly headers: Headers;
  /** The `metadata` of the request. */
  readonly metadata: unknown;
  /** Aborts when the user stops the answer. Pass it to the model: `abortSignal: signal`. */
  readonly signal: AbortSignal;
  readonly session: Session;
}

/** Whether a request is one of a chat. */
export function isChatRequest(metadata: Metadata): boolean {
  return isFields(get(metadata, CHAT));
}

/** @throws {RequestError} `bad_request`; errors of decoding. */
export function readChatRequest<ChatMessage extends UIMessage>(
  request: Message,
  { metadata, signal, session }: { metadata: Metadata; signal: AbortSignal; session: Session },
): ChatRequest<ChatMessage> {
  const head = get(metadata, CHAT);
  if (!isFields(head)) throw bad('it is not of a chat; the client must use SessionChatTransport');
  const envelope: unknown = request.json();
  if (!isFields(envelope)) throw bad('its body must be an object');
  const id = get(envelope, 'id');
  assertId(id);
  const body = get(envelope, 'body') ?? {};
  if (!isFields(body)) throw bad('body must be an object');
  const messageId = get(envelope, 'messageId');
  if (messageId !== undefined && typeof messageId !== 'string') throw bad('messageId must be a string');
  const trigger = get(envelope, 'trigger');
  if (trigger !== 'submit-message' && trigger !== 'regenerate-message')
    throw bad('trigger must be submit-message or regenerate-message');
  const messages: unknown = get(envelope, 'messages') ?? get(body, 'messages') ?? [];
  assertMessages<ChatMessage>(messages);
  const headers = readHeaders(get(head, 'headers') ?? {});
  return {
    id,
    messages,
    trigger,
    messageId,
    body,
    headers,
    metadata: get(envelope, 'metadata'),
    signal,
    session,
  };
}

function assertId(id: unknown): asserts id is string {
  try {
    chatReplyName(id);
  } catch (error) {
    if (error instanceof ProtocolError) throw bad(error.message);
    throw error;
  }
}

const ROLES: readonly unknown[] = ['system', 'user', 'assistant'];

function assertMessages<ChatMessage extends UIMessage>(messages: unknown): asserts messages is ChatMessage[] {
  if (!Array.isArray(messages)) throw bad('messages must be a list');
  for (const [index, message] of messages.entries()) {
    const isMessage =
      isFields(message) &&
      typeof get(message, 'id') === 'string' &&
      ROLES.includes(get(message, 'role')) &&
      isPartList(get(message, 'parts'));
    if (!isMessage) throw bad(`messages[${index}] must have an id, a role and parts that each have a type`);
  }
}

function isPartList(parts: unknown): boolean {
  return (
    Array.isArray(parts) && parts.every((part) => isFields(part) && typeof get(part, 'type') === 'string')
  );
}

function readHeaders(fields: unknown): Headers {
  const entries: Fields = isFields(fields) ? fields : {};
  try {
    return new Headers(
      Object.entries(entries).map(([name, value]): [string, string] => [name, String(value)]),
    );
  } catch {
    throw bad('its headers are not valid');
  }
}

function bad(reason: string): RequestError {
  return new RequestError('bad_request', `cannot read the request: ${reason}`);
}
