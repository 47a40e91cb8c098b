import { Buffer } from 'node:buffer';
import { GatewayFailure } from './failure.js';

/**
 * Finds the model that a form names while the form passes by, in pieces of any size. It accepts forms only as browsers
 * and the common libraries write them, so that every parser finds the same fields: the parts begin and end where any
 * reader sees them, each has one plain name, and there is one field of the name `model`.
 */
export class FormScan {
  /** The model, once it has passed. */
  model: string | undefined;
  readonly #onModel: (model: string) => void;
  readonly #delimiter: Buffer;
  #state: 'start' | 'head' | 'content' | 'end' = 'start';
  /** Not looked at yet. */
  #rest: Buffer = Buffer.alloc(0);
  /** The content of the field `model`; `undefined` in other fields. */
  #value: Buffer | undefined;
  #parts = 0;

  /** @param onModel throws if the model is not allowed. */
  constructor(boundary: string, onModel: (model: string) => void) {
    this.#delimiter = Buffer.from(`--${boundary}`, 'latin1');
    this.#onModel = onModel;
  }

  /**
   * Must be called with each piece before it is passed on.
   *
   * @throws {GatewayFailure} `bad_request` if parsers may differ on the form, or at its end if it names no model.
   */
  push(piece: Uint8Array): void {
    const bytes = Buffer.from(piece.buffer, piece.byteOffset, piece.length);
    this.#rest = this.#rest.length === 0 ? bytes : Buffer.concat([this.#rest, bytes]);
    while (this.#step()) {
      // Until more is needed.
    }
    // The piece belongs to someone else.
    this.#rest = Buffer.from(this.#rest);
  }

  /** @throws {GatewayFailure} `bad_request` if the form is not complete. */
  end(): void {
    if (this.#state !== 'end') throw malformed('it is not complete');
  }

  /** @returns whether to continue. */
  #step(): boolean {
    switch (this.#state) {
      case 'start':
        return this.#readStart();
      case 'head':
        return this.#readHead();
      case 'content':
        return this.#readContent();
      case 'end':
        // Some libraries end the last line.
        if (!'\r\n'.startsWith(this.#rest.toString('latin1'))) throw malformed('something follows its end');
        return false;
    }
  }

  #readStart(): boolean {
    const { length } = this.#delimiter;
    if (this.#rest.length < length + 2) return false;
    if (!this.#rest.subarray(0, length).equals(this.#delimiter)) throw malformed('it has no boundary');
    return this.#pass(length);
  }

  /** Behind a delimiter. @param at its end */
  #pass(at: number): boolean {
    const mark = this.#rest.toString('latin1', at, at + 2);
    if (mark !== '\r\n' && mark !== '--') throw malformed('its boundary is part of its content');
    this.#rest = this.#rest.subarray(at + 2);
    this.#state = mark === '--' ? 'end' : 'head';
    if (this.#state === 'end' && this.model === undefined) throw malformed('it names no model');
    return true;
  }

  #readHead(): boolean {
    const end = this.#rest.indexOf('\r\n\r\n');
    if (end > MAX_HEAD || (end < 0 && this.#rest.length > MAX_HEAD + 4))
      throw malformed('a field has a long head');
    if (end < 0) return false;
    if (++this.#parts > MAX_PARTS) throw malformed(`it has more than ${MAX_PARTS} fields`);
    const { name, isFile } = readHead(this.#rest.toString('latin1', 0, end));
    // PHP, Rails and others make the same field of "model", "model[]" and " Model".
    if (/^\W*model\b/i.test(name)) {
      if (name !== 'model' || isFile)
        throw malformed('it has a field like "model", but of another name or kind');
      if (this.model !== undefined) throw malformed('it names its model more than once');
      this.#value = Buffer.alloc(0);
    }
    this.#rest = this.#rest.subarray(end + 4);
    this.#state = 'content';
    return true;
  }

  #readContent(): boolean {
    const { length } = this.#delimiter;
    const at = this.#rest.indexOf(this.#delimiter);
    if (at < 0) {
      // The last bytes may begin a delimiter, or end the line before it.
      this.#take(Math.max(0, this.#rest.length - length - 1));
      return false;
    }
    if (this.#rest.length < at + length + 2) return false;
    // A parser that is content with a line feed would find other fields.
    if (at < 2 || this.#rest.toString('latin1', at - 2, at) !== '\r\n') {
      throw malformed('its boundary is part of its content');
    }
    this.#take(at - 2);
    if (this.#value !== undefined) {
      this.model = this.#value.toString();
      this.#value = undefined;
      this.#onModel(this.model);
    }
    return this.#pass(length + 2);
  }

  /** So many bytes are content. */
  #take(count: number): void {
    if (this.#value !== undefined) {
      this.#value = Buffer.concat([this.#value, this.#rest.subarray(0, count)]);
      if (this.#value.length > MAX_MODEL) throw malformed('the name of its model is too long');
    }
    this.#rest = this.#rest.subarray(count);
  }
}

/** Bytes of the name of a model. */
const MAX_MODEL = 1024;
/** Bytes of the head of a field. */
const MAX_HEAD = 4096;
const MAX_PARTS = 1000;

const DISPOSITION = /^content-disposition: form-data; name="([^"\\%]{1,200})"(?:; filename="[^"\\]*")?$/i;
const TYPE = /^content-type: [\x20-\x7e]*$/i;
/** Written by some libraries; says nothing that a parser heeds. */
const LENGTH = /^content-length: \d+$/i;

function readHead(head: string): { readonly name: string; readonly isFile: boolean } {
  const lines = head.split('\r\n');
  const found = lines.flatMap((line) => DISPOSITION.exec(line)?.[1] ?? []);
  const others = lines.filter((line) => !DISPOSITION.test(line));
  const isPlain = others.every((line) => TYPE.test(line) || LENGTH.test(line)) && others.length <= 2;
  const [name] = found;
  if (name === undefined || found.length > 1 || !isPlain || /[\r\n]/.test(head.replaceAll('\r\n', ''))) {
    throw malformed('a field has an unusual head');
  }
  return { name, isFile: /; filename="/i.test(head) };
}

/** The boundary of a form that a content type states; `undefined` for any other content type. */
export function boundaryOf(type: string | undefined): string | undefined {
  return /^multipart\/form-data; ?boundary="?([\w.'-]{1,70})"?$/i.exec(type ?? '')?.[1];
}

function malformed(reason: string): GatewayFailure {
  return new GatewayFailure('bad_request', `the form cannot be checked: ${reason}`);
}
