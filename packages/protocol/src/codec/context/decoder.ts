import { platform } from '#platform';
import { ProtocolError } from '../../base/errors.js';
import { largestExpansion } from '../text/expansion.js';
import { decodeContextBody, readContextHead } from './body.js';
import type { ContextParameters } from './parameters.js';
import { ContextState, NO_BASE } from './state.js';

const NOTHING = new Uint8Array(0);

/**
 * The receiving end of context coding, for one direction of a session. Every frame of the direction is
 * shown to it in order, also those of streams that nobody reads any more: what it holds has to stay
 * what the sender holds.
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
   * @throws {ProtocolError} `bad_frame` where it names a base that is not there, `truncated`, `bad_varint`.
   */
  begin(streamId: number, first: Uint8Array): void {
    const { base: position } = readContextHead(first);
    const base = this.state.baseAt(position, streamId);
    if (position !== NO_BASE && base === undefined) {
      throw new ProtocolError('bad_frame', `a body names base ${position}, and there is none`);
    }
    this.state.begin(streamId, base);
  }

  /**
   * A body is whole.
   *
   * @param isPart it is a part of a reply.
   * @returns the message, which nobody may change.
   * @throws {ProtocolError} `bad_frame`, `message_too_large`, `decompressed_too_large`, `bad_compression`,
   * `bad_checksum`, `truncated`, `bad_varint`.
   */
  complete(streamId: number, bytes: Uint8Array, isPart: boolean): Uint8Array {
    const { prefix, suffix, middle, compressed, replaces, checksum } = decodeContextBody(bytes, isPart);
    const base = this.state.baseOf(streamId)?.content ?? NOTHING;
    const kept = prefix + suffix;
    if (kept > base.length) {
      throw new ProtocolError('bad_frame', `a body takes ${kept} bytes of a base of ${base.length}`);
    }
    const room = this.#maxMessageSize - kept;
    if (room < (compressed ? 0 : middle.length)) {
      throw new ProtocolError(
        'message_too_large',
        `a message of at least ${kept} bytes, at most ${this.#maxMessageSize} are taken`,
      );
    }
    // What repeats the base costs nothing that the session does not hold already.
    const most = Math.min(room, largestExpansion(middle.length) + base.length);
    const added = compressed ? platform.zstdDecompress(middle, most, base) : middle;
    const content = new Uint8Array(kept + added.length);
    content.set(base.subarray(0, prefix));
    content.set(added, prefix);
    content.set(base.subarray(base.length - suffix), prefix + added.length);
    if (checksum !== undefined && platform.crc32(content) !== checksum) {
      throw new ProtocolError('bad_checksum', 'a message does not have the CRC that it states');
    }
    this.state.complete(streamId, { content, isPart, replaces });
    return content;
  }

  /** The body under way was cancelled. */
  abandon(streamId: number): void {
    this.state.abandon(streamId);
  }

  /**
   * A stream ends.
   *
   * @param stated what its end carries: nothing, or the CRC-32 of all parts in context.
   * @throws {ProtocolError} `bad_checksum`, `truncated`, `trailing_bytes`.
   */
  end(streamId: number, stated: Uint8Array): void {
    const checksum = this.state.end(streamId);
    if (checksum === undefined) {
      if (stated.length === 0) return;
      throw new ProtocolError('trailing_bytes', 'the end of a stream without parts in context is empty');
    }
    if (stated.length !== 4) {
      throw new ProtocolError(
        stated.length < 4 ? 'truncated' : 'trailing_bytes',
        `the end of a stream states a CRC of 4 bytes, not ${stated.length}`,
      );
    }
    const view = new DataView(stated.buffer, stated.byteOffset, 4);
    if (view.getUint32(0, true) === checksum) return;
    throw new ProtocolError('bad_checksum', 'the parts of a stream do not have the CRC that its end states');
  }

  /** A stream fails. */
  fail(streamId: number): void {
    this.state.end(streamId);
  }
}
