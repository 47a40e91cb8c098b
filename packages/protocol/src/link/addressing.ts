import { ProtocolError } from '../base/errors.js';
import { decodeUtf8, encodeUtf8 } from '../base/text.js';
import { encodeSignalFrame, LinkKind } from './frame.js';

/**
 * The names that bodies are addressed to. An alias frame announces a name once, with a number that then precedes bodies:
 * in frames of a client it is the receiver, in frames of a server the sender.
 *
 * Announcements are counted frames and keep their place among the others, so both ends of a direction always
 * have the same table. A number can be announced again with a new name, which bounds the tables.
 */

/** Most names in the table of a direction. */
export const MAX_ALIASES = 256;

/** IDs of clients. Key derivation (compression document) reserves `shared` and `session`. */
const CLIENT_ID = /^[A-Za-z0-9_-]{1,128}$/;
/** The server's own names. */
const SERVER_NAME = /^@[a-z]{1,32}$/;
/** The form of the IDs that the server gives to clients of other principals. No client can choose such an ID. */
const FOREIGN = /^~[A-Za-z0-9_-]{1,127}$/;
const RESERVED: ReadonlySet<string> = new Set(['shared', 'session']);

/** Whether a client with this ID can be addressed by it. */
export function isAgentId(name: string): boolean {
  return CLIENT_ID.test(name) && !RESERVED.has(name);
}

/** Whether this is what the server calls a client of another principal. */
export function isAgentAddress(name: string): boolean {
  return FOREIGN.test(name);
}

/** Whether a client may send to this name: to another client, or to the server's own names. */
export function isReachable(name: string): boolean {
  return isAgentId(name) || isAgentAddress(name) || SERVER_NAME.test(name);
}

/** The state of an {@link AliasWriter}. */
type AliasWriterState = readonly [aliases: Map<string, number>, next: number];

/** The sending side: numbers for names. */
export class AliasWriter {
  #aliases = new Map<string, number>();
  #next = 0;

  /** The names in use with their numbers, oldest first, and the next number. */
  snapshot(): AliasWriterState {
    return [this.#aliases, this.#next];
  }

  restore(state: AliasWriterState): void {
    [this.#aliases, this.#next] = state;
  }

  /** The number of `name`; `undefined` if it has to be announced first. */
  aliasOf(name: string): number | undefined {
    return this.#aliases.get(name);
  }

  /** Gives `name` a number, the oldest one if all are in use, and returns the frame that announces it. */
  announce(name: string): Uint8Array {
    if (this.#aliases.size >= MAX_ALIASES) {
      const [oldest] = this.#aliases.keys();
      this.#aliases.delete(oldest as string);
    }
    const alias = this.#next;
    this.#next = (alias + 1) % MAX_ALIASES;
    this.#aliases.set(name, alias);
    return encodeSignalFrame(LinkKind.ALIAS, alias, encodeUtf8(name));
  }
}

/** The names that bodies of a session are addressed to: all of them, or one of the server. */
export type Addressing = 'all' | `@${string}`;

/** The receiving side: names for numbers. */
export class AliasReader {
  /** Its state, which {@link handleAlias} restores. */
  readonly names = new Map<number, string>();
  readonly #addressing: Addressing;

  constructor(addressing: Addressing = 'all') {
    this.#addressing = addressing;
  }

  /** @throws {ProtocolError} `bad_frame` if the number is out of range or the name is not valid. */
  handleAlias(alias: number, name: Uint8Array): void {
    if (alias >= MAX_ALIASES) {
      throw new ProtocolError('bad_frame', `alias ${alias} exceeds the largest, ${MAX_ALIASES - 1}`);
    }
    // Names are short and ASCII, so a long one need not be decoded.
    const text = name.length <= MAX_NAME ? decodeUtf8(name) : '';
    const isClient = CLIENT_ID.test(text) || FOREIGN.test(text);
    if (isClient && this.#addressing !== 'all') {
      throw new ProtocolError('bad_frame', 'addressing was not negotiated for clients');
    }
    if (!isClient && !SERVER_NAME.test(text)) {
      throw new ProtocolError(
        'bad_frame',
        'an alias must name a client: 1 to 128 letters, digits, - or _, or ~ and up to 127 of them',
      );
    }
    this.names.set(alias, text);
  }

  /** @throws {ProtocolError} `bad_frame` if the number was never announced. */
  nameOf(alias: number): string {
    const name = this.names.get(alias);
    if (name === undefined) throw new ProtocolError('bad_frame', `alias ${alias} was never announced`);
    return name;
  }
}

/** The longest name. */
export const MAX_NAME = 128;
