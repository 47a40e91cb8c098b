/**
 * The parts that `@parlance/client` is built of. Not part of the public API: it changes without notice.
 *
 * It reaches nothing that a page loads later: a bundler puts everything that this file reaches into the first chunk.
 */

// Options

export { withArticle } from './base/article.js';
export {
  Algorithm,
  Extension,
  HELLO_OFFER,
  HELLO_READ,
  MAX_EARLY_HELLO,
  Subprotocol,
} from './base/constants.js';
export { CLIENT_LIMITS, limitsWithin, resolveLimits, resolveTimers } from './base/limits.js';
export { assertOptions, type OptionKinds } from './base/options.js';
export { formOf } from './codec/algorithms.js';
export { isStatedAgentId } from './control/capabilities.js';
export { CLIENT_FORMS } from './control/forms.js';
export { agentExtension } from './endpoint/agents/introduction.js';
export { CAPABILITY_KINDS } from './endpoint/options.js';

// Errors and close codes

export { sentenceOf } from '#sentences';
export { CloseCode } from './base/close-codes.js';
export { isProtocolError, ProtocolError, RequestError } from './base/errors.js';

// The session and its endpoint

export { SELF, workAsTheyAre } from './base/as-they-are.js';
export { CloseReason, type LaterCodec } from './control/messages.js';
export { Endpoint } from './endpoint/endpoint.js';
export type { EndpointOptions } from './endpoint/endpoint-options.js';
export { sessionClosed } from './endpoint/host.js';
export { Listeners } from './endpoint/listeners.js';
export { type Mailbox, type Received, SessionMailbox } from './endpoint/messages/mailbox.js';
export type { CallHooks, Outbound, Performance, PerformOptions } from './endpoint/outbound.js';
export { SILENT_LOGGER, type Wire } from './endpoint/ports.js';
export { LateReply } from './endpoint/requests/late-reply.js';
export { replyFields } from './endpoint/requests/reply-fields.js';
export type { StreamQueue } from './endpoint/requests/stream-queue.js';
export { EndOfSession } from './endpoint/session-end.js';
export { UserSession } from './endpoint/user-session.js';
export type { UserOutbound, UserSessionHost } from './endpoint/user-session-host.js';
export type { ChannelModule } from './session/channel-module.js';
export { nothingSent } from './session/closed-channel.js';
export { createClientSession } from './session/create-client.js';
export type { Ticket } from './session/resume-ticket.js';

// Bodies that wait for a session, and those that cross from one thread to another

export { copyBytes } from './base/bytes.js';
export { parseContent } from './base/json.js';
export { showAs } from './base/shown.js';
export { decodeUtf8, encodeUtf8 } from './base/text.js';
export { keptInit } from './endpoint/http/kept-init.js';
export { type BlobBody, isBlob, readBlob } from './endpoint/messages/blob.js';
export { Inbox, readTwice } from './endpoint/messages/inbox.js';
export { explainText, messageFields } from './endpoint/messages/message.js';
export { type Content, contentOf, isTokens, ownContent, sizeOf } from './endpoint/messages/part.js';
export { isReachable } from './link/addressing.js';

// Chats of the AI SDK

export { get, isFields } from './base/fields.js';
export { CHAT, type ChatEnvelope, CONTINUATION, chatReplyName } from './endpoint/chat/chat.js';
export { type ChatParts, chatChunks, runningAnswer } from './endpoint/chat/chunks.js';

// Loaded later

export { codecs } from '#codecs';
export { parts } from '#parts';
export { type Loadable, loadable } from './base/loadable.js';
export { type CodecLoader, codecLoader } from './endpoint/codec-loader.js';

// Clocks, guards and logs

export { atOnce, called, catchLate, notify, readable } from './base/callbacks.js';
export { unlessAborted, whenAborted } from './base/when-aborted.js';
export { createErrorPrinter, reportError } from './endpoint/error-report.js';
export { attempt, type Crashable, GuardedClock, guard, guardLater, guardLogger } from './endpoint/guard.js';
export { loggable } from './endpoint/loggable.js';
export { sweepInterval } from './endpoint/options.js';
export { type Clock, createSweep, type Sweep, type Sweepable, systemClock } from './platform/clock.js';
