/**
 * Everything under test: the public API, the inner parts of the protocol package that vectors exist for, and
 * the server's relay. Only this file knows where those live.
 */

export * from '@parlance/protocol';
export * from '@parlance/protocol/inspect';
export * from '@parlance/protocol/internal';
export { ByteReader } from '../../packages/protocol/src/base/bytes.js';
export { prefixOf } from '../../packages/protocol/src/base/frame-kind.js';
export { decodeUtf8 } from '../../packages/protocol/src/base/text.js';
export { createBodyCoder } from '../../packages/protocol/src/codec/auto/coder.js';
export { canonicalJson } from '../../packages/protocol/src/codec/avp/canonical-json.js';
export {
  decodeAvpHello,
  decodeAvpTextMessage,
  encodeAvpHello,
  encodeAvpTextMessage,
} from '../../packages/protocol/src/codec/avp/hello.js';
export { canonicalVocabulary } from '../../packages/protocol/src/codec/avp/identity.js';
export {
  decodeKvCacheHeader,
  encodeKvCacheHeader,
  KV_CACHE_HEADER_SIZE,
} from '../../packages/protocol/src/codec/avp/kv-cache.js';
export { parseLosslessJson } from '../../packages/protocol/src/codec/avp/lossless-json.js';
export type { BodyCoder } from '../../packages/protocol/src/codec/coder.js';
export { describeContextBody } from '../../packages/protocol/src/codec/context/body.js';
export { ContextDecoder } from '../../packages/protocol/src/codec/context/decoder.js';
export { ContextEncoder } from '../../packages/protocol/src/codec/context/encoder.js';
export { ReceivedMessage } from '../../packages/protocol/src/endpoint/messages/message.js';
export { decodeMetadata } from '../../packages/protocol/src/endpoint/messages/metadata.js';
export { encodeKept, KEPT, readKept } from '../../packages/protocol/src/endpoint/requests/kept-metadata.js';
export { AliasReader } from '../../packages/protocol/src/link/addressing.js';
export { decodeFailure } from '../../packages/protocol/src/link/failure.js';
export { decodeBodyHead, isBodyKind } from '../../packages/protocol/src/link/frame.js';
export { Assembler } from '../../packages/protocol/src/link/reassembly.js';
export { ManualClock } from '../../packages/protocol/src/testing/manual-clock.js';
export { cryptoSuite, platform } from '../../packages/protocol/src/testing/this-platform.js';
export { decodeTokenIds, encodeTokenIds } from '../../packages/protocol/src/tokenizer/varints.js';
export { Directory } from '../../packages/server/src/agents/directory.js';
export { Policy } from '../../packages/server/src/agents/policy.js';
export { Relay } from '../../packages/server/src/agents/relay.js';
export { ServerEndpoint } from '../../packages/server/src/session/endpoint.js';
