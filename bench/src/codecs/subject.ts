/**
 * What is measured, in one place: the public API, and behind it the part of a session that chooses
 * and applies codecs. Only this file knows where that lives.
 */

export * from '@parlance/protocol';
export { decodeTextForm, encodeTextForm } from '../../../packages/protocol/src/bare.js';
export { type BodyCoder, createBodyCoder } from '../../../packages/protocol/src/endpoint/body-coder.js';
export { decodeTokenIds } from '../../../packages/protocol/src/tokenizer/varints.js';
