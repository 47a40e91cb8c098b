import { ProtocolError } from '../../base/errors.js';
import { assertWellFormed } from '../../base/text.js';
import { isReplyName, MAX_REPLY_NAME } from '../requests/keeping.js';

/**
 * Requests of the AI SDK's `useChat`, by convention: their metadata has the entry `ai_chat`, their body is a
 * {@link ChatEnvelope} as JSON, and each part of their reply is a UI message chunk, or a {@link Continuation}.
 */

/** The entry of the metadata that marks a request as one of a chat. */
export const CHAT = 'ai_chat';

/** The body of a request; everything in it is of the application. */
export interface ChatEnvelope {
  /** The ID of the chat. */
  readonly id: string;
  readonly trigger: string;
  readonly messageId?: string | undefined;
  /** Absent if the application prepares the body itself. */
  readonly messages?: readonly unknown[] | undefined;
  readonly body?: object | undefined;
  readonly metadata?: unknown;
}

/**
 * The first part of a reply that continues the last message of the request: that message. Who has asked has it already,
 * and who follows from the first part has not.
 */
export interface Continuation {
  readonly type: typeof CONTINUATION;
  readonly message: object;
}

/** The type of a part that is not a chunk. Types of data chunks begin with `data-`, and no other has a dot. */
export const CONTINUATION = 'parlance.continuation';

const PREFIX = 'chat:';
/** Bytes of the ID of a chat. */
const MAX_CHAT_ID = MAX_REPLY_NAME - PREFIX.length;

/**
 * The name under which the answer of a chat is kept: `chat:` and its ID.
 *
 * @throws {ProtocolError} `invalid_argument` for an ID that is not a string of 1 to 123 bytes; `lone_surrogate`.
 */
export function chatReplyName(id: unknown): string {
  if (typeof id === 'string' && id !== '' && isReplyName(PREFIX + id)) {
    assertWellFormed(id);
    return PREFIX + id;
  }
  throw new ProtocolError('invalid_argument', `the ID of a chat must have 1 to ${MAX_CHAT_ID} bytes`);
}
