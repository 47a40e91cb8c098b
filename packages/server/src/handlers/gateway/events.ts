import { isProtocolError } from '@parlance/protocol';
import { asIsOf, EventParts, type EventPartsOptions, Pieces } from '@parlance/protocol/internal';
import { GatewayFailure } from './failure.js';
import type { Secret } from './secret.js';

type Chunks = AsyncIterable<Uint8Array>;

/**
 * The parts of a reply for a body that is labelled as events: see {@link EventParts}.
 *
 * @throws {GatewayFailure} `upstream_unusable` if an event exceeds the limit.
 */
export async function* readEventParts(
  chunks: Chunks,
  secret: Secret,
  options: EventPartsOptions,
): AsyncGenerator<string | Uint8Array> {
  const events = new EventParts(options);
  try {
    for await (const chunk of withoutSecret(chunks, secret)) yield* events.push(chunk);
  } catch (cause) {
    if (!isProtocolError(cause) || cause.code !== 'message_too_large') throw cause;
    throw new GatewayFailure('upstream_unusable', `the upstream sent ${cause.message}`, { cause });
  }
  yield* events.end();
}

/** The parts of a reply for a reader of events alone: the last event needs no blank line, and a body that is not events is passed on. */
export async function* readEventsAlone(
  chunks: Chunks,
  secret: Secret,
  options: EventPartsOptions,
): AsyncGenerator<string | Uint8Array> {
  async function* ended(): AsyncGenerator<Uint8Array> {
    yield* chunks;
    yield BLANK_LINE;
  }
  for await (const part of readEventParts(ended(), secret, options)) {
    yield asIsOf(Buffer.from(part)) ?? part;
  }
}

const BLANK_LINE = Buffer.from('\n\n');

/** Passes on a body that is not events as it comes, byte for byte but for the secret. @param isText whether it is expected to be text */
export async function* readPieces(
  chunks: Chunks,
  secret: Secret,
  isText: boolean,
): AsyncGenerator<string | Uint8Array> {
  const pieces = new Pieces(isText);
  for await (const chunk of withoutSecret(chunks, secret)) yield* pieces.push(chunk);
  yield* pieces.end();
}

async function* withoutSecret(chunks: Chunks, secret: Secret): AsyncGenerator<Uint8Array> {
  const filter = secret.filter();
  for await (const chunk of chunks) {
    const passed = filter.push(chunk);
    if (passed.length > 0) yield passed;
  }
  const rest = filter.end();
  if (rest.length > 0) yield rest;
}
