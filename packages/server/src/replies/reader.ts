import {
  Algorithm,
  BodyCodec,
  type CodedBody,
  type EncodingName,
  getEncoding,
  type Limits,
  type M2MSecurity,
  type ProtocolError,
} from '@parlance/protocol';
import {
  type BodyCoder,
  createBodyCoder,
  decodeFailure,
  incompleteLength,
  overBudget,
  type PartText,
  type Reservation,
} from '@parlance/protocol/internal';
import { READ_PARTS, type ReplyEntry } from '../engine/logs/reply.js';
import type { ServerEndpoint } from '../session/endpoint.js';
import { isSharedCoding, passOn, recode } from '../session/recode.js';
import type { ReplyLog } from './log.js';
import { decodeRecord, isTokens, type RecordedBody } from './record.js';

/** An incomplete character has at most so many bytes. */
const MAX_HELD = 3;
/**
 * Records before the first one that are searched for the beginning of its first character, and how many if the last ones
 * only continue it, or are empty.
 */
const LOOK_BACK = [8, READ_PARTS] as const;
const SOME = new Uint8Array(1);
/** Bytes of memory that a record takes in addition to its content. */
const RECORD_OVERHEAD = 160;
/** Bytes of memory that are not refused. */
const SMALL_SIZE = 4 * 1024;
/** Bytes of memory that a recoded part takes in addition to its content. */
const RECODED_OVERHEAD = 1024;

export interface ReaderOptions {
  readonly log: ReplyLog;
  readonly limits: Limits;
  readonly security: M2MSecurity | undefined;
}

/** Decodes recorded parts, whichever session they were coded for. */
export class RecordCoders {
  readonly #options: Pick<ReaderOptions, 'limits' | 'security'>;
  readonly #coders = new Map<string | undefined, BodyCoder>();

  constructor(options: Pick<ReaderOptions, 'limits' | 'security'>) {
    this.#options = options;
  }

  /** @param encoding that of the token IDs. */
  for(encoding: string | undefined): BodyCoder {
    let coder = this.#coders.get(encoding);
    if (coder === undefined) {
      const { limits, security } = this.#options;
      coder = createBodyCoder({
        algorithms: Object.values(Algorithm),
        encoding: encoding === undefined ? undefined : getEncoding(encoding as EncodingName),
        limits,
        security,
        yield: () => Promise.resolve(),
      });
      this.#coders.set(encoding, coder);
    }
    return coder;
  }
}

/**
 * Codes the parts of one kept reply for one session, one after the other. Parts that the session can read are sent
 * unchanged, but for plain ones that its context may make smaller.
 */
export class ReplyReader {
  /** The session reads the token parts as they are, so its end decodes their text. */
  readonly sharesTokens: boolean;
  readonly #reply: ReplyEntry;
  readonly #isOwn: boolean;
  readonly #coder: BodyCoder;
  readonly #session: ServerEndpoint;
  /** Decodes token parts for a session without their encoding. */
  #partText: PartText | undefined;
  #held: Uint8Array | undefined;

  /**
   * @param isOwn whether the session acts for the owner of the reply: then its parts may be coded against what else it gets.
   * @param held the beginning of a character that the first part continues.
   */
  constructor(
    reply: ReplyEntry,
    coder: BodyCoder,
    session: ServerEndpoint,
    isOwn: boolean,
    held?: Uint8Array,
  ) {
    this.#reply = reply;
    this.#isOwn = isOwn;
    this.#coder = coder;
    this.#session = session;
    this.#held = held;
    this.sharesTokens = this.#isShared({ codec: BodyCodec.TOKEN_NATIVE, bytes: SOME });
  }

  /** The parts of `records`, which count as memory of the session until the last one was taken. */
  *all(records: readonly Uint8Array[]): Generator<CodedBody> {
    const size = records.reduce((sum, { length }) => sum + RECORD_OVERHEAD + length, 0);
    const reservation = this.#reserve(size);
    try {
      for (const record of records) yield this.next(record);
    } finally {
      reservation.release();
    }
  }

  /** @throws {ProtocolError} `over_budget`. */
  #reserve(size: number): Reservation {
    const { memory } = this.#session;
    // A reader that keeps up holds next to nothing.
    const reservation = size < SMALL_SIZE ? memory.charge(size) : memory.tryReserve(size);
    if (reservation === undefined) throw overBudget();
    return reservation;
  }

  /** @throws {ProtocolError} `over_budget`, and any error of decoding or coding. */
  next(record: Uint8Array): CodedBody {
    const recorded = decodeRecord(record);
    const { codec, bytes, metadata } = recorded;
    const secret = recorded.secret || !this.#isOwn;
    const isTokens = codec === BodyCodec.TOKEN_NATIVE;
    if (!isTokens) {
      this.#partText = undefined;
      this.#held = undefined;
    }
    if (!secret && codec === BodyCodec.PLAIN && this.#session.coder.isDeferred(bytes, {})) {
      return this.#session.coder.encode(bytes, { metadata });
    }
    // Half of a text must not be decoded here and the other half there, although codecs may be loaded in between.
    const isShared = isTokens ? this.sharesTokens : this.#isShared(recorded);
    return isShared ? passOn({ ...recorded, charge: 0 }, secret) : this.#recode({ ...recorded, secret });
  }

  #isShared(body: Pick<RecordedBody, 'codec' | 'bytes'>): boolean {
    const { negotiated, core } = this.#session;
    const encoding = (this.#reply.encoding ?? null) as EncodingName | null;
    return isSharedCoding(body, { encoding }, negotiated, core.awaitedCodecs);
  }

  #recode(recorded: RecordedBody): CodedBody {
    const body = { ...recorded, charge: 0 };
    if (body.codec === BodyCodec.TOKEN_NATIVE) this.#partText ??= this.#coder.createPartText(this.#held);
    const size = this.#coder.decodedLength(body) + RECODED_OVERHEAD;
    const reservation = this.#session.memory.charge(size);
    try {
      return recode(body, this.#coder, this.#session.coder, this.#partText);
    } finally {
      reservation.release();
    }
  }
}

/** The bytes of a character that the token parts up to number `after` end in; `undefined` if there are none. */
export async function heldBytes(
  log: Pick<ReplyLog, 'read'>,
  { id }: ReplyEntry,
  after: number,
  coder: BodyCoder,
): Promise<Uint8Array | undefined> {
  let tail = new Uint8Array(0);
  for (const count of LOOK_BACK) {
    const from = Math.max(0, after - count);
    const records = await recordsOf(log, id, from, after);
    tail = tailOf(records, coder);
    // Its first byte may be before these records.
    const isWithin = tail.length >= MAX_HELD || !tail.every(isContinuation) || !records.every(isTokens);
    if (isWithin || from === 0) break;
  }
  const length = incompleteLength(tail);
  return length === 0 ? undefined : tail.slice(-length);
}

/** The records of parts `from` + 1 to `to`, or as many of them as there are. */
async function recordsOf(
  log: Pick<ReplyLog, 'read'>,
  id: string,
  from: number,
  to: number,
): Promise<Uint8Array[]> {
  const records: Uint8Array[] = [];
  while (from + records.length < to) {
    const more = (await log.read(id, from + records.length))?.records ?? [];
    if (more.length === 0) break;
    records.push(...more.slice(0, to - from - records.length));
  }
  return records;
}

/** Whether a byte continues a character in UTF-8. */
function isContinuation(byte: number): boolean {
  return (byte & 0xc0) === 0x80;
}

/** The last bytes of the token parts that `records` end in. */
function tailOf(records: readonly Uint8Array[], coder: BodyCoder): Uint8Array<ArrayBuffer> {
  let tail = new Uint8Array(0);
  for (let i = records.length - 1; i >= 0 && tail.length < MAX_HELD; i--) {
    const record = records[i] as Uint8Array;
    if (!isTokens(record)) break;
    const bytes = coder.decode({ ...decodeRecord(record), charge: 0 }).slice(-MAX_HELD);
    tail = Uint8Array.from([...bytes, ...tail]);
  }
  return tail;
}

/** The error with which a recorded reply ended. */
export function failureOf(failure: Uint8Array, limits: Limits): ProtocolError {
  return decodeFailure(failure, limits.maxJsonDepth) as ProtocolError;
}
