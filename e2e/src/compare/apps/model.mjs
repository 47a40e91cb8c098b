import { appendFileSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';

/** What all apps ask: 200 different words, one each 10 ms. It records each question and each end in a file, which outlives the server. */

const WORDS =
  `able above across add afraid after again age air alone along amount ancient angle animal answer apple area arm arrive
art ask autumn away baby back ball bank base basket beach bear beauty become bed begin behind bell below beside best better big bird
black blood blue board boat body bone book born both bottom box branch brave bread break bridge bright bring broad brother brown build
burn bus buy call camp captain capital car care carry case catch cause cell center century certain chair chance change character chart
cheap check child choose circle city claim class clean clear climb clock close cloth cloud coast cold collect color column come common
company compare complete cook cool copper copy corn corner cost cotton count country course cover create crop cross crowd cry current
cut dance danger dark daughter day dead deal dear death decide deep degree depend desert design develop dictionary differ difficult
direct discuss distant divide doctor dog dollar door double down draw dream dress drink drive drop dry during dust duty each ear early
earth ease east eat edge effect egg eight either electric element empty end enemy energy engine enough enter equal evening event ever
every exact example`.split(/\s+/);

const note = (what) => appendFileSync(process.env.LEDGER, `${what}\n`);

/** The words of the answer, in an order that depends on the question: answers must not be short because one resembles the next. */
export function wordsFor(question) {
  let seed = [...question].reduce((sum, letter) => (sum * 31 + letter.charCodeAt(0)) % 2147483647, 7);
  const words = WORDS.slice(0, 200);
  for (let last = words.length - 1; last > 0; last--) {
    seed = (seed * 48271) % 2147483647;
    const other = seed % (last + 1);
    [words[last], words[other]] = [words[other], words[last]];
  }
  return words;
}

/**
 * @param after how many words are left out at the beginning, as they were written before.
 * @throws the reason of `signal`, once it has fired.
 */
export async function* answer(question, { signal, after = 0 } = {}) {
  note('asked');
  let end = 'stopped';
  try {
    for (const word of wordsFor(question).slice(after)) {
      await pause(10, undefined, { signal });
      yield word;
    }
    end = 'ended';
  } finally {
    note(end);
  }
}
