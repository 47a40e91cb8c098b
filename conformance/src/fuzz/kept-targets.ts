import { accepted, outcomeOf, same } from '../expect.js';
import { decodeMetadata, encodeKept, KEPT, readKept } from '../subject.js';
import { FUZZ_LIMITS, type Target, tokens } from './target.js';

/** The entry of metadata in which a server names a kept reply, as a client reads it. */

const GOOD = { id: 'reply_x', after: 7, held: Uint8Array.of(0xf0, 0x9f) };
/** `{ '@reply': … }` in MessagePack, as far as its value. */
const NAMED = Buffer.from(`81a6${Buffer.from(KEPT).toString('hex')}`, 'hex');

const kept: Target = {
  name: 'kept-reply',
  tokens: [
    ...tokens(KEPT, 'id', 'after', 'held'),
    new Uint8Array(NAMED),
    ...[
      [0x93, 1, 2, 3],
      [0x94, 1, 2, 3, 4],
      [0xcd, 1, 0],
      [0xff],
      [0xcb, 0x7f, 0xf8, 0, 0, 0, 0, 0, 0],
      [0xc0],
    ].map((bytes) => Uint8Array.from(bytes)),
  ],
  seeds: [
    encodeKept(GOOD),
    encodeKept({ id: '', after: 0, held: undefined }),
    new Uint8Array([...NAMED, 0xc0]),
    new Uint8Array([...NAMED, 0x80]),
  ],
  run(input) {
    const metadata = outcomeOf(() => decodeMetadata(input, FUZZ_LIMITS.maxJsonDepth));
    if (!metadata.accepted) return true;
    const entry = accepted(() => readKept(metadata.value), 'the entry, if it has the form of one');
    if (entry === undefined) return true;
    same((entry.held?.length ?? 0) <= 3, true, 'at most three bytes of a character');
    same(Number.isSafeInteger(entry.after) && entry.after >= 0, true, 'a number of parts');
    const again = accepted(() => readKept(decodeMetadata(encodeKept(entry), 8)), 'the entry read back');
    same(`${again?.id} ${again?.after}`, `${entry.id} ${entry.after}`, 'the entry written and read');
    return false;
  },
  recheck: () => same(readKept(decodeMetadata(encodeKept(GOOD), 8))?.after, 7, 'a good entry'),
};

export const KEPT_TARGETS: readonly Target[] = [kept];
