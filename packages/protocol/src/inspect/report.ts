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

/** An explanation while it is being written. */

/** Most fields of one explanation: a frame may hold a million values, which nobody reads. */
const MAX_FIELDS = 2000;
/** UTF-16 units of a value that are kept. */
const MAX_VALUE = 400;
/** UTF-16 units of content in a summary. */
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

/** A reader's refusal together with the place that it is about; never leaves this room. */
export class Fault extends Error {
  readonly error: ProtocolError;
  readonly offset: number;

  constructor(error: ProtocolError, offset: number) {
    super(error.message);
    this.error = error;
    this.offset = offset;
  }
}

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
  streamId: number | undefined;
  preview: string | undefined;
  protection: 'HMAC' | 'AEAD' | undefined;
  error: ExplainedFault | undefined;
  #room = MAX_FIELDS;

  constructor(options: ExplainOptions) {
    this.options = options;
    this.limits = resolveLimits(options.limits);
  }

  /** Nothing more is written down. */
  get isFull(): boolean {
    return this.#room <= 0;
  }

  /** Adds a field to `into`, as long as there is room; what is written to it then counts for nothing. */
  add(into: MutableField[], name: string, offset: number, length: number): MutableField {
    const field: MutableField = { name: shortened(name, 80), offset, length, children: [] };
    if (this.#room-- > 0) into.push(field);
    return field;
  }

  /** The beginning of `text`, as far as it was asked for. */
  show(text: string): string | undefined {
    const max = this.options.preview ?? 0;
    return max > 0 ? shortened(text, max) : undefined;
  }

  /** As much of the content as a line has room for, in quotation marks. */
  get excerpt(): string {
    return this.preview === undefined ? '' : quoted(shortened(this.preview, MAX_EXCERPT));
  }

  /** Remembers why the frame is refused; what was found first counts. */
  refuse({ error, offset }: Fault): void {
    this.error ??= faultOf(error, offset);
  }

  /** Remembers what does not hold in the content. */
  warn(error: ProtocolError, offset: number): void {
    this.warnings.push(faultOf(error, offset));
  }

  finish(bytes: Uint8Array, form: 'binary' | 'text'): Explanation {
    const { kind, label, summary, streamId, preview, protection, error, warnings, missing } = this;
    return {
      kind,
      form,
      label,
      summary: summary || (error === undefined ? label : error.message),
      bytes,
      fields: this.fields,
      sizes: { frame: bytes.length, body: this.body, content: this.content },
      streamId,
      preview,
      protection,
      error,
      warnings,
      missing: [...missing],
    };
  }
}

/** Runs what may find a fault; foreign errors are faults of this room and go on. */
export function attempt(run: () => void): Fault | undefined {
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
 * Walks through a piece and has the decoder that a session uses say whether it is right. Its refusal is
 * a fault where the walk could not go on, or else at `offset`.
 */
export function judged<T>(walk: () => void, decode: () => T, offset: number): T {
  const walked = attempt(walk);
  try {
    return decode();
  } catch (error) {
    if (!(error instanceof ProtocolError)) throw error;
    throw new Fault(error, walked?.offset ?? offset);
  }
}

/** A text of at most `max` units, with an ellipsis where something was cut off. */
export function shortened(text: string, max = MAX_VALUE): string {
  if (text.length <= max) return text;
  // Half a character at the end would not be one.
  return `${text.slice(0, max).replace(/[\ud800-\udbff]$/, '')}…`;
}

function faultOf(error: ProtocolError, offset: number): ExplainedFault {
  return { code: error.code, message: error.message, offset };
}

/**
 * The last field of a name, anywhere in the tree but inside coded fields, whose offsets count in
 * something else.
 */
export function findField(fields: readonly MutableField[], name: string): MutableField | undefined {
  for (const field of fields.toReversed()) {
    const inside = field.bytes === undefined ? findField(field.children, name) : undefined;
    if (inside !== undefined) return inside;
    if (field.name === name) return field;
  }
  return undefined;
}
