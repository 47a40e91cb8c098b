/**
 * Shared by `@parlance/server` and `@parlance/client`. Not part of the public API: it changes without notice.
 */

// Options

export { isSet } from './base/limits.js';
export { HELLO_OFFER, HELLO_READ, MAX_EARLY_HELLO } from './base/constants.js';
export { withArticle } from './base/article.js';
export { addForeignMethods, type ForeignNames, foreignOption } from './base/foreign-names.js';
export { assertOptions, type OptionKinds } from './base/options.js';
export { resolveSecurity } from './codec/m2m/security.js';
export { isStatedAgentId } from './control/capabilities.js';
export { resolveCapabilities } from './endpoint/offer.js';
export { CAPABILITY_KINDS } from './endpoint/options.js';
export { resolveBatchOptions, type ResolvedBatchOptions } from './endpoint/requests/batch-options.js';

// Endpoints and their drivers

export { SELF, workAsTheyAre } from './base/as-they-are.js';
export { showAs } from './base/shown.js';
export { AgreementCache, type Answer } from './control/agreement.js';
export type { EndpointOptions } from './endpoint/endpoint-options.js';
export { Endpoint } from './endpoint/endpoint.js';
export { endpointOf } from './endpoint/endpoint-of.js';
export { isBlob, readBlob } from './endpoint/messages/blob.js';
export {
  type Content,
  assertKept,
  contentOf,
  encodeContent,
  isAsyncIterable,
  ownContent,
} from './endpoint/messages/part.js';
export { Listeners } from './endpoint/listeners.js';
export { type Mailbox, type Received, SessionMailbox } from './endpoint/messages/mailbox.js';
export type { Outbound } from './endpoint/outbound.js';
export { hostOf, UserSession } from './endpoint/user-session.js';
export type { UserSessionHost } from './endpoint/user-session-host.js';
export { extendSession } from './endpoint/additions.js';
export type { ContentScanner, Scannable, ScannerHost } from './endpoint/ports.js';
export type { BodyEvent } from './endpoint/messages/intake.js';
export type { EventRoute, Wire } from './endpoint/ports.js';
export { closeReasonOf, truncateReason, withCloseCode } from './session/close-reason.js';
export { readHello, rejectFrame, repeated, waitFrame } from './session/hello.js';
export { answerTo } from './session/resuming.js';
export {
  incarnationOf,
  isLocalPrincipal,
  newIncarnation,
  newLocalPrincipal,
  newSessionId,
} from './session/random-id.js';

// Sessions that move to another process

export { loadAgreed } from './endpoint/codec-loader.js';
export { createServerSession, restoreSession } from './session/create-server.js';
export { checkAccepted, restoreDurableSession } from './session/durable/restore.js';
export { readBegin } from './session/durable/begin.js';
export type { CallOptions } from './endpoint/requests/responder.js';
export type { BodyToSend } from './link/body-to-send.js';
export { type DurableRecord, fencedError } from './session/durable/record.js';
export type {
  NumberedBody,
  SessionBegin,
  DurableSession,
  Commit,
} from './session/durable-session.js';
export {
  CONTAINER_FORMAT,
  decodeSnapshot,
  encodeSnapshot,
  MAX_SNAPSHOT_SIZE,
  SNAPSHOT_FORMAT,
} from './session/snapshot.js';
export { listsOf, orNull, trimmed, ValueList } from './base/value-list.js';
export { ReceivedMessage } from './endpoint/messages/message.js';
export type { ServerSessionCore } from './session/types.js';

// Clocks and timers

export { GuardedClock } from './endpoint/guard.js';
export { sweepInterval } from './endpoint/options.js';
export { type Clock, createSweep, type Sweep, type Sweepable, systemClock } from './platform/clock.js';

// Guards and logs

export { toProtocolError } from './base/errors.js';
export { attempt, type Crashable, guard, guardLater, guardLogger, logCrash } from './endpoint/guard.js';
export {
  ask,
  atOnce,
  called,
  catchLate,
  comesOfStopping,
  isThenable,
  notify,
  readable,
} from './base/callbacks.js';
export { withResolvers } from './base/resolvers.js';
export { unlessAborted, whenAborted } from './base/when-aborted.js';
export { createErrorPrinter, reportError } from './endpoint/error-report.js';
export { loggable, type LoggableError } from './endpoint/loggable.js';
export { SILENT_LOGGER } from './endpoint/ports.js';

// Bytes and bodies

export { cryptoSuite } from '#crypto';
export { ByteReader, ByteWriter, copyBytes, varintLength, writeVarint } from './base/bytes.js';
export { isSized } from './codec/body.js';
export { createBodyCoder } from './codec/auto/coder.js';
export { loadedEncodings } from './tokenizer/loaded.js';
export { incompleteLength } from './tokenizer/stream-decoder.js';

// Memory and rates

export { overBudget, type Reservation, SessionMemory } from './base/memory.js';
export { MemoryBudget } from './base/memory-budget.js';
export { Fifo } from './base/fifo.js';
export { TokenBucket } from './base/token-bucket.js';

// Kept replies

export { type Fields, get, isCount, isFields } from './base/fields.js';
export { parseContent } from './base/json.js';
export { CodedPart } from './endpoint/messages/encode-part.js';
export { decodeMetadata, encodeMetadata, REDELIVERED } from './endpoint/messages/metadata.js';
export type { ReplyInfo } from './endpoint/requests/follow.js';
export {
  DEFAULT_REPLY_TTL_MS,
  type KeptBefore,
  type KeptRequest,
  isReplyName,
  REPLY_ID_PREFIX,
  type ReplyKeeper,
  type ReplyRecorder,
  resolveKeepOptions,
  type TakenUp,
} from './endpoint/requests/keeping.js';
export { encodeKept, KEPT, readKept } from './endpoint/requests/kept-metadata.js';
export { hasContent } from './endpoint/requests/yielded.js';
export { countable } from './endpoint/requests/output.js';
export { replyFields } from './endpoint/requests/replies.js';
export type { OwnContext } from './endpoint/requests/handler-context.js';
export { partsIn } from './endpoint/requests/handler-reply.js';
export type { StreamQueue } from './endpoint/requests/stream-queue.js';
export { type OwnHandler, unanswered } from './endpoint/requests/responder.js';
export { decodeFailure, encodeFailure } from './link/failure.js';
export { newReplyId, nodeOfReply } from './session/random-id.js';

// HTTP in a session

export { asIsOf } from './endpoint/http/events.js';
export { EventParts, type EventPartsOptions } from './endpoint/http/event-parts.js';
export { decodeIncoming, type IncomingHead } from './endpoint/http/head.js';
export { type PathHandler, withPathsOf } from './endpoint/http/paths.js';
export { isEventStream, isJsonType, isTextType, mediaTypeOf } from './endpoint/http/media-type.js';
export { messageLimitOf } from './endpoint/http/message-limit.js';
export { Pieces } from './endpoint/http/pieces.js';
export { collectUpload, readUpload } from './endpoint/http/uploads.js';
export { withHead } from './endpoint/http/with-head.js';

// Chats of the AI SDK

export {
  CHAT,
  type ChatEnvelope,
  type Continuation,
  CONTINUATION,
  chatReplyName,
} from './endpoint/chat/chat.js';
export { chatChunks, runningAnswer } from './endpoint/chat/chunks.js';

// Agents and the relay

export type { BodyCoder, PartText } from './codec/coder.js';
export {
  decodeChanges,
  type DirectoryChanges,
  type DirectoryQuery,
  newsFields,
} from './endpoint/agents/agents.js';
export { encodeUndelivered } from './endpoint/messages/delivery.js';
export { type AgentDescription, readAgent } from './endpoint/agents/description.js';
export { MAX_AGENT_METADATA } from './endpoint/agents/introduction.js';
export { DELIVERY, DIRECTORY, REPLIES, SWITCHED_EXTENSIONS } from './base/constants.js';
export { isAgentAddress, isAgentId } from './link/addressing.js';
export { TRANSFER_OVERHEAD } from './link/reassembly.js';
export { MAX_PIECE_SIZE } from './link/body-writer.js';

// The scan of relayed bodies

export { truncateUnits } from './base/text.js';
export type { AvpHead } from './codec/avp/head.js';
export { TransferReader } from './codec/avp/transfer.js';
export { TensorMessage } from './endpoint/tensors/message.js';
export { StatsRecorder } from './endpoint/stats.js';
export type { Traffic } from './endpoint/traffic.js';
