import type { ExplainedField, Explanation } from '../explanation.js';
import type { RecordedField } from './event.js';

/** Explanations without bytes, for JSON. */

export function recordedFields(fields: readonly ExplainedField[]): RecordedField[] {
  return fields.map(({ bytes, children, ...field }) => ({
    ...field,
    ...(bytes !== undefined && { standsForBytes: bytes.length }),
    ...(children.length > 0 && { children: recordedFields(children) }),
  }));
}

const DIGITS: readonly string[] = Array.from({ length: 256 }, (_, byte) =>
  byte.toString(16).padStart(2, '0'),
);
/** Stands for a byte of a credential. */
const MASKED = 'xx';

/**
 * The first bytes of a frame in hexadecimal, with credentials masked.
 *
 * @param max bytes to show.
 * @returns `undefined` if the fields are not complete, as credentials may be among the rest.
 */
export function maskedHex({ bytes, fields, isCut }: Explanation, max: number): string | undefined {
  if (isCut) return undefined;
  const count = Math.min(bytes.length, max);
  const masked = new Uint8Array(count);
  for (const [start, end] of secretsIn(fields)) masked.fill(1, start, Math.min(end, count));
  let digits = '';
  for (let at = 0; at < count; at++) digits += masked[at] === 1 ? MASKED : DIGITS[bytes[at] as number];
  return digits;
}

/** Ranges of the frame. A credential within a coded field masks all of that: its offsets count in other bytes. */
function* secretsIn(fields: readonly ExplainedField[]): Generator<readonly [start: number, end: number]> {
  for (const field of fields) {
    if (field.isSecret || (field.bytes !== undefined && hasSecret(field.children))) {
      yield [field.offset, field.offset + field.length];
    } else if (field.bytes === undefined) yield* secretsIn(field.children);
  }
}

function hasSecret(fields: readonly ExplainedField[]): boolean {
  return fields.some(({ isSecret, children }) => isSecret || hasSecret(children));
}
