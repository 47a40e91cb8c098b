import { ProtocolError } from '../base/errors.js';
import { bad, get, isFields } from '../base/fields.js';
import { assertPairedEscapes, endOfString, parseJson } from '../base/json.js';
import type { Limits } from '../base/limits.js';
import { decodeBase64, encodeBase64 } from '../codec/base64.js';
import { dataFields, parseData } from './data.js';
import { type ControlForms, fromFields, toFields } from './forms.js';
import { assertControlSize, MAX_CONTROL_ENTRIES } from './maps.js';
import type { ControlMessage, UnknownMessage } from './messages.js';

/**
 * Control envelopes as JSON text, for `m2m.v1.json`. One pass over the text precedes the parser. Only DATA may be
 * large, and a large DATA is one long string: the pass bounds everything else that `JSON.parse` would spend time on.
 */

/** UTF-16 units of a JSON envelope outside strings; DATA has a few dozen. */
const MAX_OUTSIDE_STRINGS = 16 * 1024;
/** No message type has a longer name, so longer strings are not copied for the comparison. */
const MAX_TYPE_LENGTH = 64;

const QUOTE = 0x22;
const COMMA = 0x2c;
const COLON = 0x3a;
const OPEN_ARRAY = 0x5b;
const CLOSE_ARRAY = 0x5d;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;

/**
 * Encodes a message as JSON text for `m2m.v1.json`.
 *
 * @throws {ProtocolError} `lone_surrogate`.
 */
export function encodeJsonEnvelope(message: ControlMessage, forms: ControlForms): string {
  const text = JSON.stringify(toFields(message, withData(forms)));
  assertPairedEscapes(text);
  return text;
}

/**
 * Decodes a JSON envelope.
 *
 * @param maxSize its largest size in UTF-16 units, unless it is DATA, which the caller has bounded.
 * @throws {ProtocolError} `bad_json`, `bad_message`, or the code of the limit that is exceeded.
 */
export function decodeJsonEnvelope(
  text: string,
  forms: ControlForms,
  limits: Limits,
  maxSize: number,
): ControlMessage | UnknownMessage {
  assertEnvelopeBounds(text, maxSize, limits.maxJsonDepth);
  assertPairedEscapes(text);
  const value = parseJson(text, limits);
  if (!isFields(value)) throw bad('a control message', 'an object');
  const message = fromFields(value, withData(forms));
  // The first pass does not recognise a "type" key that is spelled with escapes; the parser does.
  if (message.type !== 'DATA') assertControlSize(text.length, maxSize);
  return message;
}

/** The forms of an end of `m2m.v1.json`, which both reads and writes DATA, and in which bytes are base64. */
const withData = (forms: ControlForms): ControlForms => ({
  read(type, payload) {
    if (type === 'DATA') return parseData(payload);
    const nonce = type === 'HELLO' ? get(payload, 'nonce') : undefined;
    return forms.read(type, typeof nonce === 'string' ? { ...payload, nonce: decodeBase64(nonce) } : payload);
  },
  write(message) {
    if (message.type === 'DATA') return dataFields(message.payload);
    const fields = forms.write(message);
    const { nonce } = fields;
    return nonce instanceof Uint8Array ? { ...fields, nonce: encodeBase64(nonce) } : fields;
  },
});

/**
 * Checks the bounds of an envelope. Like `assertJsonBounds`, it leaves the grammar to `JSON.parse`.
 *
 * @param maxControlSize UTF-16 units of a message that is not DATA.
 * @param maxDepth lists and maps that may be open at a time.
 * @throws {ProtocolError} `message_too_large`, `json_too_deep`.
 */
function assertEnvelopeBounds(text: string, maxControlSize: number, maxDepth: number): void {
  // An entry takes at least two characters, so most messages need no closer look.
  if (text.length <= Math.min(2 * MAX_CONTROL_ENTRIES, maxControlSize)) return;
  let entries = 0;
  let outside = 0;
  let depth = 0;
  let isValue = false;
  let key = '';
  let string = '';
  let type: string | undefined;
  for (let at = 0; at < text.length; at++) {
    if (++outside > MAX_OUTSIDE_STRINGS) {
      throw tooLarge(`more than ${MAX_OUTSIDE_STRINGS} characters outside strings`);
    }
    const unit = text.charCodeAt(at);
    if (unit === QUOTE) {
      const end = endOfString(text, at + 1);
      if (end === -1) return;
      if (depth === 1) {
        string = end - at <= MAX_TYPE_LENGTH ? text.slice(at + 1, end) : '';
        if (isValue && key === 'type') type = string;
      }
      at = end;
    } else if (unit === COLON) {
      if (depth === 1) {
        key = string;
        isValue = true;
      }
    } else if (unit === COMMA || unit === OPEN_ARRAY || unit === OPEN_OBJECT) {
      if (unit !== COMMA && ++depth > maxDepth) {
        throw new ProtocolError('json_too_deep', `JSON is nested more than ${maxDepth} levels deep`);
      }
      isValue = false;
      if (++entries > MAX_CONTROL_ENTRIES) throw tooLarge(`more than ${MAX_CONTROL_ENTRIES} entries`);
    } else if (unit === CLOSE_ARRAY || unit === CLOSE_OBJECT) depth--;
  }
  if (type !== 'DATA') assertControlSize(text.length, maxControlSize);
}

function tooLarge(fault: string): ProtocolError {
  return new ProtocolError('message_too_large', `the control message has ${fault}`);
}
