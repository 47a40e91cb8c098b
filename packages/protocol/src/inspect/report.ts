import type { EncodingName } from '../base/constants.js';
import { ProtocolError } from '../base/errors.js';
import { type Limits, resolveLimits } from '../base/limits.js';
import type { LoadableCodec } from '../codec/load.js';
import type {
  ExplainedFault,
  ExplainedKind,
  ExplainOptions,
  Explanation,
  FieldValue,
} from './explanation.js';
import { quoted } from './wording.js';

/** Most fields of one explanation: a frame may hold a million values, which no person reads. */
const MAX_FIELDS = 2000;
/** Longest value, in UTF-16 units. */
const MAX_VALUE = 400;
/** Longest quote of the content in a summary, in UTF-16 units. */
const MAX_EXCERPT = 80;

export interface MutableField {
  name: string;
  value?: FieldValue | undefined;
  offset: number;
  length: number;
  note?: string | undefined;
  isSecret?: true | undefined;
  bytes?: Uint8Array | undefined;
  children: MutableField[];
}

/** A protocol error and the offset it is about. Internal: callers of the explainer get an `ExplainedFault`. */
export class Fault extends Error {
  readonly error: ProtocolError;
  readonly offset: number;

  constructor(error: ProtocolError, offset: number) {
    super(error.message);
    this.error = error;
    this.offset = offset;
  }
}

/** An explanation that is being built. */
export class Report {
  readonly limits: Limits;
  readonly options: ExplainOptions;
  readonly fields: MutableField[] = [];
  readonly warnings: ExplainedFault[] = [];
  readonly missing = new Set<LoadableCodec | EncodingName>();
  kind: ExplainedKind = 'unknown';
  label = 'unknown';
  summary = '';
  body: number | undefined;
  content: number | undefined;
  codec: string | undefined;
  tokens: number | undefined;
  streamId: number | undefined;
  preview: string | undefined;
  protection: 'HMAC' | 'AEAD' | undefined;
  error: ExplainedFault | undefined;
  #fieldsLeft = MAX_FIELDS;

  constructor(options: ExplainOptions) {
    this.options = options;
    this.limits = resolveLimits(options.limits);
  }

  /** No more fields are recorded. */
  get isFull(): boolean {
    return this.#fieldsLeft <= 0;
  }

  /** Adds a field to `into`. Once the report is full, the returned field belongs to nothing. */
  add(into: MutableField[], name: string, offset: number, length: number): MutableField {
    const field: MutableField = { name: truncate(name, 80), offset, length, children: [] };
    if (this.#fieldsLeft-- > 0) into.push(field);
    return field;
  }

  /** The beginning of `text`, if the caller asked for a preview. */
  show(text: string): string | undefined {
    const max = this.options.preview ?? 0;
    return max > 0 ? truncate(text, max) : undefined;
  }

  /** A quote of the content that fits into one line. */
  get excerpt(): string {
    return this.preview === undefined ? '' : quoted(truncate(this.preview, MAX_EXCERPT));
  }

  /** Records why the frame is refused; the first reason counts. */
  refuse({ error, offset }: Fault): void {
    this.error ??= faultOf(error, offset);
  }

  /** Records a defect of the content that does not make a receiver refuse the frame. */
  warn(error: ProtocolError, offset: number): void {
    this.warnings.push(faultOf(error, offset));
  }

  finish(bytes: Uint8Array, form: 'binary' | 'text'): Explanation {
    const { kind, label, summary, codec, tokens, streamId, preview, protection, error, warnings, missing } =
      this;
    return {
      kind,
      form,
      label,
      summary: summary || (error === undefined ? label : error.message),
      bytes,
      fields: this.fields,
      sizes: { frame: bytes.length, body: this.body, content: this.content },
      codec,
      tokens,
      streamId,
      isCut: this.isFull || undefined,
      preview,
      protection,
      error,
      warnings,
      missing: [...missing],
    };
  }
}

/** Runs `run` and returns its fault. Any other error is a bug of the explainer and is thrown. */
export function catchFault(run: () => void): Fault | undefined {
  try {
    run();
    return undefined;
  } catch (error) {
    if (error instanceof Fault) return error;
    if (error instanceof ProtocolError) return new Fault(error, 0);
    throw error;
  }
}

/**
 * Walks through a piece, then runs the decoder that a session uses: only the decoder decides whether the
 * piece is valid. If it throws, the fault is where the walk stopped, or else at `offset`.
 */
export function walkThenDecode<T>(walk: () => void, decode: () => T, offset: number): T {
  const walked = catchFault(walk);
  try {
    return decode();
  } catch (error) {
    if (!(error instanceof ProtocolError)) throw error;
    throw new Fault(error, walked?.offset ?? offset);
  }
}

/** At most `max` UTF-16 units of a text, with an ellipsis if it was longer. */
export function truncate(text: string, max = MAX_VALUE): string {
  if (text.length <= max) return text;
  // Do not end with half a surrogate pair.
  return `${text.slice(0, max).replace(/[\ud800-\udbff]$/, '')}…`;
}

function faultOf(error: ProtocolError, offset: number): ExplainedFault {
  return { code: error.code, message: error.message, offset };
}

/** The last field of a name anywhere in the tree, except inside coded fields: their offsets count in other bytes. */
export function findField(fields: readonly MutableField[], name: string): MutableField | undefined {
  for (const field of fields.toReversed()) {
    const inside = field.bytes === undefined ? findField(field.children, name) : undefined;
    if (inside !== undefined) return inside;
    if (field.name === name) return field;
  }
  return undefined;
}
