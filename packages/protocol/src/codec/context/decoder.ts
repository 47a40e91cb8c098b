import { platform } from '#platform';
import { ProtocolError } from '../../base/errors.js';
import { largestExpansion } from '../text/expansion.js';
import { decodeContextBody, readContextHead } from './body.js';
import { checkpointsOf } from './checkpoints.js';
import type { ContextParameters } from './parameters.js';
import { ContextState, NO_BASE } from './state.js';

const NOTHING = new Uint8Array(0);

/**
 * The receiving end of context coding, for one direction of a session. It must see every frame of that
 * direction in order, even those of streams that the application no longer reads, so that its state stays the
 * same as the sender's.
 */
export class ContextDecoder {
  readonly state: ContextState;
  readonly #maxMessageSize: number;

  constructor(parameters: ContextParameters, maxMessageSize: number) {
    this.state = new ContextState(parameters);
    this.#maxMessageSize = maxMessageSize;
  }

  /**
   * A body begins.
   *
   * @param first bytes of the body in its first frame.
   * @throws {ProtocolError} `bad_frame` if it names a missing base, `truncated`, `bad_varint`.
   */
  begin(streamId: number, first: Uint8Array): void {
    const { base: position } = readContextHead(first);
    const base = this.state.baseAt(position, streamId);
    if (position !== NO_BASE && base === undefined) {
      throw new ProtocolError('bad_frame', `a body names base ${position}, which does not exist`);
    }
    this.state.begin(streamId, base);
  }

  /**
   * A body is complete.
   *
   * @param isPart whether it is a part of a reply.
   * @returns the message, which callers must not change.
   * @throws {ProtocolError} `bad_frame`, `message_too_large`, `decompressed_too_large`, `bad_compression`,
   * `bad_checksum`, `truncated`, `bad_varint`.
   */
  complete(streamId: number, bytes: Uint8Array, isPart: boolean): Uint8Array {
    const { prefix, suffix, middle, compressed, replaces, checksum } = decodeContextBody(bytes, isPart);
    const named = this.state.baseOf(streamId);
    const base = named?.content ?? NOTHING;
    const kept = prefix + suffix;
    if (kept > base.length) {
      throw new ProtocolError('bad_frame', `a body uses ${kept} bytes of a base of ${base.length}`);
    }
    const room = this.#maxMessageSize - kept;
    if (room < (compressed ? 0 : middle.length)) {
      throw new ProtocolError(
        'message_too_large',
        `the message has at least ${kept} bytes, the limit is ${this.#maxMessageSize}`,
      );
    }
    // Bytes that repeat the base do not count: the session holds them already.
    const most = Math.min(room, largestExpansion(middle.length) + base.length);
    const added = compressed ? platform.zstdDecompress(middle, most, base) : middle;
    const content = new Uint8Array(kept + added.length);
    content.set(base.subarray(0, prefix));
    content.set(added, prefix);
    content.set(base.subarray(base.length - suffix), prefix + added.length);
    const checkpoints = isPart ? undefined : checkpointsOf(content, prefix, named?.checkpoints);
    if (checkpoints?.checksum !== checksum) {
      throw new ProtocolError('bad_checksum', 'the CRC of a message does not match its content');
    }
    this.state.complete(streamId, { content, isPart, replaces, prefix, checkpoints });
    return content;
  }

  /** The current body was cancelled. */
  abandon(streamId: number): void {
    this.state.abandon(streamId);
  }

  /**
   * A stream ends.
   *
   * @param trailer the body of its END: empty, or the CRC-32 of all parts in context.
   * @throws {ProtocolError} `bad_checksum`, `truncated`, `trailing_bytes`.
   */
  end(streamId: number, trailer: Uint8Array): void {
    const checksum = this.state.end(streamId);
    if (checksum === undefined) {
      if (trailer.length === 0) return;
      throw new ProtocolError('trailing_bytes', 'the END of a stream without parts in context must be empty');
    }
    if (trailer.length !== 4) {
      throw new ProtocolError(
        trailer.length < 4 ? 'truncated' : 'trailing_bytes',
        `the END of a stream must carry a CRC of 4 bytes, not ${trailer.length}`,
      );
    }
    const view = new DataView(trailer.buffer, trailer.byteOffset, 4);
    if (view.getUint32(0, true) === checksum) return;
    throw new ProtocolError('bad_checksum', 'the CRC in the END of a stream does not match its parts');
  }

  /** A stream failed. */
  fail(streamId: number): void {
    this.state.end(streamId);
  }
}
