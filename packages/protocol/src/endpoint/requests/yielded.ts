import { BodyCodec, type CodedBody } from '../../codec/body.js';
import type { BodyCoder, PartText } from '../../codec/coder.js';
import { type Message, ReceivedMessage } from '../messages/message.js';

/** The parts of a reply that a dead node has recorded, without those that carry metadata alone. */
export function messagesOf(yielded: readonly CodedBody[], coder: BodyCoder): readonly Message[] {
  let tokens: PartText | undefined;
  return yielded.filter(hasContent).map((body) => {
    // A character may be split between two parts of tokens.
    tokens = body.codec === BodyCodec.TOKEN_NATIVE ? (tokens ?? coder.createPartText()) : undefined;
    return new ReceivedMessage({ ...body, charge: 0 }, coder, tokens);
  });
}

/** Whether a body is a part of the reply, and does not only carry metadata. */
export const hasContent = ({ metadata, bytes, originalLength }: CodedBody): boolean =>
  metadata === undefined || (bytes.length > 0 && originalLength > 0);
