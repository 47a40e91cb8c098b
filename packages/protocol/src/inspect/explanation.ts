import type { EncodingName, Subprotocol } from '../base/constants.js';
import type { ErrorCode } from '../base/errors.js';
import type { Limits } from '../base/limits.js';
import type { LoadableCodec } from '../codec/load.js';

/** Kind of a frame, as its first byte or its prefix states it. */
export type ExplainedKind =
  /** HELLO, ACCEPT and the other envelopes, as MessagePack or JSON. */
  | 'control'
  | 'link'
  | 'token-native'
  | 'm2m'
  | 'avp'
  /** Any text form except that of M2M. */
  | 'text-form'
  /** Text without a known prefix: the content itself. */
  | 'content'
  | 'unknown';

export type FieldValue = string | number | boolean | null;

/** One piece of a frame. */
export interface ExplainedField {
  readonly name: string;
  /** Absent if the field only groups others, or if its bytes mean nothing to people. */
  readonly value?: FieldValue | undefined;
  /** First byte of the field: an offset in the frame, or in {@link bytes} of the enclosing field. */
  readonly offset: number;
  /** Length in bytes. */
  readonly length: number;
  /** Its meaning. */
  readonly note?: string | undefined;
  /** A credential: its value is redacted, and its bytes should not be shown. */
  readonly isSecret?: true | undefined;
  /** Decoded bytes of a field that is itself coded, such as base64. Offsets of its children count in these. */
  readonly bytes?: Uint8Array | undefined;
  readonly children: readonly ExplainedField[];
}

/** A defect of a frame. */
export interface ExplainedFault {
  readonly code: ErrorCode;
  readonly message: string;
  /** Byte of the frame. Everything before it was understood. */
  readonly offset: number;
}

export interface Explanation {
  readonly kind: ExplainedKind;
  /** Type of the WebSocket message. */
  readonly form: 'binary' | 'text';
  /** A word or two: `HELLO`, `request`, `TokenNative`. */
  readonly label: string;
  /** The meaning of the frame, in one line. */
  readonly summary: string;
  /** The frame itself; text as UTF-8. */
  readonly bytes: Uint8Array;
  /** In wire order; of a damaged frame, the fields that could be read. */
  readonly fields: readonly ExplainedField[];
  readonly sizes: {
    /** Frame, in bytes. */
    readonly frame: number;
    /** Coded body without headers, in bytes. */
    readonly body?: number | undefined;
    /** Decoded content, in bytes. */
    readonly content?: number | undefined;
  };
  /** Codec of the body, if the frame has one: `TOKEN_NATIVE`, `CONTEXT`. */
  readonly codec?: string | undefined;
  /** Token IDs of the body, if it consists of these. */
  readonly tokens?: number | undefined;
  /** Stream ID of a link frame, if it has one. */
  readonly streamId?: number | undefined;
  /** Written again after the session was resumed; set by a session's explainer. */
  readonly isReplayed?: true | undefined;
  /** The fields are not complete: there are more than a person reads. */
  readonly isCut?: true | undefined;
  /** How an M2M frame is protected; the protected part was not examined. */
  readonly protection?: 'HMAC' | 'AEAD' | undefined;
  /** The beginning of the content, if it is text and {@link ExplainOptions.preview} is set. */
  readonly preview?: string | undefined;
  /** Why a receiver refuses the frame or its content. */
  readonly error?: ExplainedFault | undefined;
  /** Defects of content that a receiver accepts unchecked, such as a KV-cache. */
  readonly warnings: readonly ExplainedFault[];
  /** Codecs and vocabularies that must be loaded to explain the rest. */
  readonly missing: readonly (LoadableCodec | EncodingName)[];
}

export interface ExplainOptions {
  /** How much of the content to show, in UTF-16 units. @default 0 (none) */
  readonly preview?: number | undefined;
  /** Limits for decoding and decompression. @default DEFAULT_LIMITS */
  readonly limits?: Partial<Limits> | undefined;
  /** Vocabulary of token IDs in link frames, which do not name it. @default none: IDs stay numbers */
  readonly encoding?: EncodingName | undefined;
  /** With `m2m.v1.json`, every text is a control message. @default detected from the text */
  readonly subprotocol?: Subprotocol | undefined;
  /** Message of a body in context, which only the session can decode. @default none */
  readonly decoded?: Uint8Array | undefined;
  /** Set if the link frame continues a body that an earlier frame began. @default none */
  readonly continues?: Continuation | undefined;
}

/** A body that an earlier frame began, in bytes. */
export interface Continuation {
  readonly received: number;
  readonly total: number;
}
