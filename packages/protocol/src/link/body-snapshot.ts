import { codecs } from '#codecs';
import { ProtocolError } from '../base/errors.js';
import { orNull, trimmed, ValueList } from '../base/value-list.js';
import { BodyCodec } from '../codec/body.js';
import { codedInContext } from '../codec/context/snapshot.js';
import { isReachable, MAX_NAME } from './addressing.js';
import { type BodyKind, isBodyKind, LinkKind as Kinds, type LinkKind, type OutgoingBody } from './frame.js';

/**
 * Queued and kept bodies as plain values. A body that is still to be coded in context travels as its content, and is
 * coded after the move against the context that has moved with it. Callbacks stay behind.
 */

const SECRET = 1;
const DEFERRED = 2;

export function bodyValues(body: OutgoingBody): readonly unknown[] {
  const { kind, codec, secret, deferred, originalLength, bytes, metadata, address, uncoded } = body;
  const flags = (secret ? SECRET : 0) + (deferred === undefined ? 0 : DEFERRED);
  return trimmed([
    ...[kind, codec, flags, bytes],
    originalLength === bytes.length ? null : originalLength,
    orNull(metadata),
    orNull(address),
    uncoded === undefined ? null : bodyValues(uncoded),
  ]);
}

export interface BodyBounds {
  readonly streamId: number;
  /** Context was negotiated. */
  readonly hasContext: boolean;
  readonly maxMetadataSize: number;
  readonly isUncoded?: boolean;
}

/**
 * @throws {ProtocolError} `bad_message`; `codec_not_loaded` if the body has to be coded in context and that code is
 * not loaded.
 */
export function readBody(value: unknown, bounds: BodyBounds): OutgoingBody {
  const list = new ValueList(value, 'a body');
  const kind = kindOf(list, bounds.streamId);
  const codec = codecOf(list, bounds);
  const flags = list.count(SECRET + DEFERRED);
  const bytes = list.bytes();
  const originalLength = list.optional((one) => one.count()) ?? bytes.length;
  const metadata = list.optional((one) => one.bytes(bounds.maxMetadataSize));
  const address = list.optional((one) => one.text(MAX_NAME));
  const uncoded = list.optional((one) => one.value());
  if (address !== undefined && !isReachable(address)) throw list.bad('to a name that can be addressed');
  const isDeferred = (flags & DEFERRED) !== 0;
  if (isDeferred && (!bounds.hasContext || codec !== BodyCodec.PLAIN || bytes.length !== originalLength))
    throw list.bad('plain content if it is to be coded in context');
  if (isDeferred) assertLoaded();
  if (uncoded !== undefined && (bounds.isUncoded || codec !== BodyCodec.CONTEXT))
    throw list.bad('coded in context if it is kept uncoded as well');
  return {
    kind,
    streamId: bounds.streamId,
    codec,
    bytes,
    originalLength,
    secret: (flags & SECRET) !== 0,
    metadata,
    deferred: isDeferred ? codedInContext(bytes) : undefined,
    address,
    alias: undefined,
    uncoded: uncoded === undefined ? undefined : readBody(uncoded, { ...bounds, isUncoded: true }),
  };
}

/** One-way messages are on stream 0, and nothing else is. */
function kindOf(list: ValueList, streamId: number): BodyKind {
  const kind = list.count() as LinkKind;
  if (isBodyKind(kind) && (kind === Kinds.MESSAGE) === (streamId === 0)) return kind;
  throw list.bad('of a kind that its stream has');
}

/** Tensors do not move, and what is kept uncoded is not in context. */
function codecOf(list: ValueList, { hasContext, isUncoded }: BodyBounds): BodyCodec {
  const codec = list.count(BodyCodec.DICTIONARY) as BodyCodec;
  const isAllowed = codec !== BodyCodec.CONTEXT || (hasContext && !isUncoded);
  if (isAllowed && codec !== BodyCodec.AVP) return codec;
  throw list.bad('in a codec of messages');
}

/** @throws {ProtocolError} `codec_not_loaded`. */
export function assertLoaded(): void {
  if (codecs.context.isLoaded) return;
  throw new ProtocolError('codec_not_loaded', 'the session is coded in context; load that code first');
}
