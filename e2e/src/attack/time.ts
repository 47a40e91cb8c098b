import type { Attack } from './attack.js';
import {
  admittedBraces,
  admittedLevels,
  type Bomb,
  blankedJson,
  blanks,
  braces,
  brotli,
  escapes,
  MIB,
  m2m,
  words,
} from './bombs.js';
import type { OpenOptions } from './scene.js';
import type { Peer } from './wire.js';

/** Traffic within every rate that takes long to process. */

/** Requests at a fixed rate, in turn over sessions of one principal, until the scene is over. */
const asking = (
  bomb: () => Bomb,
  perSecond: number,
  options: OpenOptions,
  sessions = 1,
): Pick<Attack, 'prepare' | 'run' | 'sessions'> => ({
  sessions,
  prepare: bomb,
  async run(scene) {
    const { body, parts } = bomb();
    const peers = sessions === 1 ? [await scene.open(options)] : await scene.openMany(sessions, options);
    await scene.flood((i) => {
      scene.floors++;
      const peer = peers[i % peers.length] as Peer;
      peer.request(body, parts);
      return peers.find((each) => each.isOpen);
    }, perSecond);
    return undefined;
  },
});

const BY_TOKENS = { algorithms: ['M2M', 'TOKEN_NATIVE'] } as const;
const mebibyte = () => brotli(Buffer.alloc(MIB, 'The quick brown fox jumps over the lazy dog. '));
const noise = () => ({ body: Buffer.from('Why is the sky blue? '.repeat(760)), parts: {} });

export const TIME: readonly Attack[] = [
  { category: 'time', name: 'echoes that a tokenizer carries', ...asking(m2m, 2, { offer: BY_TOKENS }) },
  {
    category: 'time',
    name: 'words that a tokenizer carries',
    ...asking(words, 2, { offer: { algorithms: ['BROTLI', 'TOKEN_NATIVE'] } }),
  },
  { category: 'time', name: 'echoes of 16 MiB of blanks', ...asking(blanks, 10, {}) },
  { category: 'time', name: 'echoes of 1 MiB of text', ...asking(mebibyte, 16, {}) },
  { category: 'time', name: 'what parlance serve answers', ...asking(words, 2, { as: 'answer' }) },
  { category: 'time', name: 'JSON of 5 million braces', ...asking(braces, 2, { as: 'json' }) },
  { category: 'time', name: 'JSON that is just admitted', ...asking(admittedBraces, 20, { as: 'json' }) },
  { category: 'time', name: 'JSON of admitted levels', ...asking(admittedLevels, 200, { as: 'json' }) },
  { category: 'time', name: 'JSON of 16 MiB of blanks', ...asking(blankedJson, 4, { as: 'json' }) },
  { category: 'time', name: 'JSON of escapes', ...asking(escapes, 4, { as: 'json' }) },
  {
    category: 'time',
    name: '100 sessions, echoes of 16 MiB',
    ...asking(blanks, 100, {}, 100),
  },
  {
    category: 'time',
    name: '100 sessions, echoes of 16 KB of text',
    ...asking(noise, 400, { offer: { algorithms: ['TOKEN_NATIVE', 'NONE'] } }, 100),
  },
];
