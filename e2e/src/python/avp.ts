import { createInterface } from 'node:readline';
import { crc32 } from 'node:zlib';
import { decodeAvp, type EncodeAvpOptions, encodeAvp, loadCodecs } from '@parlance/protocol';

/** Reads lines of an AVP frame in hex and a compression, and prints the frame, encoded again, with what it has read. */

await loadCodecs(['AVP']);
for await (const line of createInterface({ input: process.stdin })) {
  const [hex = '', compression] = line.split(' ');
  const message = decodeAvp(Buffer.from(hex, 'hex'));
  const frame = encodeAvp(message, { compression: compression as EncodeAvpOptions['compression'] });
  const told = { crc: crc32(message.data), shape: message.shape, frame: Buffer.from(frame).toString('hex') };
  console.log(JSON.stringify(told));
}
