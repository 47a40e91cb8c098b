import { createHmac } from 'node:crypto';
import { ProtocolError } from '@parlance/protocol';
import { ByteReader, ByteWriter } from '@parlance/protocol/internal';
import { keyOf } from '../../base/keys.js';
import type { FieldChanges } from '../engine.js';
import { newSalt, notAuthentic, openAt, opening, type Seal, type SealKey, sealAt } from './keys.js';

/**
 * The record of a session, sealed field by field:
 *
 *     keys           of each epoch that has fields: the epoch, the key that the application gave, and a salt
 *     seal           a sum of the places of all other fields, sealed
 *     (any other)    its place, and its content, sealed
 *
 * A place is the epoch, the number of the commit, and a number within that commit. An epoch has keys of its own and a commit is sealed
 * once, so that no nonce is used twice. A field opens only in its session and under its name. The sum shows that all
 * fields are there, and each as it was written last.
 */

const KEYS = 'keys';
const SUM = 'seal';
const SUM_LENGTH = 16;
const SUM_LIMIT = 1n << BigInt(8 * SUM_LENGTH);

interface EpochKeys {
  readonly epoch: number;
  readonly id: Uint8Array;
  readonly salt: Uint8Array;
  readonly content: Uint8Array;
  /** Of what stands in the sum for a field. */
  readonly marks: Uint8Array;
}

interface Place {
  readonly epoch: number;
  readonly commit: number;
  readonly index: number;
}

type Fields = ReadonlyMap<string, Uint8Array>;

/** The opened record of a session, and the seal for the commits that follow. */
export interface OpenedRecord {
  readonly fields: Map<string, Uint8Array>;
  readonly seal: RecordSeal;
}

/** Seals the commits of one session in one epoch. */
export class RecordSeal {
  readonly #sessionId: string;
  readonly #own: EpochKeys;
  /** Of all epochs that have fields. */
  readonly #epochs: Map<number, EpochKeys>;
  readonly #places: Map<string, Place>;
  #sum: bigint;
  #commit = 0;

  private constructor(
    seal: Seal,
    sessionId: string,
    epoch: number,
    { epochs, places, sum }: Pick<Contents, 'epochs' | 'places' | 'sum'>,
  ) {
    this.#sessionId = sessionId;
    this.#own = epochKeys(seal.newest, sessionId, epoch, newSalt());
    this.#places = places;
    this.#sum = sum;
    const used = new Set([...places.values()].map((place) => place.epoch));
    this.#epochs = new Map([...epochs].filter(([each]) => used.has(each)));
    this.#epochs.set(epoch, this.#own);
  }

  /** Of a session that begins. */
  static begin(seal: Seal, sessionId: string, epoch: number): RecordSeal {
    return new RecordSeal(seal, sessionId, epoch, { epochs: new Map(), places: new Map(), sum: 0n });
  }

  /**
   * Opens a whole record.
   *
   * @param epoch of the process that continues it.
   * @throws {ProtocolError} `authentication_failed` if it is not all that was written last.
   */
  static open(seal: Seal, sessionId: string, epoch: number, sealed: Fields): OpenedRecord {
    const contents = read(seal, sessionId, sealed);
    const { epochs, plain, sum, stated } = contents;
    if (stated !== sum || epochs.has(epoch)) throw notAuthentic('a session');
    return { fields: plain, seal: new RecordSeal(seal, sessionId, epoch, contents) };
  }

  /** The names under which {@link openSome} finds some fields. */
  static namesFor(names: readonly string[]): readonly string[] {
    return [...names, KEYS];
  }

  /**
   * Opens some fields of a record. That they are those that were written last, only {@link open} can tell.
   *
   * @throws {ProtocolError} `authentication_failed`.
   */
  static openSome(seal: Seal, sessionId: string, sealed: Fields): Map<string, Uint8Array> {
    return read(seal, sessionId, sealed).plain;
  }

  /**
   * Seals a commit. A commit that is written again is not sealed again.
   *
   * @param commit its number, which grows.
   */
  seal(commit: number, { set, remove }: FieldChanges): FieldChanges {
    if (commit <= this.#commit) throw new ProtocolError('internal', 'a commit was sealed twice');
    const isFirst = this.#commit === 0;
    this.#commit = commit;
    const sealed: FieldChanges = { set: new Map(), remove };
    let index = 0;
    for (const [name, plain] of set) {
      const place = { epoch: this.#own.epoch, commit, index: ++index };
      this.#forget(name);
      this.#places.set(name, place);
      this.#add(this.#markOf(name, place));
      sealed.set.set(name, this.#sealed(name, place, plain));
    }
    for (const name of remove) this.#forget(name);
    if (isFirst) sealed.set.set(KEYS, encodeKeys(this.#epochs.values()));
    const sum = Buffer.from(this.#sum.toString(16).padStart(2 * SUM_LENGTH, '0'), 'hex');
    sealed.set.set(SUM, this.#sealed(SUM, { epoch: this.#own.epoch, commit, index: 0 }, sum));
    return sealed;
  }

  #sealed(name: string, place: Place, plain: Uint8Array): Uint8Array {
    const at = { number: place.commit, index: place.index, name: keyOf(this.#sessionId, name) };
    return encodeValue(place, sealAt(this.#own.content, at, plain));
  }

  #forget(name: string): void {
    const place = this.#places.get(name);
    if (place === undefined) return;
    this.#places.delete(name);
    this.#add(SUM_LIMIT - this.#markOf(name, place));
  }

  #add(mark: bigint): void {
    this.#sum = (this.#sum + mark) % SUM_LIMIT;
  }

  #markOf(name: string, place: Place): bigint {
    return markOf(this.#epochs.get(place.epoch)?.marks ?? this.#own.marks, name, place);
  }
}

interface Contents {
  readonly epochs: Map<number, EpochKeys>;
  readonly plain: Map<string, Uint8Array>;
  readonly places: Map<string, Place>;
  readonly sum: bigint;
  /** The sum that is recorded. */
  readonly stated: bigint | undefined;
}

/** @throws {ProtocolError} `authentication_failed`. */
function read(seal: Seal, sessionId: string, sealed: Fields): Contents {
  return opening('a session', () => {
    const epochs = decodeKeys(seal, sessionId, sealed.get(KEYS));
    const plain = new Map<string, Uint8Array>();
    const places = new Map<string, Place>();
    let sum = 0n;
    let stated: bigint | undefined;
    for (const [name, value] of sealed) {
      if (name === KEYS) continue;
      const [place, bytes] = decodeValue(value);
      const keys = epochs.get(place.epoch);
      if (keys === undefined) throw notAuthentic('a session');
      const at = { number: place.commit, index: place.index, name: keyOf(sessionId, name) };
      const content = openAt(keys.content, at, bytes);
      if (name === SUM) {
        stated = BigInt(`0x${Buffer.from(content).toString('hex')}`);
        continue;
      }
      plain.set(name, content);
      places.set(name, place);
      sum = (sum + markOf(keys.marks, name, place)) % SUM_LIMIT;
    }
    return { epochs, plain, places, sum, stated };
  });
}

function epochKeys(key: SealKey, sessionId: string, epoch: number, salt: Uint8Array): EpochKeys {
  const [content, marks] = key.keysFor('session', sessionId, String(epoch), salt);
  return { epoch, id: key.id, salt, content, marks };
}

/** Without the key, no sum of some is the sum of others. */
function markOf(key: Uint8Array, name: string, { commit, index }: Place): bigint {
  const mac = createHmac('sha256', key).update(`${commit}:${index}:${name}`).digest();
  return BigInt(`0x${mac.toString('hex', 0, SUM_LENGTH)}`);
}

function encodeKeys(all: Iterable<EpochKeys>): Uint8Array {
  const writer = new ByteWriter(32);
  for (const { epoch, id, salt } of all) writer.varint(epoch).append(id).append(salt);
  return writer.finish();
}

/** @throws {ProtocolError} `truncated`, `bad_varint`, `authentication_failed`. */
function decodeKeys(seal: Seal, sessionId: string, bytes: Uint8Array | undefined): Map<number, EpochKeys> {
  const epochs = new Map<number, EpochKeys>();
  if (bytes === undefined) throw notAuthentic('a session');
  const reader = new ByteReader(bytes);
  while (reader.remaining > 0) {
    const epoch = reader.varint('an epoch');
    const { key, salt } = seal.readOpener(reader);
    // The fields of an epoch whose key is missing do not open; those of others do.
    if (key !== undefined) epochs.set(epoch, epochKeys(key, sessionId, epoch, salt));
  }
  return epochs;
}

function encodeValue({ epoch, commit, index }: Place, sealed: Uint8Array): Uint8Array {
  return new ByteWriter(sealed.length + 12)
    .varint(epoch)
    .varint(commit)
    .varint(index)
    .append(sealed)
    .finish();
}

/** @throws {ProtocolError} `truncated`, `bad_varint`. */
function decodeValue(bytes: Uint8Array): readonly [Place, Uint8Array] {
  const reader = new ByteReader(bytes);
  const [epoch, commit, index] = ['epoch', 'commit', 'index'].map((what) => reader.varint(what));
  return [{ epoch: epoch ?? 0, commit: commit ?? 0, index: index ?? 0 }, reader.rest()];
}
