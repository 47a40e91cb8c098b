/**
 * What is under test, in one place: the public API, and behind it the parts of the protocol package
 * that vectors exist for and that sessions use inside, and the server's relay. Only this file knows where
 * those live.
 */

export * from '@parlance/protocol';
export { canonicalJson } from '../../packages/protocol/src/avp/canonical-json.js';
export {
  decodeAvpHello,
  decodeAvpTextMessage,
  encodeAvpHello,
  encodeAvpTextMessage,
} from '../../packages/protocol/src/avp/hello.js';
export { canonicalVocabulary } from '../../packages/protocol/src/avp/identity.js';
export {
  decodeKvCacheHeader,
  encodeKvCacheHeader,
  KV_CACHE_HEADER_SIZE,
} from '../../packages/protocol/src/avp/kv-cache.js';
export { parseLosslessJson } from '../../packages/protocol/src/avp/lossless-json.js';
export { ByteReader } from '../../packages/protocol/src/bytes.js';
export { describeContextBody } from '../../packages/protocol/src/context/body.js';
export { ContextDecoder } from '../../packages/protocol/src/context/decoder.js';
export { ContextEncoder } from '../../packages/protocol/src/context/encoder.js';
export { type BodyCoder, createBodyCoder } from '../../packages/protocol/src/endpoint/body-coder.js';
export { createMessage } from '../../packages/protocol/src/endpoint/message.js';
export { decodeMetadata } from '../../packages/protocol/src/endpoint/metadata.js';
export { prefixOf } from '../../packages/protocol/src/frame.js';
export { AliasReader } from '../../packages/protocol/src/link/addressing.js';
export { Assembler } from '../../packages/protocol/src/link/assembly.js';
export { decodeFailure } from '../../packages/protocol/src/link/failure.js';
export { decodeBodyHead, isBodyKind } from '../../packages/protocol/src/link/header.js';
export { platform } from '../../packages/protocol/src/testing/this-platform.js';
export { decodeUtf8 } from '../../packages/protocol/src/text.js';
export { decodeTokenIds, encodeTokenIds } from '../../packages/protocol/src/tokenizer/varints.js';
export { Directory } from '../../packages/server/src/directory.js';
export { Policy } from '../../packages/server/src/relay/policy.js';
export { Relay } from '../../packages/server/src/relay/relay.js';
