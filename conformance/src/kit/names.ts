import { must } from './deviation.js';
import { type Frame, frame, Kind } from './frames.js';

/** Names in alias frames (section 11): those of the peer, and those of the kit. */

const MOST = 255;
/** An ID or an address: `~`, letters, digits, `-` and `_`. */
const AGENT = /^~?[A-Za-z0-9_-]{1,128}$/;
const SERVICE = /^@[a-z]{1,32}$/;

/** Which names were agreed on: `replies` alone allows `@replies` and no other. */
export type NamesAgreed = 'none' | 'replies' | 'agents';

export class Names {
  readonly #agreed: NamesAgreed;
  readonly #theirs = new Map<number, string>();
  readonly #own: string[] = [];

  constructor(agreed: NamesAgreed) {
    this.#agreed = agreed;
  }

  /** Takes an alias frame of the peer. @throws {Deviation} if it is not as section 11 says. */
  announce({ rest, stream: number, bytes }: Frame): void {
    must(this.#agreed !== 'none', 'an alias although neither agents nor replies were agreed on', bytes);
    const name = Buffer.from(rest).toString();
    must(number <= MOST, `an alias with the number ${number}`, bytes);
    must(AGENT.test(name) || SERVICE.test(name), `${JSON.stringify(name)} is not a name`, bytes);
    must(name.length <= 128, 'a name of more than 128 characters', bytes);
    must(this.#agreed === 'agents' || name === '@replies', `the name ${name} without agents`, bytes);
    this.#theirs.set(number, name);
  }

  /** The name for a number of the peer. @throws {Deviation} if it was never announced. */
  nameOf(number: number, bytes: Uint8Array): string {
    const name = this.#theirs.get(number);
    must(name !== undefined, `number ${number} was never announced`, bytes);
    return name;
  }

  /** The number of a name of the kit, and the frame that announces it if the peer has not heard of it. */
  numberOf(name: string): { readonly number: number; readonly frame: Uint8Array | undefined } {
    const known = this.#own.indexOf(name);
    if (known >= 0) return { number: known, frame: undefined };
    const number = this.#own.push(name) - 1;
    return { number, frame: frame(Kind.ALIAS, number, name) };
  }
}
