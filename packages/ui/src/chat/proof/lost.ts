import { count, duration, number } from '../../shared/format.js';
import type { Turn, TurnState } from '../conversation.js';
import { type Break, verdictOf } from './reading.js';
import { countsOf } from './words.js';

/** The words of the panel about the pieces of all answers of a chat, in all of their versions. Loaded with the card. */

/** A turn, or those that no longer fit into the store. */
export type ReadTurn = Pick<Turn, 'traffic' | 'reading'> & Partial<Turn>;

/** `undefined` if there is nothing to say yet. */
export function lostIn(
  turns: readonly ReadTurn[],
): { readonly title: string; readonly headline: string; readonly told: string } | undefined {
  const running = turns.find(
    ({ state, reading }) => state === 'waiting' || state === 'streaming' || reading.isAsked === true,
  );
  const verdicts = turns.map(({ reading }) => verdictOf(reading)).filter((verdict) => verdict !== undefined);
  const cut = turns.filter(isCutShort);
  const open = turns.filter(({ state, reply }) => state === 'interrupted' && reply !== undefined).length;
  const [stopped, elsewhere] = [numberOf(turns, 'stopped'), numberOf(turns, 'elsewhere')];
  const unchecked = verdicts.filter((verdict) => verdict === 'unknown').length;
  const others = cut.length + open + stopped + elsewhere + unchecked;
  if (running === undefined && verdicts.length + others === 0) return undefined;
  const bad = verdicts.filter((verdict) => verdict !== 'unknown' && verdict !== 'whole').length;
  const isChecked = verdicts.length > unchecked;
  const counts = turns
    .map(({ reading }) => reading)
    .filter((reading) => (verdictOf(reading) ?? 'unknown') !== 'unknown')
    .map(countsOf);
  const pieces = isChecked
    ? `${number(sum(counts.map(({ chunks }) => chunks)))} of ${count(sum(counts.map(({ of }) => of)), 'piece')}`
    : '';
  const states: readonly (readonly [answers: number, words: string])[] = [
    [cut.length, `cut short${againOf(cut, turns)}`],
    [open, 'not complete yet'],
    [stopped, 'stopped'],
    [elsewhere, 'received by another tab'],
    [unchecked, 'not checked'],
    [bad, 'not as written'],
  ];
  const facts = [
    breaksOf(turns.flatMap(({ reading }) => reading.breaks)),
    ...states
      .filter(([answers]) => answers > 0)
      .map(([answers, words]) => `${count(answers, 'answer')} ${words}`),
    ...(bad > 0 || !isChecked
      ? []
      : [`no piece${others > 0 ? ' of the others' : ''} missing, changed or twice`]),
  ];
  const told = `In this chat: ${facts.join('; ')}.`;
  if (running !== undefined) {
    const before = pieces && `Before it: ${pieces}. `;
    const { reply, reading } = running;
    return {
      title: 'This answer',
      headline: `${count(reading.end?.chunks ?? reply?.position ?? 0, 'piece')} so far`,
      told: `At its end, the server is asked how many it has written. ${before}${told}`,
    };
  }
  const title =
    bad > 0
      ? 'Not as it was written'
      : cut.length > 0
        ? `${count(cut.length, 'answer')} cut short`
        : open > 0
          ? 'Not complete yet'
          : !isChecked
            ? 'Not checked'
            : others === 0
              ? 'Nothing lost'
              : `Nothing lost in ${number(counts.length)} of ${count(counts.length + others, 'answer')}`;
  return { title, headline: pieces, told };
}

const numberOf = (turns: readonly ReadTurn[], wanted: TurnState) =>
  turns.filter(({ state }) => state === wanted).length;

/** Its end will not come, and that was not the wish of the user. */
function isCutShort({ state, reply, answer = '', refusal = '' }: ReadTurn): boolean {
  if (state === 'interrupted') return reply === undefined;
  return state === 'failed' && answer + refusal !== '';
}

function againOf(cut: readonly ReadTurn[], turns: readonly ReadTurn[]): string {
  const again = cut.filter(({ parent, question, asked = 0 }) =>
    turns.some((each) => each.parent === parent && each.question === question && Number(each.asked) > asked),
  ).length;
  if (again === 0) return '';
  return again === cut.length ? ', asked again' : `, ${number(again)} asked again`;
}

/** `connection lost once (3.1 s)` and the like: each kind by itself. */
function breaksOf(breaks: readonly Break[]): string {
  const kinds = new Map<string, Break[]>();
  for (const each of breaks) kinds.set(each.what, [...(kinds.get(each.what) ?? []), each]);
  if (kinds.size === 0) return 'no break in mid-answer';
  return [...kinds]
    .map(([what, all]) => {
      const took = duration(sum(all.map(({ from, to }) => to - from)));
      const rest = all.at(-1)?.isOpen === true ? ' so far' : '';
      return `${what} ${all.length === 1 ? 'once' : `${number(all.length)} times`} (${took}${rest})`;
    })
    .join('; ');
}

const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);
