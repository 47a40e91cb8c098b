import { ProtocolError } from '../../base/errors.js';
import { bytesOfView, tensorByteLength } from '../../codec/avp/tensor.js';
import { MAX_PIECE_SIZE } from '../../link/body-writer.js';
import type { TensorInput } from './tensor.js';

/** Chunks below this many bytes are joined: each piece is a frame of its own. */
const SMALL_CHUNK = 64 * 1024;

/**
 * Bytes of a tensor that is to be sent.
 *
 * @throws {ProtocolError} `invalid_argument` where nobody says, `bad_tensor` for an impossible shape.
 */
export function tensorSize({ data, shape, dtype, byteLength }: TensorInput): number {
  if (ArrayBuffer.isView(data)) return data.byteLength;
  if (byteLength !== undefined) {
    if (Number.isSafeInteger(byteLength) && byteLength >= 0) return byteLength;
    throw new ProtocolError('invalid_argument', `byteLength is a number of bytes, not ${byteLength}`);
  }
  if (shape !== undefined && shape.length > 0) return tensorByteLength(shape, dtype);
  throw new ProtocolError(
    'invalid_argument',
    'data that is generated needs its length stated: by shape and dtype, or by byteLength',
  );
}

/**
 * Cuts data into pieces for one frame each, and joins small chunks to such. What it has taken of the
 * source was either given out or copied before it takes more, and a piece is given out only once: a
 * source may fill one buffer again and again, provided that the piece is done with when the next one is
 * asked for.
 *
 * @throws {ProtocolError} `invalid_argument` for what is no bytes; what the source throws.
 */
export async function* piecesOf(data: TensorInput['data']): AsyncGenerator<Uint8Array, void> {
  if (ArrayBuffer.isView(data)) {
    yield* cut(bytesOfView(data));
    return;
  }
  let staged: Uint8Array | undefined;
  let filled = 0;
  for await (const chunk of data) {
    if (!ArrayBuffer.isView(chunk)) {
      throw new ProtocolError('invalid_argument', 'data is a view, or yields nothing but views');
    }
    let bytes = bytesOfView(chunk);
    while (bytes.length > 0) {
      if (filled === 0 && bytes.length >= SMALL_CHUNK) {
        const piece = bytes.subarray(0, MAX_PIECE_SIZE);
        yield piece;
        bytes = bytes.subarray(piece.length);
        continue;
      }
      staged ??= new Uint8Array(MAX_PIECE_SIZE);
      const part = bytes.subarray(0, staged.length - filled);
      staged.set(part, filled);
      filled += part.length;
      bytes = bytes.subarray(part.length);
      if (filled < staged.length) continue;
      yield staged;
      filled = 0;
    }
  }
  if (staged !== undefined && filled > 0) yield staged.subarray(0, filled);
}

function* cut(bytes: Uint8Array): Generator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += MAX_PIECE_SIZE) yield bytes.subarray(at, at + MAX_PIECE_SIZE);
}
