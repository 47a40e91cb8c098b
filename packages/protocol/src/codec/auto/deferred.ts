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
  /** 0 without a base, 1 for the last part of the same stream, `n + 1` for the `n`-th message back. */
  readonly base: number;
  /** Bytes of the base. It is the dictionary if the middle was compressed. */
  readonly dictionary: number;
  /** Bytes taken from the beginning and from the end of the base. */
  readonly prefix: number;
  readonly suffix: number;
  /** Coded bytes between the two. */
  readonly middle: number;
  readonly compressed: boolean;
}

/** The codec that `auto` chose for a message, and why. */
export interface LastSelection {
  readonly algorithm: Algorithm | 'CONTEXT';
  readonly body: Uint8Array;
  readonly reason: {
    /**
     * `context`: coded against an earlier message, and smaller than everything else that was tried;
     * `investment`: in context without a base, so that later messages can be coded against this one. The
     * others are those of a choice between codecs.
     */
    readonly rule: Selection['reason']['rule'] | 'context' | 'investment';
    readonly tried: readonly {
      readonly algorithm: Algorithm | 'CONTEXT';
      readonly bytes: number | undefined;
      readonly estimated: boolean;
    }[];
  };
  /** Set if the message was coded in context. */
  readonly context?: ContextDetails | undefined;
}

/** A message coded without context. */
export interface StatelessBody {
  readonly codec: BodyCodec;
  readonly bytes: Uint8Array;
  /** Why this codec was chosen, if `auto` did that. */
  readonly selection: Selection | undefined;
}

export interface DeferredMessage {
  readonly content: Uint8Array;
  readonly metadata: Uint8Array | undefined;
  /** Other codecs leave the content unchanged, so context without a base would gain little. */
  readonly isBinary: boolean;
  /** Codes the message without context; `undefined` if no other codec may be tried or can carry it. */
  readonly stateless: () => StatelessBody | undefined;
}

/** Codes messages when they are written: in context, or in another codec if that is better. */
export class DeferredEncoder {
  readonly #onSelected: (selection: LastSelection) => void;
  readonly #chooser = new ContextChooser();

  /** @param onSelected called with how a message was coded, just before it is written. */
  constructor(onSelected: (selection: LastSelection) => void) {
    this.#onSelected = onSelected;
  }

  /** A body that is coded when its first frame is written. */
  body({ content, metadata, isBinary, stateless }: DeferredMessage): CodedBody {
    const encode: DeferredEncoding['encode'] = (encoder, streamId, kind, isPart) => {
      let rival: StatelessBody | undefined;
      const choice = this.#chooser.choose(encoder, { content, streamId, isPart, kind, isBinary }, () => {
        rival = stateless();
        // No body may grow by more than one in context.
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
