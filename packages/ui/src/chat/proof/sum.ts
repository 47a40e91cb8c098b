import { sha256 } from '@noble/hashes/sha2.js';
import { bytesToHex, concatBytes, hexToBytes } from '@noble/hashes/utils.js';
import { type ClientSession, ProtocolError } from '@parlance/client';
import { readWritten, type Written } from './reading.js';

/** The sum of what this page is handed, to compare with what the handler of `parlance serve` has yielded. Loaded with the first question. */

const utf8 = new TextDecoder();
const encoder = new TextEncoder();

/**
 * The sum after one more chunk. It begins as nothing, so it can be continued after the page was loaded again.
 *
 * @param before hexadecimal digits.
 */
export function nextSum(before: string, chunk: Uint8Array): string {
  return bytesToHex(sha256(concatBytes(hexToBytes(before), chunk)));
}

/** Data that a handler yields as the lines of an event. */
const AS_LINES = /^(?:data|event|id):|\n:$|^$/;

/** The chunk of a reply that `session.fetch` has handed over as this piece of a stream of events; `undefined` for a sign of life. */
export function chunkOf(piece: Uint8Array): Uint8Array | undefined {
  const text = utf8.decode(piece);
  if (text === ':\n\n') return undefined;
  if (!text.endsWith('\n\n')) return concatBytes(piece, AS_IS);
  const lines = text.slice(0, -2);
  const data = lines.replace(/^data: /gm, '');
  const isData = lines.split('\n').every((line) => line.startsWith('data: '));
  return encoder.encode(isData && !AS_LINES.test(data) ? data : lines);
}

/** Ends a chunk that is no event. */
const AS_IS = encoder.encode('\n:');

/** The server's sum of the pieces that it has written; `undefined` if it sends none, or does not keep the reply any more. */
export async function askWritten(
  session: ClientSession,
  name: string,
  after: number,
): Promise<Written | undefined> {
  try {
    const reply = session.follow(name, { after });
    for await (const _rest of reply);
    return readWritten(reply.metadata['sum']);
  } catch (error) {
    if (error instanceof ProtocolError) return undefined;
    throw error;
  }
}
