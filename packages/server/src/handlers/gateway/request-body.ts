import { isUtf8 } from 'node:buffer';
import { type Message, ProtocolError } from '@parlance/protocol';
import { GatewayFailure, readRequest } from './failure.js';
import { type ScanResult, scanObject } from './scan.js';

/** Fields that the gateway bases decisions on. */
const FIELDS = ['model', 'previous_response_id', 'conversation', 'input', 'stream'] as const;
export type ScannedField = (typeof FIELDS)[number];

/** The body of a request, decoded and scanned on first use. */
export class GatewayBody {
  readonly #request: Pick<Message, 'bytes' | 'header'>;
  #scan: ScanResult<ScannedField> | undefined;

  constructor(request: Pick<Message, 'bytes' | 'header'>) {
    this.#request = request;
  }

  /** The bytes for the upstream. @throws {GatewayFailure} `bad_request`. */
  get bytes(): Uint8Array {
    return readRequest(() => this.#request.bytes);
  }

  /** The model in the header of an M2M frame, which is not authoritative. @throws {GatewayFailure} `bad_request`. */
  get headerModel(): string | undefined {
    const header = readRequest(() => this.#request.header);
    const model = header !== undefined && 'model' in header ? header.model : '';
    return model === '' ? undefined : model;
  }

  /** The body asks for a stream of events. @throws {GatewayFailure} `bad_request` if decoding fails. */
  get isForStream(): boolean {
    const value = this.scan().found.get('stream')?.value;
    return value !== undefined && isTrue(value);
  }

  /** The fields found, possibly before a fault. @throws {GatewayFailure} `bad_request` if decoding fails. */
  scan(): ScanResult<ScannedField> {
    this.#scan ??= scanObject(this.bytes, FIELDS);
    return this.#scan;
  }

  /** Like {@link scan}. @throws {GatewayFailure} `bad_request` if a JSON parser might find other fields. */
  scanStrictly(): ScanResult<ScannedField> {
    const result = this.scan();
    if (result.fault === 'beyond_limits') {
      const cause = new ProtocolError('too_many_values', 'the request has too many values or levels');
      throw new GatewayFailure('bad_request', 'the request has too many values or is nested too deeply', {
        cause,
      });
    }
    // Parsers differ in how they treat invalid UTF-8, even inside keys.
    if (result.fault === 'malformed' || !isUtf8(this.bytes)) {
      throw new GatewayFailure('bad_request', 'the request is not a JSON object');
    }
    return result;
  }
}

function isTrue(value: Uint8Array): boolean {
  // No other value of four bytes begins with t.
  return value.length === 4 && value[0] === 0x74;
}
