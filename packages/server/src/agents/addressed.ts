import type { BodyToSend, CodedBody } from '@parlance/protocol';
import { decodeMetadata, encodeMetadata, REDELIVERED } from '@parlance/protocol/internal';

/**
 * A body with the name of its sender.
 *
 * @param onWritten called with the number of its last frame.
 * @param onDropped called if it will not be written.
 */
export function addressed(
  { codec, bytes, originalLength, secret, metadata, deferred }: CodedBody,
  agent: string | undefined,
  onWritten: (frame: number) => void,
  onDropped?: () => void,
): BodyToSend {
  // The reply to an agent's request is relayed too.
  const relayed = agent !== undefined;
  // Field by field: spreading takes as long as all other work of the relay on a message.
  return {
    codec,
    bytes,
    originalLength,
    secret,
    metadata,
    deferred,
    address: agent,
    onWritten,
    onDropped,
    relayed,
  };
}

/** Deepest nesting of metadata that is read here, which its receiver reads anyway. */
const MAX_DEPTH = 32;

/**
 * A one-way message that says whether it may have been delivered before; its sender cannot say that.
 *
 * @throws {ProtocolError} what decoding metadata throws, and `metadata_too_large` if it has to say so.
 */
export function marked(body: CodedBody, isRedelivered: boolean, maxSize: number): CodedBody {
  if (body.metadata === undefined && !isRedelivered) return body;
  const { [REDELIVERED]: _stated, ...metadata } = decodeMetadata(body.metadata, MAX_DEPTH);
  const all = isRedelivered ? { ...metadata, [REDELIVERED]: true } : metadata;
  return { ...body, metadata: encodeMetadata(all, maxSize) };
}
