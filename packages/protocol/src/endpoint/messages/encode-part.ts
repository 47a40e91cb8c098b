import type { CodedBody } from '../../codec/body.js';
import type { BodyCoder } from '../../codec/coder.js';
import { type BlobBody, isBlob } from './blob.js';
import { contentOf, type EncodeOptions, encodeContent, type Part } from './part.js';

/** The parts of replies; a page loads this with its first request. */

/** A part that is coded already. */
export class CodedPart {
  readonly body: CodedBody;

  constructor(body: CodedBody) {
    this.body = body;
  }
}

export interface PartCoder {
  readonly coder: BodyCoder;
  /** The bytes of a `Blob`, if the peer accepts as many. */
  readonly read: (blob: BlobBody) => Promise<Uint8Array>;
}

/** @throws {ProtocolError} as `contentOf`; errors of the codec. */
export function encodePart(
  part: Part | CodedPart,
  { coder, read }: PartCoder,
  options: EncodeOptions = {},
): CodedBody | Promise<CodedBody> {
  if (part instanceof CodedPart) return part.body;
  const content = contentOf(part);
  if (!isBlob(content)) return encodeContent(content, coder, options);
  return read(content).then((bytes) => encodeContent(bytes, coder, { ...options, isOwned: true }));
}
