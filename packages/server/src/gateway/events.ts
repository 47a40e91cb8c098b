import { encodeEventPart } from '@parlance/protocol';
import { createParser } from 'eventsource-parser';
import { GatewayFailure } from './failure.js';
import type { Secret } from './secret.js';

/**
 * The events of a stream as parts of a reply, as soon as each is complete. Comments and reconnection
 * times are for the connection to the upstream and go no further; what is incomplete at the end is no
 * event.
 *
 * @param maxLength characters of an event that is not complete.
 * @throws {GatewayFailure} `upstream_unusable` for what is no UTF-8, or an event beyond the limit.
 */
export async function* readEventParts(
  chunks: AsyncIterable<Uint8Array>,
  maxLength: number,
  secret: Secret,
): AsyncGenerator<string> {
  let parts: string[] = [];
  let isTooLong = false;
  const parser = createParser({
    maxBufferSize: maxLength,
    onEvent: (event) => parts.push(secret.hide(encodeEventPart(event))),
    onError(error) {
      // Fields that nobody knows are passed over, as the specification wants it.
      if (error.type === 'max-buffer-size-exceeded') isTooLong = true;
    },
  });
  const decoder = new TextDecoder('utf-8', { fatal: true });
  for await (const chunk of chunks) {
    parser.feed(decode(decoder, chunk));
    const complete = parts;
    parts = [];
    yield* complete;
    if (isTooLong) {
      throw new GatewayFailure(
        'upstream_unusable',
        `the upstream sent an event of over ${maxLength} characters`,
      );
    }
  }
}

/** Characters of a piece; longer text compresses no better. */
const PIECE_LENGTH = 64 * 1024;

/**
 * A body that is no stream of events, as it is: in one piece where it is short.
 *
 * @throws {GatewayFailure} `upstream_unusable` for what is no UTF-8.
 */
export async function* readTextPieces(
  chunks: AsyncIterable<Uint8Array>,
  secret: Secret,
): AsyncGenerator<string> {
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
  let text = '';
  for await (const chunk of chunks) {
    text += decode(decoder, chunk);
    if (text.length < PIECE_LENGTH + secret.length) continue;
    text = secret.hideEncoded(text);
    // What may be the beginning of the secret waits for the rest of it.
    const end = endOfCharacter(text, text.length - Math.max(0, secret.length - 1));
    yield text.slice(0, end);
    text = text.slice(end);
  }
  text = secret.hideEncoded(text + decode(decoder));
  if (text !== '') yield text;
}

/** Half a character has no UTF-8. */
function endOfCharacter(text: string, end: number): number {
  const unit = text.charCodeAt(end - 1);
  return unit >= 0xd800 && unit <= 0xdbff ? end - 1 : end;
}

function decode(decoder: InstanceType<typeof TextDecoder>, chunk?: Uint8Array): string {
  try {
    return chunk === undefined ? decoder.decode() : decoder.decode(chunk, { stream: true });
  } catch (cause) {
    throw new GatewayFailure('upstream_unusable', 'the upstream sent what is no UTF-8 text', { cause });
  }
}
