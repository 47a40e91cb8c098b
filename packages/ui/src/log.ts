import type { Turn, TurnState } from './conversation.js';
import { byId, create } from './dom.js';
import { bytes, difference } from './format.js';
import { bothWays, type TurnTraffic } from './traffic.js';

/** The view of the conversation. */
export interface Log {
  add(turn: Turn): void;
  /** Shows new parts of the answer, and its traffic. */
  update(turn: Turn, traffic: TurnTraffic | undefined): void;
  /** Adds a line between turns that is not part of the conversation. */
  remark(text: string): void;
  /** Shows the introduction in place of the conversation. */
  clear(): void;
}

const NOTES: Readonly<Record<TurnState, string>> = {
  waiting: '',
  streaming: '',
  done: '',
  stopped: 'You stopped this answer.',
  interrupted: 'The session was lost before the answer was complete.',
  failed: 'The request failed.',
};

interface TurnView {
  readonly answer: HTMLElement;
  readonly text: HTMLElement;
  readonly note: HTMLElement;
  readonly cost: HTMLElement;
  /** Length of the answer that is shown, in UTF-16 units. */
  shown: number;
}

/** @param onAskAgain called when the user wants to repeat a failed turn. */
export function createLog(onAskAgain: (turn: Turn) => void): Log {
  const log = byId('log');
  const intro = byId('intro');
  const views = new Map<Turn, TurnView>();

  // Keeps the end of the conversation in view, even if a notice makes the log smaller, until the user
  // scrolls up: nothing else moves the log upwards.
  let follows = true;
  let lastTop = 0;
  const toEnd = () => {
    if (follows && views.size > 0) log.scrollTop = log.scrollHeight;
  };
  log.addEventListener('scroll', () => {
    const isAtEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 48;
    if (isAtEnd) follows = true;
    else if (log.scrollTop < lastTop) follows = false;
    lastTop = log.scrollTop;
  });
  new ResizeObserver(toEnd).observe(log);

  return {
    add(turn) {
      intro.hidden = true;
      const view: TurnView = {
        answer: create('div', { className: 'answer' }),
        text: create('p', { className: 'text' }),
        note: create('p', { className: 'note', hidden: true }),
        cost: create('p', { className: 'cost' }),
        shown: 0,
      };
      views.set(turn, view);
      view.answer.append(create('h3', { className: 'unseen' }, 'Answer'), view.text, view.note, view.cost);
      const question = create(
        'div',
        { className: 'question' },
        create('h3', { className: 'unseen' }, 'You'),
        create(
          'p',
          { className: turn.question === undefined ? 'muted' : 'text' },
          turn.question ?? 'Asked in another tab',
        ),
      );
      log.append(create('article', {}, question, view.answer));
      this.update(turn, undefined);
      follows = true;
      toEnd();
    },

    update(turn, traffic) {
      const view = views.get(turn);
      if (view === undefined) return;
      const { answer, text, note, cost } = view;
      const isRunning = turn.state === 'waiting' || turn.state === 'streaming';
      answer.dataset['state'] = turn.state;
      // Screen readers read the answer once it is complete, not word by word.
      answer.ariaBusy = String(isRunning);
      // An answer only grows, unless the turn was started again.
      if (turn.answer.length < view.shown) text.replaceChildren();
      else if (turn.answer.length > view.shown) text.append(turn.answer.slice(view.shown));
      view.shown = turn.answer.length;
      if (traffic !== undefined) cost.textContent = describeCost(traffic);

      const hasFailed = turn.state === 'interrupted' || turn.state === 'failed';
      const mayRepeat = hasFailed && turn.question !== undefined;
      note.hidden = NOTES[turn.state] === '';
      note.replaceChildren([NOTES[turn.state], turn.problem].filter(Boolean).join(' '));
      if (mayRepeat) {
        const again = create('button', { type: 'button', className: 'again' }, 'Ask again');
        again.addEventListener('click', () => onAskAgain(turn));
        note.append(' ', again);
      }
      toEnd();
    },

    remark(text) {
      log.append(create('p', { className: 'remark' }, text));
      toEnd();
    },

    clear() {
      views.clear();
      log.replaceChildren(intro);
      intro.hidden = false;
      log.scrollTop = 0;
    },
  };
}

function describeCost(traffic: TurnTraffic): string {
  const { parts, algorithm, isFollowed, isFinal } = traffic;
  if (!isFinal) return '';
  const both = bothWays(traffic);
  const count = `${parts} ${parts === 1 ? 'part' : 'parts'}`;
  const change = difference(both);
  const how = isFollowed
    ? `Continued in ${count}.`
    : `Sent as ${algorithm || 'nothing'}, answered in ${count}.`;
  return `${how} ${bytes(both.socket)} on the socket, ${bytes(both.http)} as plain HTTP${change && `: ${change}`}.`;
}
