import { holds, outcomeOf, same } from './expect.js';
import {
  AliasReader,
  Assembler,
  BodyCodec,
  ByteReader,
  createBodyCoder,
  decodeAvp,
  decodeBodyHead,
  decodeControl,
  decodeControlJson,
  decodeFailure,
  decodeLinkFrame,
  decodeM2M,
  decodeM2MBody,
  decodeMetadata,
  decodeText,
  decodeTokenIds,
  decodeTokenNative,
  decodeUtf8,
  describeContextBody,
  type Encoding,
  type ExplainedField,
  type Explanation,
  FrameKind,
  frameKind,
  getEncoding,
  isBodyKind,
  type Limits,
  LinkFlag,
  type LinkFrame,
  LinkKind,
  ProtocolError,
  prefixOf,
  readM2MBodyHeader,
  readM2MHeader,
} from './subject.js';

/** The expectations of a frame's explanation: it agrees with the decoders of a session, and with itself. */

const M2M_PREFIX = '#M2M|1|';

export interface Reading {
  readonly limits: Limits;
  /** Vocabulary of token IDs in link frames. */
  readonly encoding: Encoding;
  /** Whether text is a control message. */
  readonly isEnvelope: boolean;
}

/** Compares an explanation with the result of the session's decoders. */
export function checkExplanation(
  frame: Uint8Array | string,
  explanation: Explanation,
  reading: Reading,
): void {
  checkFields(explanation);
  const code = explanation.error?.code;
  // A WebSocket never delivers such a text, and not every decoder checks for it.
  if (typeof frame === 'string' && !isWellFormed(frame))
    return same(code, 'lone_surrogate', 'error of no text');
  const outcome = outcomeOf(() =>
    typeof frame === 'string' ? readText(frame, reading) : read(frame, reading),
  );
  if (!outcome.accepted) {
    if (outcome.code === 'vocabulary_not_loaded') return;
    same(code, outcome.code, `error of a refused frame (${outcome.message})`);
  } else if (outcome.value === 'protected') {
    // Without the key, little is known about the bytes after the header.
    holds(
      code === undefined || code === 'truncated' || code === 'trailing_bytes',
      `a protected frame was refused: ${code}`,
    );
  } else same(explanation.error, undefined, 'error of an accepted frame');
}

function isWellFormed(text: string): boolean {
  return Buffer.from(text, 'utf8').toString('utf8') === text;
}

/** Every field lies within its parent; offsets in decoded content count from its own beginning. */
function checkFields({ bytes, fields, error }: Explanation): void {
  const visit = (children: readonly ExplainedField[], start: number, end: number): void => {
    for (const { name, offset, length, children: inner, bytes: coded } of children) {
      holds(offset >= start && length >= 0 && offset + length <= end, `${name} lies outside of its parent`);
      if (coded === undefined) visit(inner, offset, offset + length);
      else visit(inner, 0, coded.length);
    }
  };
  visit(fields, 0, bytes.length);
  holds(
    error === undefined || (error.offset >= 0 && error.offset <= bytes.length),
    'the fault lies outside the frame',
  );
}

/** Whether a key protects the frame. */
type Verdict = 'protected' | 'readable';

function read(frame: Uint8Array, reading: Reading): Verdict {
  const { limits } = reading;
  switch (frameKind(frame)) {
    case FrameKind.CONTROL:
      return readData(decodeControl(frame, limits), limits);
    case FrameKind.LINK:
      return readLink(frame, reading);
    case FrameKind.TOKEN_NATIVE: {
      const { encoding, ids } = decodeTokenNative(frame, { limits });
      getEncoding(encoding)?.decode(ids, { maxBytes: limits.maxMessageSize });
      return 'readable';
    }
    case FrameKind.AVP:
      decodeAvp(frame, { maxSize: limits.maxTransferSize, maxDecompressedSize: limits.maxMessageSize });
      return 'readable';
    default: {
      if (Buffer.from(frame.subarray(0, M2M_PREFIX.length)).toString('latin1') === M2M_PREFIX) {
        return readM2M(frame.subarray(M2M_PREFIX.length), limits);
      }
      const text = decodeUtf8(frame);
      if (prefixOf(text) === undefined) throw new ProtocolError('unknown_prefix', 'no known prefix');
      return readContent(text, limits);
    }
  }
}

function readM2M(body: Uint8Array, limits: Limits): Verdict {
  if (readM2MBodyHeader(body).security !== 'NONE') return 'protected';
  decodeM2MBody(body, { limits });
  return 'readable';
}

function readText(text: string, { limits, isEnvelope }: Reading): Verdict {
  return isEnvelope ? readData(decodeControlJson(text, limits), limits) : readContent(text, limits);
}

/** DATA contains a text frame. */
function readData(message: ReturnType<typeof decodeControl>, limits: Limits): Verdict {
  const content = message.type === 'DATA' ? message.payload.content : '';
  return typeof content === 'string' ? readContent(content, limits) : 'readable';
}

function readContent(text: string, limits: Limits): Verdict {
  const whole = outcomeOf(() => decodeText(text, { limits, zlib: true }));
  if (whole.accepted) return 'readable';
  if (whole.code === 'security_required' && readM2MHeader(text).security !== 'NONE') return 'protected';
  if (text.startsWith(M2M_PREFIX)) decodeM2M(text, { limits });
  throw new ProtocolError(whole.code as 'bad_frame', whole.message);
}

function readLink(bytes: Uint8Array, reading: Reading): Verdict {
  const { limits } = reading;
  const frame = decodeLinkFrame(bytes);
  const { kind, streamId } = frame;
  if (kind === LinkKind.ALIAS) {
    new AliasReader().handleAlias(streamId, frame.rest);
    return 'readable';
  }
  if (kind < LinkKind.ACK && (kind === LinkKind.MESSAGE) !== (streamId === 0)) {
    throw new ProtocolError('bad_frame', 'stream 0 carries one-way messages only');
  }
  if (isBodyKind(kind)) return readBody(frame, reading);
  if (kind === LinkKind.ERROR) decodeFailure(frame.rest, limits.maxJsonDepth);
  else {
    const reader = new ByteReader(frame.rest);
    if (kind === LinkKind.CREDIT) reader.varint('the limit');
    // The CRC of all parts is there only if some were coded in context.
    if (kind === LinkKind.END && reader.remaining > 0) reader.u32('the CRC of all parts');
    reader.expectEnd('the frame');
  }
  return 'readable';
}

function readBody(frame: LinkFrame, { limits, encoding }: Reading): Verdict {
  const body = new Assembler(limits, ANY_AGENT).add(frame);
  const isPart = frame.kind === LinkKind.CHUNK;
  const metadata = body?.metadata ?? metadataOf(frame, limits);
  decodeMetadata(metadata, limits.maxJsonDepth);
  if (body === undefined) return 'readable';
  if (body.codec === BodyCodec.M2M && readM2MBodyHeader(body.bytes).security !== 'NONE') return 'protected';
  const coder = createBodyCoder({
    algorithms: [],
    encoding,
    limits,
    security: undefined,
    yield: async () => {},
  });
  if (body.codec === BodyCodec.CONTEXT) describeContextBody(body.bytes, isPart);
  else if (body.codec === BodyCodec.AVP) {
    decodeAvp(body.bytes, { maxSize: limits.maxTransferSize, maxDecompressedSize: limits.maxMessageSize });
  } else if (body.codec !== BodyCodec.TOKEN_NATIVE) coder.decode(body);
  else if (isPart) encoding.decodeBytes(decodeTokenIds(body.bytes), { maxBytes: limits.maxMessageSize });
  else
    encoding.decode(decodeTokenIds(body.bytes, limits.maxMessageSize), { maxBytes: limits.maxMessageSize });
  return 'readable';
}

/** A single frame does not tell which agents were announced before. */
const ANY_AGENT = { nameOf: () => '' };

/** The metadata in the first frame of a body, if more frames follow. */
function metadataOf(frame: LinkFrame, limits: Limits): Uint8Array | undefined {
  return (frame.flags & LinkFlag.META) === 0
    ? undefined
    : decodeBodyHead(frame, limits.maxMetadataSize).metadata;
}
