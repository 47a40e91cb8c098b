import { decodeContextBody, describeContextBody } from '../context/body.js';
import type { FieldReader } from './field-reader.js';
import { judged } from './report.js';
import { bytes as bytesPhrase, hex, number, sentence } from './wording.js';

/**
 * Bodies that are coded against an earlier message of the session: what they take from it and what they
 * add. Their content is known to the two ends alone.
 */
export function readContextBody(reader: FieldReader, isPart: boolean): string {
  const { rest, offset } = reader;
  const body = judged(
    () => walk(reader, rest, isPart),
    () => describeContextBody(rest, isPart),
    offset,
  );
  const { base, prefix, suffix, length } = body;
  reader.report.content = length;
  return sentence(
    base === 'none' ? 'against nothing' : `against the ${base}`,
    prefix + suffix > 0 && `${bytesPhrase(prefix + suffix)} of it are kept`,
    length !== undefined && `${bytesPhrase(rest.length)} for ${number(length)}`,
  );
}

function walk(reader: FieldReader, rest: Uint8Array, isPart: boolean): void {
  const start = reader.offset;
  const head = reader.varint('base');
  // Whatever is wrong with the head is told before anything is read by it.
  const body = reader.check(() => decodeContextBody(rest, isPart), start);
  reader.say(
    body.base === 0 ? 'none' : head >> 2,
    body.compressed ? 'what follows is zstd' : 'what follows is as it is',
  );
  if (body.base !== 0) {
    reader.say(reader.varint('prefix'), 'bytes taken from the beginning of the base');
    reader.say(reader.varint('suffix'), 'bytes taken from its end');
  }
  if (body.checksum !== undefined) reader.say(hex(reader.u32('CRC-32'), 8), 'of the whole message');
  reader.take('middle', reader.remaining);
  reader.say(undefined, 'what stands between');
}
