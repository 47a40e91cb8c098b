import { Algorithm } from '../../base/constants.js';
import {
  BodyCodec,
  type CodedBody,
  type DeferredBody,
  type DeferredEncoding,
  MAX_DEFERRED_GROWTH,
} from '../body.js';
import { ContextChooser } from '../context/choice.js';
import type { ContextOffer } from '../context/encoder.js';
import type { Selection } from './select.js';

/** How a message was coded in context. */
export interface ContextDetails {
  /** 0 without a base, 1 for the last part of the same stream, else 1 more than how many messages back it is. */
  readonly base: number;
  /** Bytes of the base, which is the dictionary where the middle was compressed. */
  readonly dictionary: number;
  /** Bytes that were taken from the beginning and from the end of the base. */
  readonly prefix: number;
  readonly suffix: number;
  /** Bytes between the two, as they travel. */
  readonly middle: number;
  readonly compressed: boolean;
}

/** What `auto` chose for a message, and why. */
export interface LastSelection {
  readonly algorithm: Algorithm | 'CONTEXT';
  readonly body: Uint8Array;
  readonly reason: {
    /**
     * As for codecs; `context`: coded against an earlier message, and smaller than what else was tried;
     * `investment`: in context without a base, so that later messages can be coded against this one.
     */
    readonly rule: Selection['reason']['rule'] | 'context' | 'investment';
    readonly tried: readonly {
      readonly algorithm: Algorithm | 'CONTEXT';
      readonly bytes: number | undefined;
      readonly estimated: boolean;
    }[];
  };
  /** Where the message was coded in context. */
  readonly context?: ContextDetails | undefined;
}

/** What a codec of its own makes of a message. */
export interface StatelessBody {
  readonly codec: BodyCodec;
  readonly bytes: Uint8Array;
  /** Why this codec, where `auto` chose it. */
  readonly selection: Selection | undefined;
}

export interface DeferredMessage {
  readonly content: Uint8Array;
  readonly metadata: Uint8Array | undefined;
  /** Content that other codecs leave as it is, so that context alone would be work for little. */
  readonly isBinary: boolean;
  /** `undefined` where no other codec is to be tried, or can carry the message. */
  readonly stateless: () => StatelessBody | undefined;
}

/** Codes messages when they are written: in context, or in a codec of their own where that is better. */
export class DeferredEncoder {
  readonly #onSelected: (selection: LastSelection) => void;
  readonly #chooser = new ContextChooser();

  /** @param onSelected is told how a message was coded, just before it is written. */
  constructor(onSelected: (selection: LastSelection) => void) {
    this.#onSelected = onSelected;
  }

  /** A body that is coded when its first frame is written. */
  body({ content, metadata, isBinary, stateless }: DeferredMessage): CodedBody {
    const encode: DeferredEncoding['encode'] = (encoder, streamId, kind, isPart) => {
      let rival: StatelessBody | undefined;
      const choice = this.#chooser.choose(encoder, { content, streamId, isPart, kind, isBinary }, () => {
        rival = stateless();
        // Nothing grows by more than context does.
        if (rival !== undefined && rival.bytes.length > content.length + MAX_DEFERRED_GROWTH)
          rival = undefined;
        return rival?.bytes.length;
      });
      const { offer } = choice;
      const tried = [
        ...(rival?.selection?.reason.tried ?? []),
        ...(choice.bytes === undefined
          ? []
          : [{ algorithm: 'CONTEXT' as const, bytes: choice.bytes, estimated: false }]),
      ];
      if (offer !== undefined) {
        const coded: DeferredBody = {
          codec: BodyCodec.CONTEXT,
          bytes: offer.bytes,
          originalLength: content.length,
          offer,
        };
        const rule = choice.rule as 'context' | 'investment';
        this.#onSelected({
          algorithm: 'CONTEXT',
          body: offer.bytes,
          reason: { rule, tried },
          context: detailsOf(offer),
        });
        return coded;
      }
      const { codec, bytes, selection } = rival as StatelessBody;
      const coded: DeferredBody = { codec, bytes, originalLength: content.length, offer: undefined };
      const algorithm = selection?.algorithm ?? Algorithm.NONE;
      this.#onSelected({
        algorithm,
        body: bytes,
        reason: { rule: selection?.reason.rule ?? 'only', tried },
      });
      return coded;
    };
    return {
      codec: BodyCodec.PLAIN,
      bytes: content,
      originalLength: content.length,
      secret: false,
      metadata,
      deferred: { encode },
    };
  }
}

function detailsOf({ base, baseLength, prefix, suffix, middle, compressed }: ContextOffer): ContextDetails {
  return { base, dictionary: baseLength, prefix, suffix, middle, compressed };
}
