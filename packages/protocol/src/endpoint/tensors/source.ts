import { ProtocolError } from '../../base/errors.js';
import { bytesOfView, tensorByteLength } from '../../codec/avp/tensor.js';
import { MAX_PIECE_SIZE } from '../../link/body-writer.js';
import type { TensorInput } from './tensor.js';

/** Chunks with fewer bytes are joined, because each piece becomes a frame. */
const SMALL_CHUNK = 64 * 1024;

/**
 * The size of a tensor to send, in bytes.
 *
 * @throws {ProtocolError} `invalid_argument` if it is not stated, `bad_tensor` for an impossible shape.
 */
export function tensorSize({ data, shape, dtype, byteLength }: TensorInput): number {
  if (ArrayBuffer.isView(data)) return data.byteLength;
  if (byteLength !== undefined) {
    if (Number.isSafeInteger(byteLength) && byteLength >= 0) return byteLength;
    throw new ProtocolError('invalid_argument', `byteLength: expected a number of bytes, not ${byteLength}`);
  }
  if (shape !== undefined && shape.length > 0) return tensorByteLength(shape, dtype);
  throw new ProtocolError(
    'invalid_argument',
    'the length of generated data is not known: state shape and dtype, or byteLength',
  );
}

/**
 * Cuts data into pieces, one for each frame, and joins small chunks. The caller must be done with a piece
 * when it asks for the next: the memory of a piece is reused, by the source or here. Each chunk of the source
 * is yielded or copied before the next one is requested.
 *
 * @throws {ProtocolError} `invalid_argument` if the source yields anything but views; errors of the source.
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
      throw new ProtocolError('invalid_argument', 'data: expected a view, or an iterable of views');
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
