import { decodeContextBody, describeContextBody } from '../codec/context/body.js';
import { NEWEST, NO_BASE, SLOT } from '../codec/context/state.js';
import { showContent } from './content.js';
import type { FieldReader } from './field-reader.js';
import { judged } from './report.js';
import { bytes as bytesPhrase, hex, number, sentence } from './wording.js';

/**
 * Bodies that are coded against an earlier message of the session: what they take from it and what they
 * add. What comes out is known to who has seen the session.
 */
export function readContextBody(reader: FieldReader, isPart: boolean): string {
  const { rest, offset } = reader;
  const body = judged(
    () => walk(reader, rest, isPart),
    () => describeContextBody(rest, isPart),
    offset,
  );
  const { base } = decodeContextBody(rest, isPart);
  const { prefix, suffix, length } = body;
  const { report } = reader;
  report.content = length;
  if (report.options.decoded !== undefined) showContent(report, report.options.decoded, isPart);
  return sentence(
    base === NO_BASE ? 'repeats nothing' : `repeats ${bytesPhrase(prefix + suffix)} of ${nameOf(base)}`,
    report.content !== undefined && `${bytesPhrase(rest.length)} for ${number(report.content)}`,
  );
}

function nameOf(base: number): string {
  if (base === SLOT) return 'the part before';
  return base === NEWEST ? 'the message before' : `the message ${base - NEWEST + 1} before`;
}

function walk(reader: FieldReader, rest: Uint8Array, isPart: boolean): void {
  const start = reader.offset;
  const head = reader.varint('base');
  // Whatever is wrong with the head is told before anything is read by it.
  const body = reader.check(() => decodeContextBody(rest, isPart), start);
  const isCompressed = body.compressed ? 'the middle is zstd' : 'the middle is as it is';
  reader.say(head, sentence(body.base === NO_BASE ? 'none' : nameOf(body.base), isCompressed));
  if (body.base !== NO_BASE) {
    reader.say(reader.varint('prefix'), 'bytes taken from the beginning of the base');
    reader.say(reader.varint('suffix'), 'bytes taken from its end');
  }
  if (body.checksum !== undefined) reader.say(hex(reader.u32('CRC-32'), 8), 'of the whole message');
  reader.take('middle', reader.remaining);
  reader.say(undefined, 'what stands between');
}
