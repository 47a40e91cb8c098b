import { randomBytes } from 'node:crypto';
import { deriveKey, ProtocolError } from '@parlance/protocol';
import {
  assertOptions,
  type ByteReader,
  copyBytes,
  cryptoSuite,
  type OptionKinds,
} from '@parlance/protocol/internal';
import { keyOf } from '../../base/keys.js';

/** Encrypts kept replies and records of sessions before an engine gets them. The same at all nodes. */
export interface SealOptions {
  /** Encrypts and opens: 32 bytes, or their base64, such as `openssl rand -base64 32` prints. */
  readonly key: string | Uint8Array;
  /**
   * Only open. To replace `key`, add the next one here at all nodes, then exchange the two, and remove the old one when
   * everything that began under it is over.
   *
   * @default none
   */
  readonly otherKeys?: readonly (string | Uint8Array)[] | undefined;
}

/** Bytes. */
const KEY_LENGTH = 32;
const ID_LENGTH = 4;
const SALT_LENGTH = 16;

const KINDS: OptionKinds<SealOptions> = { key: 'any', otherKeys: 'list' };

/** One of the keys that the application gave. */
export class SealKey {
  /** Tells it from the others; says nothing of it. */
  readonly id: Uint8Array;
  readonly #secret: Uint8Array;
  readonly #names: Uint8Array;

  constructor(secret: Uint8Array) {
    this.#secret = secret;
    this.id = this.derive(ID_LENGTH, 'id');
    this.#names = this.derive(KEY_LENGTH, 'names');
  }

  /** Keys for one purpose, of which any number may be used. A salt is one of its parts. */
  keysFor(...purpose: readonly (string | Uint8Array)[]): readonly [Uint8Array, Uint8Array, Uint8Array] {
    const texts = purpose.map((each) =>
      typeof each === 'string' ? each : Buffer.from(each).toString('base64url'),
    );
    const derived = this.derive(3 * KEY_LENGTH, ...texts);
    const keyAt = (i: number) => derived.subarray(i * KEY_LENGTH, (i + 1) * KEY_LENGTH);
    return [keyAt(0), keyAt(1), keyAt(2)];
  }

  /** Bytes for one purpose (HKDF). */
  derive(length: number, ...purpose: readonly string[]): Uint8Array {
    return deriveKey(this.#secret, `parlance/seal/1/${keyOf(...purpose)}`, length);
  }

  /**
   * The name that stands for texts in the engine: always the same for the same texts, and readable only by comparison.
   */
  nameOf(...texts: readonly string[]): string {
    return Buffer.from(cryptoSuite.hmacSha256(this.#names, Buffer.from(keyOf(...texts)))).toString(
      'base64url',
    );
  }
}

/** The keys of a server. */
export class Seal {
  /** The first one seals. */
  readonly keys: readonly [SealKey, ...SealKey[]];

  constructor(key: Uint8Array, otherKeys: readonly Uint8Array[] = []) {
    this.keys = [new SealKey(key), ...otherKeys.map((each) => new SealKey(each))];
  }

  get newest(): SealKey {
    return this.keys[0];
  }

  /**
   * Reads the head of a sealed value: the key that the application gave, and a salt.
   *
   * @returns no key if this node does not have it.
   * @throws {ProtocolError} `truncated`.
   */
  readOpener(reader: ByteReader): { readonly key: SealKey | undefined; readonly salt: Uint8Array } {
    const id = reader.take(ID_LENGTH, 'a key');
    return { key: this.find(id), salt: takeSalt(reader) };
  }

  find(id: Uint8Array): SealKey | undefined {
    return this.keys.find((key) => Buffer.compare(key.id, id) === 0);
  }
}

/** @throws {ProtocolError} `invalid_option`. */
export function resolveSeal(options: SealOptions): Seal {
  assertOptions(options, KINDS, 'sealed');
  return new Seal(bytesOf(options.key), (options.otherKeys ?? []).map(bytesOf));
}

/** @throws {ProtocolError} `invalid_option`, which never repeats the key. */
function bytesOf(given: unknown): Uint8Array {
  const isText = typeof given === 'string' && /^[\w+/-]{43}=?$/.test(given);
  const bytes = isText ? Buffer.from(given, 'base64') : given;
  if (bytes instanceof Uint8Array && bytes.length === KEY_LENGTH) return copyBytes(bytes);
  const message = `sealed: a key must be ${KEY_LENGTH} bytes, or their base64`;
  throw new ProtocolError('invalid_option', message);
}

export function newSalt(): Uint8Array {
  return new Uint8Array(randomBytes(SALT_LENGTH));
}

/** @throws {ProtocolError} `truncated`. */
export function takeSalt(reader: ByteReader): Uint8Array {
  return new Uint8Array(reader.take(SALT_LENGTH, 'a salt'));
}

/** 12 bytes, different for each pair of numbers; the second one is less than 2^32. */
function nonceOf(number: number, index: number): Uint8Array {
  const nonce = Buffer.alloc(12);
  nonce.writeBigUInt64BE(BigInt(number));
  nonce.writeUInt32BE(index, 8);
  return nonce;
}

/** The place of a value. It is the nonce, so no two values of a key may have the same place. */
export interface SealedPlace {
  readonly number: number;
  readonly index: number;
  /** The name of the field; a value that is put elsewhere does not open. */
  readonly name: string;
}

export function sealAt(key: Uint8Array, { number, index, name }: SealedPlace, plain: Uint8Array): Uint8Array {
  return cryptoSuite.chacha20poly1305.seal(key, nonceOf(number, index), plain, Buffer.from(name));
}

/** @throws {ProtocolError} `authentication_failed`. */
export function openAt(
  key: Uint8Array,
  { number, index, name }: SealedPlace,
  sealed: Uint8Array,
): Uint8Array {
  return cryptoSuite.chacha20poly1305.open(key, nonceOf(number, index), sealed, Buffer.from(name));
}

/** @param what such as "the session". */
export function notAuthentic(what: string): ProtocolError {
  const message = `what the engine has of ${what} was changed, or was sealed with a key that this node does not have`;
  return new ProtocolError('authentication_failed', message);
}

/**
 * Runs something that reads what the engine has, whose errors all mean the same.
 *
 * @throws {ProtocolError} `authentication_failed`.
 */
export function opening<Result>(what: string, run: () => Result): Result {
  try {
    return run();
  } catch {
    throw notAuthentic(what);
  }
}
