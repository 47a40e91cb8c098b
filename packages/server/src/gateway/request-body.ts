import { isUtf8 } from 'node:buffer';
import { type Message, ProtocolError } from '@parlance/protocol';
import { GatewayFailure, readRequest } from './failure.js';
import { type ScanResult, scanObject } from './scan.js';

/** Fields of a request that a gateway decides by. */
const FIELDS = ['model', 'previous_response_id', 'conversation'] as const;
export type ScannedField = (typeof FIELDS)[number];

/** The body of a request: decoded and scanned when that is first asked for, and once. */
export class GatewayBody {
  readonly #request: Message;
  #scan: ScanResult<ScannedField> | undefined;

  constructor(request: Message) {
    this.#request = request;
  }

  /** As it goes to the upstream. @throws {GatewayFailure} `bad_request`. */
  get bytes(): Uint8Array {
    return readRequest(() => this.#request.bytes);
  }

  /** What the header of an M2M frame says, which nothing proves. @throws {GatewayFailure} `bad_request`. */
  get headerModel(): string | undefined {
    const header = readRequest(() => this.#request.header);
    const model = header !== undefined && 'model' in header ? header.model : '';
    return model === '' ? undefined : model;
  }

  /** What was found, however far that got. @throws {GatewayFailure} `bad_request` for what cannot be decoded. */
  scan(): ScanResult<ScannedField> {
    this.#scan ??= scanObject(this.bytes, FIELDS);
    return this.#scan;
  }

  /** @throws {GatewayFailure} `bad_request` if another reader might find something else. */
  scanStrictly(): ScanResult<ScannedField> {
    const result = this.scan();
    if (result.fault === 'beyond_limits') {
      const cause = new ProtocolError('too_many_values', 'a request of too many values or levels');
      throw new GatewayFailure('bad_request', 'the request holds too many values, or is nested too deep', {
        cause,
      });
    }
    // Readers differ in what they make of bytes that are no text, inside of keys too.
    if (result.fault === 'malformed' || !isUtf8(this.bytes)) {
      throw new GatewayFailure('bad_request', 'the request is not a JSON object');
    }
    return result;
  }
}
