import type { EncodingName, Subprotocol } from '../base/constants.js';
import type { ErrorCode } from '../base/errors.js';
import type { Limits } from '../base/limits.js';
import type { LoadableCodec } from '../codec/load.js';

/** What an explained frame consists of, for people and for programs alike. */

/** What a frame is, told by its first byte or its prefix. */
export type ExplainedKind =
  /** HELLO, ACCEPT and the other envelopes, as MessagePack or JSON. */
  | 'control'
  | 'link'
  | 'token-native'
  | 'm2m'
  | 'avp'
  /** Any text form but that of M2M. */
  | 'text-form'
  /** Text without a known prefix: the content itself. */
  | 'content'
  | 'unknown';

export type FieldValue = string | number | boolean | null;

/** A piece of a frame, in the order of the wire. */
export interface ExplainedField {
  readonly name: string;
  /** Absent where the field only groups others, and where its bytes say nothing to people. */
  readonly value?: FieldValue | undefined;
  /** Where it begins, in bytes of the frame, or of {@link bytes} of the field around it. */
  readonly offset: number;
  readonly length: number;
  /** What it means. */
  readonly note?: string | undefined;
  /** A credential: its value is withheld, and nobody should show its bytes. */
  readonly isSecret?: true | undefined;
  /** Where the field is itself coded, as in base64: what it stands for. Offsets of children count in it. */
  readonly bytes?: Uint8Array | undefined;
  readonly children: readonly ExplainedField[];
}

/** What is wrong with a frame, and where. */
export interface ExplainedFault {
  readonly code: ErrorCode;
  readonly message: string;
  /** In bytes of the frame. Everything before it was understood. */
  readonly offset: number;
}

export interface Explanation {
  readonly kind: ExplainedKind;
  /** Whether it was a binary or a text message of the WebSocket. */
  readonly form: 'binary' | 'text';
  /** A word or two: `HELLO`, `request`, `TokenNative`. */
  readonly label: string;
  /** What it says, in one line. */
  readonly summary: string;
  /** The frame itself, text as UTF-8. */
  readonly bytes: Uint8Array;
  /** In the order of the wire; of a damaged frame what could be read. */
  readonly fields: readonly ExplainedField[];
  readonly sizes: {
    /** Bytes of the frame. */
    readonly frame: number;
    /** Bytes of its coded body, without any header. */
    readonly body?: number | undefined;
    /** Bytes of the content that the body stands for. */
    readonly content?: number | undefined;
  };
  /** The stream of a link frame that has one. */
  readonly streamId?: number | undefined;
  /** What an M2M frame is protected by; what the key covers was not looked into. */
  readonly protection?: 'HMAC' | 'AEAD' | undefined;
  /** The beginning of the content as text, where it was asked for and there is any. */
  readonly preview?: string | undefined;
  /** Why a receiver refuses the frame, or what it carries. */
  readonly error?: ExplainedFault | undefined;
  /** What does not hold in content that a receiver takes without asking, as a KV-cache. */
  readonly warnings: readonly ExplainedFault[];
  /** What has to be loaded to explain the rest: codecs, vocabularies. */
  readonly missing: readonly (LoadableCodec | EncodingName)[];
}

export interface ExplainOptions {
  /** UTF-16 units of content to show. @default 0, none */
  readonly preview?: number | undefined;
  /** Bounds of what is decoded and decompressed. @default DEFAULT_LIMITS */
  readonly limits?: Partial<Limits> | undefined;
  /** Vocabulary of token IDs in link frames, which do not name it. @default none */
  readonly encoding?: EncodingName | undefined;
  /** With `m2m.v1.json` every text is a control message. @default told from the text */
  readonly subprotocol?: Subprotocol | undefined;
  /** The message of a body in context, which takes the session to decode. @default none */
  readonly decoded?: Uint8Array | undefined;
  /** The frame of a link goes on with a body that another frame began. @default none */
  readonly continues?: Continuation | undefined;
}

/** How much of a body came before. */
export interface Continuation {
  readonly received: number;
  readonly total: number;
}
