import { Buffer } from 'node:buffer';
import { isProtocolError } from '@parlance/protocol';
import { EventReader } from '@parlance/protocol/internal';
import { GatewayFailure } from './failure.js';
import type { Secret } from './secret.js';

/**
 * Turns each complete event of a stream into a part of a reply. Comments and reconnection times belong to
 * the connection to the upstream and are dropped, and so is an incomplete event at the end.
 *
 * @param maxLength longest incomplete event, in UTF-16 units.
 * @throws {GatewayFailure} `upstream_unusable` if the stream is not UTF-8 or an event exceeds the limit.
 */
export async function* readEventParts(
  chunks: AsyncIterable<Uint8Array>,
  maxLength: number,
  secret: Secret,
): AsyncGenerator<string> {
  const reader = new EventReader(maxLength);
  const decoder = new TextDecoder('utf-8', { fatal: true });
  for await (const chunk of chunks) {
    const text = decode(decoder, chunk);
    try {
      for (const part of reader.push(text)) yield secret.hide(part);
    } catch (cause) {
      if (!isProtocolError(cause) || cause.code !== 'message_too_large') throw cause;
      throw new GatewayFailure('upstream_unusable', `the upstream sent ${cause.message}`, { cause });
    }
  }
}

/** UTF-16 units of a piece; longer pieces compress no better. */
const PIECE_LENGTH = 64 * 1024;

/**
 * Passes on a body that is not an event stream, in a single piece if it is short.
 *
 * @throws {GatewayFailure} `upstream_unusable` if the body is not UTF-8.
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
    // Hold back a possible beginning of the secret until the rest arrives.
    const end = endOfCharacter(text, text.length - Math.max(0, secret.length - 1));
    yield text.slice(0, end);
    text = text.slice(end);
  }
  text = secret.hideEncoded(text + decode(decoder));
  if (text !== '') yield text;
}

/** Passes on a body that is not text, byte for byte but for the secret. */
export async function* readBytePieces(
  chunks: AsyncIterable<Uint8Array>,
  secret: Secret,
): AsyncGenerator<Uint8Array> {
  // Latin-1 has a character for each byte.
  let text = '';
  for await (const chunk of chunks) {
    text += Buffer.from(chunk.buffer, chunk.byteOffset, chunk.length).toString('latin1');
    if (text.length < PIECE_LENGTH + secret.length) continue;
    text = secret.hideEncoded(text);
    const end = text.length - Math.max(0, secret.length - 1);
    yield Buffer.from(text.slice(0, end), 'latin1');
    text = text.slice(end);
  }
  text = secret.hideEncoded(text);
  if (text !== '') yield Buffer.from(text, 'latin1');
}

/** Moves the end out of a surrogate pair, as half of one has no UTF-8 form. */
function endOfCharacter(text: string, end: number): number {
  const unit = text.charCodeAt(end - 1);
  return unit >= 0xd800 && unit <= 0xdbff ? end - 1 : end;
}

function decode(decoder: InstanceType<typeof TextDecoder>, chunk?: Uint8Array): string {
  try {
    return chunk === undefined ? decoder.decode() : decoder.decode(chunk, { stream: true });
  } catch (cause) {
    throw new GatewayFailure('upstream_unusable', 'the upstream sent bytes that are not UTF-8', { cause });
  }
}
