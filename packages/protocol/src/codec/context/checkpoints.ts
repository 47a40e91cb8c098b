import { platform } from '#platform';

/**
 * The CRC-32 of a message, and its intermediate values after every {@link STEP} bytes. A message that begins
 * like its base has the same values up to there, so only the CRC of the rest must be computed.
 */
export interface Checkpoints {
  readonly checksum: number;
  readonly steps: readonly number[];
}

const STEP = 8 * 1024;

/**
 * @param prefix number of bytes that `content` and its base begin with.
 * @param base the checkpoints of the base.
 */
export function checkpointsOf(
  content: Uint8Array,
  prefix: number,
  base: Checkpoints | undefined,
): Checkpoints {
  const known = base === undefined ? 0 : Math.min(Math.floor(prefix / STEP), base.steps.length);
  const steps = base?.steps.slice(0, known) ?? [];
  let checksum = steps.at(-1) ?? 0;
  let at = known * STEP;
  for (; at + STEP <= content.length; at += STEP) {
    checksum = platform.crc32(content.subarray(at, at + STEP), checksum);
    steps.push(checksum);
  }
  return { checksum: platform.crc32(content.subarray(at), checksum), steps };
}
