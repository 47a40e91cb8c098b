import { ByteReader, ByteWriter } from '@parlance/protocol/internal';
import { keyOf } from '../../base/keys.js';
import {
  newSalt,
  notAuthentic,
  openAt,
  opening,
  type Seal,
  type SealedPlace,
  type SealKey,
  sealAt,
  takeSalt,
} from '../seal/keys.js';
import type { ReplyBatch } from './logs.js';
import type { ReplyEnd, ReplyHead, ReplyPieces } from './reply.js';

/**
 * A sealed reply:
 *
 *     its head       the application's key, a salt, and owner, principal, name and share, sealed
 *     a part         its writer, and sealed the number of the part that had the metadata before it, and the part
 *     metadata       the number of the part that has it, its writer, and the metadata, sealed
 *     its end        a salt, and how many parts it has, failure and metadata, sealed
 *
 * Each reply has keys of its own, and a part is sealed under its number. Several writers may write a part of the same number: a
 * node that claims the reply, the one before, which is refused it, and any of them once more if the engine was put back to an
 * earlier state. So each claim has keys of its own, from a salt that is with all that they seal (1 and the salt); the node that
 * began the reply has those of the head (0). An end may be written twice, by two nodes that know different ends, and has a salt too.
 */

const WHAT = 'a kept reply';

/** The keys of one writer. */
export interface WriterKeys {
  /** Stands before what it seals. */
  readonly mark: Uint8Array;
  readonly parts: Uint8Array;
  readonly metadata: Uint8Array;
}

/** Stands before the salt of a claim. */
const CLAIMED = 1;

/** Fields of a head that others must not read. */
export type SealedHead = Pick<ReplyHead, 'owner' | 'principal' | 'name' | 'share'>;

export class ReplySeal {
  /** The application's key. */
  readonly key: SealKey;
  readonly #id: string;
  readonly #salt: Uint8Array;
  readonly #head: Uint8Array;
  /** The keys of the node that began it. */
  readonly first: WriterKeys;
  /** Of the claim that was read last. */
  #claim: WriterKeys | undefined;

  private constructor(key: SealKey, id: string, salt: Uint8Array) {
    this.key = key;
    this.#id = id;
    this.#salt = salt;
    const [head, parts, metadata] = this.#keysFor('');
    this.#head = head;
    this.first = { mark: Uint8Array.of(0), parts, metadata };
  }

  /** Keys that were never used. */
  claim(): WriterKeys {
    return this.#claimOf(newSalt());
  }

  #claimOf(salt: Uint8Array): WriterKeys {
    const [parts, metadata] = this.#keysFor('claim', salt);
    return { mark: Uint8Array.of(CLAIMED, ...salt), parts, metadata };
  }

  /** The keys of the writer of what comes next. */
  #readWriter(reader: ByteReader): WriterKeys {
    if (reader.varint('a writer', CLAIMED) !== CLAIMED) return this.first;
    const salt = takeSalt(reader);
    const isSame = this.#claim !== undefined && Buffer.compare(this.#claim.mark.subarray(1), salt) === 0;
    if (this.#claim === undefined || !isSame) this.#claim = this.#claimOf(salt);
    return this.#claim;
  }

  static begin(seal: Seal, id: string): ReplySeal {
    return new ReplySeal(seal.newest, id, newSalt());
  }

  /** @throws {ProtocolError} `authentication_failed`. */
  static open(
    seal: Seal,
    id: string,
    text: string | undefined,
  ): { readonly seal: ReplySeal; readonly head: SealedHead } {
    return opening(WHAT, () => {
      const reader = new ByteReader(Buffer.from(text ?? '', 'base64url'));
      const { key, salt } = seal.readOpener(reader);
      if (key === undefined) throw notAuthentic(WHAT);
      const opened = new ReplySeal(key, id, salt);
      const plain = openAt(opened.#head, opened.#placeOf('head'), reader.rest());
      return { seal: opened, head: readHead(plain) };
    });
  }

  /** The head as text. */
  sealHead({ owner, principal, name, share }: SealedHead): string {
    const plain = Buffer.from(JSON.stringify([owner, principal ?? null, name ?? null, share ?? null]));
    const sealed = sealAt(this.#head, this.#placeOf('head'), plain);
    return Buffer.concat([this.key.id, this.#salt, sealed]).toString('base64url');
  }

  /**
   * @param lastMetadata the number of the part that had the metadata before these.
   * @param writer the keys of this node.
   */
  sealParts(
    { from, records, metadata }: ReplyBatch,
    lastMetadata: number,
    writer: WriterKeys,
  ): Pick<ReplyBatch, 'records' | 'metadata'> & { readonly lastMetadata: number } {
    const numbers = new Set(metadata.map(([part]) => part));
    let last = lastMetadata;
    const sealed = records.map((record, i) => {
      const number = from + i + 1;
      const plain = new ByteWriter(record.length + 8).varint(last).append(record).finish();
      if (numbers.has(number)) last = number;
      return Buffer.concat([writer.mark, sealAt(writer.parts, this.#placeOf('part', number), plain)]);
    });
    const sealedMetadata = metadata.map(([part, bytes]) => {
      const box = sealAt(writer.metadata, this.#placeOf('metadata', part), bytes);
      const size = writer.mark.length + box.length + 8;
      return [part, new ByteWriter(size).varint(part).append(writer.mark).append(box).finish()] as const;
    });
    return { records: sealed, metadata: sealedMetadata, lastMetadata: last };
  }

  /** @throws {ProtocolError} `authentication_failed`. */
  openParts(after: number, records: readonly Uint8Array[]): Uint8Array[] {
    return opening(WHAT, () => this.#openParts(after, records).map(({ record }) => record));
  }

  /** @param parts how many it has; `undefined` if this is not known. */
  sealEnd({ failure, metadata }: ReplyEnd, parts: number | undefined): Uint8Array {
    const salt = newSalt();
    const writer = new ByteWriter(64);
    writer.varint(parts === undefined ? 0 : parts + 1);
    for (const bytes of [failure, metadata]) {
      writer.varint(bytes === undefined ? 0 : bytes.length + 1);
      if (bytes !== undefined) writer.append(bytes);
    }
    const box = sealAt(this.#keysFor(salt)[0], this.#placeOf('end'), writer.finish());
    return Buffer.concat([salt, box]);
  }

  /** @throws {ProtocolError} `authentication_failed`. */
  openPieces(after: number, { records, metadata, end }: ReplyPieces): ReplyPieces {
    return opening(WHAT, () => {
      const opened = this.#openParts(after, records);
      const before = metadata === undefined ? undefined : this.#openMetadata(metadata);
      const [first] = opened;
      if ((before?.part ?? 0) > after || (first !== undefined && first.last !== (before?.part ?? 0)))
        throw notAuthentic(WHAT);
      return {
        records: opened.map(({ record }) => record),
        metadata: before?.bytes,
        end: end && this.#openEnd(end, after + records.length),
      };
    });
  }

  /** The number of the last part that had metadata. @throws {ProtocolError} `authentication_failed`. */
  lastMetadata({ metadata }: Pick<ReplyPieces, 'metadata'>): number {
    return opening(WHAT, () => (metadata === undefined ? 0 : this.#openMetadata(metadata).part));
  }

  #openParts(after: number, records: readonly Uint8Array[]) {
    return records.map((sealed, i) => {
      const box = new ByteReader(sealed);
      const { parts } = this.#readWriter(box);
      const reader = new ByteReader(openAt(parts, this.#placeOf('part', after + i + 1), box.rest()));
      return { last: reader.varint('a part'), record: reader.rest() };
    });
  }

  #openMetadata(sealed: Uint8Array): { readonly part: number; readonly bytes: Uint8Array } {
    const reader = new ByteReader(sealed);
    const part = reader.varint('a part');
    const { metadata } = this.#readWriter(reader);
    return { part, bytes: openAt(metadata, this.#placeOf('metadata', part), reader.rest()) };
  }

  #openEnd({ at, metadata: sealed }: ReplyEnd, parts: number): ReplyEnd {
    const box = new ByteReader(sealed ?? new Uint8Array(0));
    const [key] = this.#keysFor(takeSalt(box));
    const reader = new ByteReader(openAt(key, this.#placeOf('end'), box.rest()));
    const stated = reader.varint('parts');
    const item = () => {
      const length = reader.varint('a length');
      return length === 0 ? undefined : reader.take(length - 1, 'an end');
    };
    const [failure, metadata] = [item(), item()];
    // Parts that are missing at the end; a reader may ask for what is after it.
    const isShort = stated === 0 ? failure === undefined : parts < stated - 1;
    if (isShort) throw notAuthentic(WHAT);
    return { at, failure, metadata };
  }

  #keysFor(...what: readonly (string | Uint8Array)[]): readonly [Uint8Array, Uint8Array, Uint8Array] {
    return this.key.keysFor('reply', this.#id, this.#salt, ...what);
  }

  /** @param number of the part. @default 0, of what there is one of */
  #placeOf(kind: string, number = 0): SealedPlace {
    return { number, index: 0, name: keyOf('reply', this.#id, kind) };
  }
}

/** @throws {ProtocolError} `authentication_failed`. */
function readHead(bytes: Uint8Array): SealedHead {
  const value: unknown = JSON.parse(Buffer.from(bytes).toString());
  const [owner, ...rest] = Array.isArray(value) ? (value as unknown[]) : [];
  const isText = (each: unknown) => each === null || typeof each === 'string';
  if (typeof owner !== 'string' || rest.length !== 3 || !rest.every(isText)) throw notAuthentic(WHAT);
  const [principal, name, share] = rest.map((each) => (typeof each === 'string' ? each : undefined));
  return { owner, principal, name, share };
}

/** The sealed owner for which a session acts. */
export function sealProof(key: SealKey, sessionId: string, owner: string): string {
  const salt = newSalt();
  const box = sealAt(proofKey(key, sessionId, salt), PROOF, Buffer.from(owner));
  return Buffer.concat([salt, box]).toString('base64url');
}

/** @throws {ProtocolError} `authentication_failed`. */
export function openProof(key: SealKey, sessionId: string, text: string): string {
  return opening('the owner of a session', () => {
    const reader = new ByteReader(Buffer.from(text, 'base64url'));
    const salt = takeSalt(reader);
    return Buffer.from(openAt(proofKey(key, sessionId, salt), PROOF, reader.rest())).toString();
  });
}

const PROOF = { number: 0, index: 0, name: 'proof' };

function proofKey(key: SealKey, sessionId: string, salt: Uint8Array): Uint8Array {
  return key.keysFor('proof', sessionId, salt)[0];
}
