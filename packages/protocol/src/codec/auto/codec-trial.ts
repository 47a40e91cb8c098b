import { Algorithm } from '../../base/constants.js';
import { ProtocolError } from '../../base/errors.js';

/** A codec that a selector may choose. */
export interface Candidate {
  readonly algorithm: Algorithm;
  /** The coded body, or `undefined` if this codec cannot carry `text`. Also called with parts of messages. */
  encode(text: string): Uint8Array | undefined;
  /** A promise that the decoder returns the text byte for byte. T1 cannot make it. */
  readonly decodeIsExact: true;
}

/** The result of one codec for a message. */
export interface Trial {
  readonly algorithm: Algorithm;
  /** Size of the body; `undefined` if the codec cannot carry the text. */
  readonly bytes: number | undefined;
  /** Whether the size is an estimate from a part of the text. */
  readonly estimated: boolean;
}

/**
 * Why a codec was chosen. `only`: there is no other; `smallest`: it won a comparison on this message;
 * `learned`: it usually wins for such messages; `heuristic`: such messages are new, and this one is too large
 * or too short for a comparison.
 */
export type SelectionRule = 'only' | 'smallest' | 'learned' | 'heuristic';

export interface Selection {
  readonly algorithm: Algorithm;
  readonly body: Uint8Array;
  readonly reason: { readonly rule: SelectionRule; readonly tried: readonly Trial[] };
}

/** UTF-16 units of a sample that stands for the whole text, and of the shortest text that is sampled. */
const SAMPLE_LENGTH = 512;
const SAMPLED_FROM = 2048;

/** Codecs whose output is proportional to their input, so that a sample is enough for an estimate. */
const LINEAR: ReadonlySet<Algorithm> = new Set([
  Algorithm.TOKEN_NATIVE,
  Algorithm.DICTIONARY,
  Algorithm.NONE,
]);

export function isLinear({ algorithm }: Candidate): boolean {
  return LINEAR.has(algorithm);
}

/** Compares the candidates on one text; each runs at most once. Ratios are bytes per UTF-16 unit. */
export class CodecTrial {
  readonly #candidates: readonly Candidate[];
  readonly #text: string;
  readonly #observe: (candidate: number, ratio: number) => void;
  /** Indices of the candidates in the order in which they were tried, and their ratios. */
  readonly #order: number[] = [];
  readonly #ratios: number[] = [];
  /** At the same places, the bodies of those that ran. */
  readonly #bodies: (Uint8Array | undefined)[] = [];
  readonly #ran: boolean[] = [];

  constructor(
    candidates: readonly Candidate[],
    text: string,
    observe: (candidate: number, ratio: number) => void,
  ) {
    this.#candidates = candidates;
    this.#text = text;
    this.#observe = observe;
  }

  /** Codes the text. Returns the ratio, or Infinity if the text cannot be coded. */
  run(candidate: number): number {
    const known = this.#order.indexOf(candidate);
    if (known !== -1 && this.#ran[known]) return this.#ratios[known]!;
    const body = this.#candidates[candidate]!.encode(this.#text);
    return this.#enter(candidate, body, this.#text.length, true);
  }

  /** Codes the text, or only a sample of it if that is enough. */
  look(candidate: number): void {
    if (this.#order.includes(candidate)) return;
    if (this.#text.length < SAMPLED_FROM || !isLinear(this.#candidates[candidate]!)) {
      this.run(candidate);
      return;
    }
    const sample = sampleOf(this.#text);
    this.#enter(candidate, this.#candidates[candidate]!.encode(sample), sample.length, false);
  }

  /**
   * Returns the smallest body. A candidate that looks smallest by its sample has to code the whole text. If
   * no candidate could carry the text so far, all others are tried.
   *
   * @param rule reported if there was no comparison.
   * @throws {ProtocolError} `unrepresentable` if no candidate can carry the text.
   */
  finish(rule: SelectionRule): Selection {
    let winner = this.#best();
    if (winner === -1) {
      for (let candidate = 0; candidate < this.#candidates.length; candidate++) this.look(candidate);
      winner = this.#best();
    }
    while (winner !== -1 && !this.#ran[winner]) {
      this.run(this.#order[winner]!);
      winner = this.#best();
    }
    const body = this.#bodies[winner];
    if (body === undefined) {
      // Without a key M2M carries chat requests and the like only; an end with a key states M2M alone.
      const isM2M = this.#candidates.every(({ algorithm }) => algorithm === Algorithm.M2M);
      throw new ProtocolError(
        'unrepresentable',
        isM2M
          ? 'M2M alone was agreed on, which carries this text only with a key: if the other end has the option `security`, give this end the same'
          : 'none of the negotiated codecs can carry this text',
      );
    }
    return {
      algorithm: this.#candidates[this.#order[winner]!]!.algorithm,
      body,
      reason: {
        rule: rule === 'learned' && this.#order.length > 1 ? 'smallest' : rule,
        tried: this.#trials(),
      },
    };
  }

  #enter(candidate: number, body: Uint8Array | undefined, length: number, ran: boolean): number {
    const ratio = body === undefined ? Infinity : body.length / Math.max(length, 1);
    const known = this.#order.indexOf(candidate);
    const place = known === -1 ? this.#order.length : known;
    this.#order[place] = candidate;
    this.#ratios[place] = ratio;
    this.#ran[place] = ran;
    this.#bodies[place] = ran ? body : undefined;
    this.#observe(candidate, ratio);
    return ratio;
  }

  /** The place of the least ratio, or of the first candidate among equals; -1 if there is none. */
  #best(): number {
    let best = -1;
    for (let place = 0; place < this.#order.length; place++) {
      const ratio = this.#ratios[place]!;
      if (ratio === Infinity) continue;
      if (best === -1 || ratio < this.#ratios[best]!) best = place;
      else if (ratio === this.#ratios[best] && this.#order[place]! < this.#order[best]!) best = place;
    }
    return best;
  }

  #trials(): Trial[] {
    return this.#order.map((candidate, place) => ({
      algorithm: this.#candidates[candidate]!.algorithm,
      bytes:
        this.#ratios[place] === Infinity
          ? undefined
          : (this.#bodies[place]?.length ?? Math.round(this.#ratios[place]! * this.#text.length)),
      estimated: !this.#ran[place],
    }));
  }
}

/** A part from the middle that does not split a surrogate pair. */
function sampleOf(text: string): string {
  let start = Math.floor((text.length - SAMPLE_LENGTH) / 2);
  let end = start + SAMPLE_LENGTH;
  if (isLowSurrogate(text.charCodeAt(start))) start++;
  if (isLowSurrogate(text.charCodeAt(end))) end++;
  return text.slice(start, end);
}

function isLowSurrogate(unit: number): boolean {
  return unit >= 0xdc00 && unit <= 0xdfff;
}
