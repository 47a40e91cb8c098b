import { copy } from '../shared/clipboard.js';
import { byId, create } from '../shared/dom.js';
import { bytes, duration } from '../shared/format.js';
import { icon } from '../shared/icons.js';
import { AnswerText } from './answer-text.js';
import { describeFile } from './composing/attachments.js';
import { type Turn, thoughtsOf, wordsOf } from './conversation.js';
import { noteOf } from './endings.js';
import { proofOf } from './proof/words.js';
import { bothWays } from './traffic.js';

/** The view of the conversation. */
export interface Log {
  add(turn: Turn): void;
  /** Shows new parts of the answer. */
  update(turn: Turn): void;
  /** Marks the place in the answer that the model has reached; the text of the mark may change. */
  mark(turn: Turn): HTMLElement;
  /** Says this behind the words of an answer, and nothing else. */
  tell(turn: Turn | undefined, text: string): void;
  /** Adds a line between turns that is not part of the conversation. */
  remark(text: string): void;
  remove(turn: Turn): void;
  /** Shows these turns in place of those that are shown. */
  show(turns: readonly Turn[]): void;
  /** Shows the introduction in place of the conversation. */
  clear(): void;
}

export interface LogEvents {
  /** All versions of the question of this turn. */
  versionsOf(turn: Turn): readonly Turn[];
  /** The user wants to see this version. */
  onVersion(version: Turn): void;
  onAskAgain(turn: Turn): void;
  onEdit(turn: Turn): void;
  onShowWire(turn: Turn): void;
  /** The user wants to know what happened to this answer. Resolves when the server has been asked, if that was needed. */
  onProof(turn: Turn): Promise<void>;
}

interface TurnView {
  readonly article: HTMLElement;
  readonly answer: HTMLElement;
  readonly thinking: HTMLDetailsElement;
  readonly summary: HTMLElement;
  readonly thought: HTMLElement;
  readonly text: AnswerText;
  readonly note: HTMLElement;
  readonly cost: HTMLElement;
  /** The button that opens the card. */
  readonly proof: HTMLButtonElement;
  readonly card: HTMLElement;
  readonly again: HTMLButtonElement;
  readonly copy: HTMLButtonElement;
  readonly versions: HTMLElement;
  /** State and problem of the note that is shown. */
  noted: string;
  ticking: ReturnType<typeof setInterval> | undefined;
}

/** Distance from the end within which the log counts as being at its end, in CSS pixels. */
const AT_END = 8;
/** How long a key or a wheel moves the log, in milliseconds. */
const MOVING_MS = 400;

export function createLog(events: LogEvents): Log {
  const { versionsOf, onAskAgain, onEdit, onShowWire, onVersion, onProof } = events;
  const log = byId('log');
  const intro = byId('intro');
  const views = new Map<Turn, TurnView>();
  const told = create('p', { className: 'muted', ariaLive: 'off' });
  const toEnd = followEnd(
    log,
    () => views.size > 0,
    () => [...views.keys()].some(isRunning),
  );

  function viewOf(turn: Turn): TurnView {
    const text = new AnswerText();
    text.className = 'text';
    const button = (className: string, label: string, run: () => void) => {
      const made = create('button', { type: 'button', className }, label);
      made.addEventListener('click', run);
      return made;
    };
    const view: TurnView = {
      article: create('article'),
      answer: create('div', { className: 'answer' }),
      thinking: create('details', { className: 'thinking', hidden: true }),
      summary: create('summary'),
      thought: create('p', { dir: 'auto' }),
      text,
      note: create('div', { className: 'note', hidden: true }),
      cost: create('p', { className: 'cost' }),
      proof: button('proof', '', () => void toggleCard(turn, view)),
      card: create('section', { className: 'card', ariaLabel: 'What happened to this answer', hidden: true }),
      again: button('again', 'Ask again', () => onAskAgain(turn)),
      copy: button('copy', '', () => void copy(text.source, view.copy)),
      versions: create('span', { className: 'versions', role: 'group', ariaLabel: 'Versions', hidden: true }),
      noted: '',
      ticking: undefined,
    };
    view.copy.append(icon('copy'));
    Object.assign(view.copy, { ariaLabel: 'Copy answer', title: 'Copy answer' });
    const isOwn = turn.question !== undefined;
    const foot = create(
      'div',
      { className: 'foot' },
      create(
        'div',
        { className: 'actions' },
        view.proof,
        view.copy,
        ...(isOwn ? [view.again] : []),
        button('wire', 'Show on the wire', () => onShowWire(turn)),
        view.versions,
      ),
      view.cost,
    );
    view.thinking.addEventListener('toggle', () => showThinking(turn, view));
    view.thinking.append(view.summary, view.thought);
    view.answer.append(
      create('h3', { className: 'unseen' }, 'Answer'),
      view.thinking,
      text,
      view.note,
      foot,
      view.card,
    );
    const question = create('div', { className: 'question' });
    question.append(
      create('h3', { className: 'unseen' }, 'You'),
      create(
        'p',
        { className: isOwn ? 'text' : 'muted', dir: 'auto' },
        turn.question ?? 'Asked in another tab',
      ),
    );
    const files = turn.files.map((file) => create('li', {}, ...describeFile(file)));
    if (files.length > 0) question.append(create('ul', { className: 'files' }, ...files));
    const edit = button('edit', 'Edit', () => onEdit(turn));
    view.article.append(
      create('div', { className: 'asked' }, ...(isOwn ? [edit] : []), question),
      view.answer,
    );
    return view;
  }

  function showNote(turn: Turn, view: TurnView): void {
    const { note } = view;
    const { problem } = turn;
    const title = problem?.title ?? noteOf(turn);
    const noted = JSON.stringify([turn.state, problem, title]);
    if (noted === view.noted) return;
    view.noted = noted;
    clearInterval(view.ticking);
    note.hidden = title === '';
    note.replaceChildren(create('p', {}, title));
    if (problem === undefined) return;
    const { detail, retryAt } = problem;
    const said = create('p', { dir: 'auto' }, detail);
    if (detail !== '') note.append(create('details', {}, create('summary', {}, 'Details'), said));
    if (retryAt === undefined) return;
    const countdown = create('span');
    const now = create('button', { type: 'button' }, 'Try now');
    now.addEventListener('click', () => onAskAgain(turn));
    const tick = () => {
      const seconds = Math.ceil((retryAt - Date.now()) / 1000);
      countdown.textContent = `Asking again in ${Math.max(0, seconds)} s.`;
      if (seconds > 0) return;
      clearInterval(view.ticking);
      if (turn.problem === problem) onAskAgain(turn);
    };
    view.ticking = setInterval(tick, 500);
    tick();
    note.append(create('p', { className: 'retry' }, countdown, now));
  }

  function showProof(turn: Turn, { proof, card }: TurnView): void {
    const { verdict, text } = proofOf(turn);
    proof.hidden = verdict === undefined;
    if (proof.textContent === text) return;
    proof.textContent = text;
    proof.dataset['verdict'] = verdict;
    proof.ariaExpanded = String(!card.hidden);
    if (!card.hidden) void fill(turn, card);
  }

  async function fill(turn: Turn, card: HTMLElement): Promise<void> {
    try {
      (await import('./proof/card.js')).fillCard(card, turn);
    } catch {
      card.textContent = 'This part of the page could not be loaded. Check your connection, then try again.';
    }
  }

  async function toggleCard(turn: Turn, view: TurnView): Promise<void> {
    const { card, proof } = view;
    card.hidden = !card.hidden;
    proof.ariaExpanded = String(!card.hidden);
    if (card.hidden) return;
    await fill(turn, card);
    await onProof(turn);
    showProof(turn, view);
  }

  /** `‹ 2 / 3 ›`, if there is more than one. */
  function showVersions(turn: Turn, { versions }: TurnView): void {
    const all = versionsOf(turn);
    const at = all.indexOf(turn);
    const text = `${at + 1} / ${all.length}`;
    versions.hidden = all.length < 2;
    if (versions.hidden || versions.dataset['shown'] === text) return;
    versions.dataset['shown'] = text;
    const go = (label: string, sign: string, step: number) => {
      const disabled = all[at + step] === undefined;
      const made = create('button', { type: 'button', ariaLabel: label, disabled }, sign);
      made.addEventListener('click', () => {
        const present = versionsOf(turn);
        const version = present[present.indexOf(turn) + step];
        if (version !== undefined) onVersion(version);
      });
      return made;
    };
    versions.replaceChildren(
      go('The version before', '‹', -1),
      create('span', {}, text),
      go('The next version', '›', 1),
    );
  }

  function showThinking(turn: Turn, { thinking, summary, thought }: TurnView): void {
    const thoughts = thoughtsOf(turn);
    thinking.hidden = thoughts === '';
    const isFirst = isRunning(turn) && wordsOf(turn) === '';
    const title = isFirst ? 'The model is thinking …' : titleOfThoughts(turn);
    if (summary.textContent !== title) summary.textContent = title;
    // They are not visible while they are folded.
    if (thinking.open && thought.textContent !== thoughts) thought.textContent = thoughts;
  }

  function update(turn: Turn): void {
    const view = views.get(turn);
    if (view === undefined) return;
    const { answer, text, cost, again } = view;
    answer.dataset['state'] = turn.state;
    // Screen readers read the answer once it is complete, not word by word.
    answer.ariaBusy = String(isRunning(turn));
    text.source = wordsOf(turn);
    view.copy.hidden = text.source === '';
    showThinking(turn, view);
    // It would be paid twice.
    again.hidden = turn.state === 'elsewhere';
    if (!isRunning(turn)) text.complete();
    cost.textContent = isRunning(turn) ? '' : describeCost(turn);
    cost.title = TITLE;
    showNote(turn, view);
    showProof(turn, view);
    if (!isRunning(turn)) toEnd.showButton();
    showVersions(turn, view);
  }

  function add(turn: Turn): void {
    intro.hidden = true;
    const view = viewOf(turn);
    views.set(turn, view);
    log.append(view.article);
    toEnd.watch(view.article);
    update(turn);
  }

  return {
    add(turn) {
      add(turn);
      toEnd.follow();
    },

    update,

    mark(turn) {
      // The latest pieces may not be painted yet.
      update(turn);
      const element = create('span', { className: 'mark', role: 'note' });
      views.get(turn)?.text.mark(element);
      return element;
    },

    tell(turn, text) {
      told.textContent = text;
      const after = turn && views.get(turn)?.text;
      if (text === '') told.remove();
      else if (told.previousElementSibling !== after) after?.after(told);
    },

    remark(text) {
      const remark = create('p', { className: 'remark' }, text);
      log.append(remark);
      toEnd.watch(remark);
    },

    remove(turn) {
      const view = views.get(turn);
      if (view === undefined) return;
      clearInterval(view.ticking);
      // Remarks after it belong to it.
      while (view.article.nextElementSibling?.matches('.remark')) view.article.nextElementSibling.remove();
      view.article.remove();
      views.delete(turn);
    },

    show(turns) {
      const isAnyKept = turns.some((turn) => views.has(turn));
      if (views.size > 0 && !isAnyKept) this.clear();
      // Those that stay come first: no turn stays without the one before it.
      for (const turn of views.keys()) if (!turns.includes(turn)) this.remove(turn);
      const isLonger = turns.length > views.size;
      for (const turn of turns) views.has(turn) ? update(turn) : add(turn);
      if (isLonger) toEnd.follow();
    },

    clear() {
      for (const { ticking } of views.values()) clearInterval(ticking);
      views.clear();
      log.replaceChildren(byId('conversation'), intro);
      intro.hidden = false;
      log.scrollTop = 0;
    },
  };
}

/** Keeps the end in view, also if a notice makes the log smaller or a line wraps, until the user moves away from it. */
function followEnd(log: HTMLElement, hasContent: () => boolean, isGrowing: () => boolean) {
  const latest = byId<HTMLButtonElement>('latest');
  let follows = true;
  let lastTop = 0;
  let leavingUntil = 0;
  const distance = () => log.scrollHeight - log.scrollTop - log.clientHeight;
  const show = () => {
    latest.hidden = follows || !isGrowing() || distance() <= AT_END;
  };
  const ifFollowing = () => {
    if (follows && hasContent()) log.scrollTop = log.scrollHeight;
    show();
  };
  const follow = () => {
    follows = true;
    leavingUntil = 0;
    ifFollowing();
  };
  const leave = () => {
    if (log.scrollHeight <= log.clientHeight) return;
    follows = false;
    // The log is still at its end until the key or the wheel has moved it.
    leavingUntil = performance.now() + MOVING_MS;
  };
  log.addEventListener('wheel', ({ deltaY }) => deltaY < 0 && leave(), { passive: true });
  log.addEventListener('touchmove', leave, { passive: true });
  log.addEventListener('keydown', ({ key }) => {
    if (key === 'ArrowUp' || key === 'PageUp' || key === 'Home') leave();
    if (key === 'End') follow();
  });
  log.addEventListener('scroll', () => {
    const isMovedUp = log.scrollTop < lastTop;
    lastTop = log.scrollTop;
    if (distance() > AT_END) {
      // Nothing but the user moves the log upwards, such as with its scroll bar.
      if (isMovedUp) follows = false;
    } else if (performance.now() > leavingUntil) follows = true;
    show();
  });
  latest.addEventListener('click', () => {
    follow();
    // The button disappears and must not take the focus with it.
    byId('question').focus();
  });
  const observer = new ResizeObserver(ifFollowing);
  observer.observe(log);
  return { follow, showButton: show, watch: (content: Element) => observer.observe(content) };
}

function isRunning({ state }: Turn): boolean {
  return state === 'waiting' || state === 'streaming';
}

/** A moment is not worth a figure. */
const LEAST_THOUGHT_MS = 100;

function titleOfThoughts({ thoughtMs }: Turn): string {
  return thoughtMs < LEAST_THOUGHT_MS ? 'Thoughts of the model' : `Thought for ${duration(thoughtMs)}`;
}

const TITLE = 'Time, bytes on the socket, and bytes over HTTP with the answer in gzip';

function describeCost({ traffic }: Turn): string {
  const { ms } = traffic;
  const { socket, gzip } = bothWays(traffic);
  if (gzip === 0) return '';
  return `${duration(ms)} · ${bytes(socket)}, with gzip ${bytes(gzip)}`;
}
