import { bad, countField, type Fields, get, isFields, isStated } from '../base/fields.js';
import type { SecurityStatus } from '../codec/body.js';
import { capabilityNames, REFERENCE_ALGORITHMS } from './capabilities.js';
import type { DataPayload } from './messages.js';

/** The payload of DATA, which only JSON envelopes have. */

/** @throws {ProtocolError} `bad_message`. */
export function parseData(payload: Fields): DataPayload {
  const name = get(payload, 'algorithm');
  const algorithm = typeof name === 'string' ? capabilityNames.algorithm(name) : undefined;
  if (algorithm === undefined) throw bad('algorithm', 'the name of a known algorithm');
  const content = get(payload, 'content');
  if (typeof content !== 'string' && !(content instanceof Uint8Array))
    throw bad('content', 'a string or bytes');
  return {
    algorithm,
    content,
    originalSize: isStated(payload, 'original_size') ? countField(payload, 'original_size', 0) : undefined,
    securityStatus: parseSecurityStatus(get(payload, 'security_status')),
  };
}

function parseSecurityStatus(value: unknown): SecurityStatus | undefined {
  if (value === undefined || value === null) return undefined;
  if (!isFields(value)) throw bad('security_status', 'an object');
  const threatType = get(value, 'threat_type');
  const confidence = get(value, 'confidence');
  return {
    scanned: get(value, 'scanned') === true,
    safe: get(value, 'safe') === true,
    threatType: typeof threatType === 'string' ? threatType.slice(0, 128) : undefined,
    confidence: typeof confidence === 'number' ? confidence : undefined,
  };
}

export function dataFields(data: DataPayload): Fields {
  const { algorithm, isNested, content, originalSize, securityStatus } = data;
  return {
    algorithm: isNested === true ? REFERENCE_ALGORITHMS[algorithm] : algorithm,
    content,
    original_size: originalSize,
    security_status: securityStatus && {
      scanned: securityStatus.scanned,
      safe: securityStatus.safe,
      threat_type: securityStatus.threatType,
      confidence: securityStatus.confidence,
    },
  };
}
