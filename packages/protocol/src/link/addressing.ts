import { ProtocolError } from '../base/errors.js';
import { decodeUtf8, encodeUtf8 } from '../base/text.js';
import { encodeSignalFrame, LinkKind } from './frame.js';

/**
 * Names of agents on the wire. A name is announced once by an alias frame and then stands as a number
 * in front of a body: to whom, in what a client writes, and from whom, in what a server writes.
 *
 * Announcements are counted and take their place among the frames, so the two tables of a direction
 * never disagree. A number that is announced again means the new name from there on, which bounds both
 * tables whatever the number of agents.
 */

/** Names that a direction knows at a time. */
export const MAX_ALIASES = 256;

/**
 * Names of agents, and with `@` in front the server's own, which no agent can bear. `shared` and
 * `session` are reserved by key derivation (compression document).
 */
const AGENT_ID = /^[A-Za-z0-9_-]{1,128}$/;
const SERVER_NAME = /^@[a-z]{1,32}$/;
/** The address of an agent of another principal; no agent can bear such a name. */
const ADDRESS = /^~[A-Za-z0-9_-]{1,127}$/;
const RESERVED: ReadonlySet<string> = new Set(['shared', 'session']);

/** The directory of agents: asks who is there. */
export const DIRECTORY = '@directory';
/** Reports of what could not be handed over. */
export const DELIVERY = '@delivery';

/** Whether an agent may bear this name. */
export function isAgentId(name: string): boolean {
  return AGENT_ID.test(name) && !RESERVED.has(name);
}

/** Whether this is the address of another principal's agent, as a server lists it. */
export function isAgentAddress(name: string): boolean {
  return ADDRESS.test(name);
}

/** The sending side: numbers for names. */
export class AliasWriter {
  readonly #aliases = new Map<string, number>();
  #next = 0;

  /** The number of `name`, `undefined` where it has to be announced first. */
  aliasOf(name: string): number | undefined {
    return this.#aliases.get(name);
  }

  /** Gives `name` a number, the oldest one where all are taken, and returns the frame that says so. */
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

/** The receiving side: names for numbers. */
export class AliasReader {
  readonly #names = new Map<number, string>();

  /** @throws {ProtocolError} `bad_frame` for a number out of range or what is no name. */
  handleAlias(alias: number, name: Uint8Array): void {
    if (alias >= MAX_ALIASES) {
      throw new ProtocolError('bad_frame', `alias ${alias}, where ${MAX_ALIASES - 1} is the largest`);
    }
    // Checked before decoding: a name is short, and ASCII.
    const text = name.length <= MAX_NAME_SIZE ? decodeUtf8(name) : '';
    if (!AGENT_ID.test(text) && !SERVER_NAME.test(text) && !ADDRESS.test(text)) {
      throw new ProtocolError(
        'bad_frame',
        'an alias names an agent: 1 to 128 of letters, digits, - and _, or ~ and up to 127 of them',
      );
    }
    this.#names.set(alias, text);
  }

  /** @throws {ProtocolError} `bad_frame` for a number that was never announced. */
  nameOf(alias: number): string {
    const name = this.#names.get(alias);
    if (name === undefined) throw new ProtocolError('bad_frame', `alias ${alias} was never announced`);
    return name;
  }
}

const MAX_NAME_SIZE = 128;
