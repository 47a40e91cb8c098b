import { byId, create } from '../shared/dom.js';
import { createAttachments } from './composing/attachments.js';
import type { Attachment, Turn } from './conversation.js';
import type { LinkState } from './session-link.js';

/** The form to write and send a message, and to stop an answer. */
export interface Composer {
  /** Whether there is a session to send to, and what the page knows of its connection. */
  setConnected(isConnected: boolean, link: LinkState['name']): void;
  /** Whether an answer is being received, which can be stopped; the next question can be written meanwhile. */
  setAnswering(isAnswering: boolean): void;
  /** No answer is being received. @param end whether the last one is complete, or may still become complete. */
  settle(end: 'complete' | 'open' | 'failed'): void;
  /** Puts an earlier question into the form, which then takes its place. */
  edit(turn: Turn): void;
  focus(): void;
}

/** Its answer takes a while. */
export const LONG_ANSWER = 'How does an answer survive a lost connection?';
const SUGGESTIONS = [
  LONG_ANSWER,
  'Write a debounce function in TypeScript.',
  'What does a long chat cost?',
] as const;

const HAS_POINTER = matchMedia('(pointer: fine)');
const DRAFT_KEY = 'parlance-draft';
const QUEUED_KEY = 'parlance-queued';
const HINT = 'Enter sends · Shift + Enter starts a new line';
const QUEUED = 'It is sent as soon as this answer is complete. Esc keeps it here.';
const QUEUED_AWAY = 'It is sent if the answer before it becomes complete. Esc keeps it here.';
const AWAY: Readonly<Partial<Record<LinkState['name'], string>>> = {
  suspended: 'Offline.',
  moving: 'The session has ended.',
  lost: 'The session has ended.',
  ended: 'The session has ended.',
};
const NOT_SENT = 'It was not sent, as the answer before it is not complete.';
const EDITING = 'Sending it begins another version from there; the one before stays. Esc cancels.';

export interface ComposerEvents {
  /** @param isEdited whether it replaces the question that is being edited. */
  onSend(text: string, files: readonly Attachment[], isEdited: boolean): void;
  /** How many bytes of files a question may carry. */
  maxFileBytes(): number;
  onStop(): void;
  /** The user has begun to write. */
  onWrite(): void;
  /** The user wants to edit the last question. */
  onEditLast(): void;
}

/** @param isCopy what is written was copied from another tab, which sends it. */
export function createComposer(
  { onSend, maxFileBytes, onStop, onEditLast, onWrite }: ComposerEvents,
  isCopy: boolean,
): Composer {
  const form = byId<HTMLFormElement>('composer');
  const question = byId<HTMLTextAreaElement>('question');
  const send = byId<HTMLButtonElement>('send');
  const stop = byId<HTMLButtonElement>('stop');
  const hint = byId('keys');
  const files = createAttachments(maxFileBytes, () => {
    onWrite();
    update();
  });
  let isConnected = false;
  let link: LinkState['name'] = 'connecting';
  let isAnswering = false;
  /** The last answer may still become complete. */
  let isOpen = false;
  /** The written text is sent when the answer before it is complete. */
  let isQueued = !isCopy && stored(QUEUED_KEY) !== '';
  /** It was to be sent, but that answer has failed. */
  let isHeldBack = false;
  /** The text that was being written before a question was edited; `undefined` if none is. */
  let draft: string | undefined;

  function update(): void {
    send.disabled = !isConnected || isBlank();
    const { activeElement } = document;
    send.hidden = isAnswering;
    stop.hidden = !isAnswering;
    // A button that disappears must not take the focus with it. On touch screens, Send would open the keyboard again.
    if (
      (activeElement === stop && !isAnswering) ||
      (activeElement === send && isAnswering && HAS_POINTER.matches)
    )
      question.focus();
    const said = isQueued
      ? link === 'connected'
        ? QUEUED
        : `${AWAY[link] ?? 'Not connected yet.'} ${QUEUED_AWAY}`
      : isHeldBack
        ? `${NOT_SENT} ${isConnected ? 'Enter sends it.' : 'It stays here.'}`
        : draft === undefined
          ? HINT
          : EDITING;
    if (hint.textContent !== said) hint.textContent = said;
    hint.classList.toggle('told', said !== HINT);
    // As tall as its text, up to the limit in the style sheet.
    question.style.height = 'auto';
    question.style.height = `${question.scrollHeight + question.offsetHeight - question.clientHeight}px`;
    store(DRAFT_KEY, draft ?? question.value);
    store(QUEUED_KEY, isQueued ? 'yes' : '');
  }

  function isBlank(): boolean {
    return question.value.trim() === '' && files.isEmpty;
  }

  function submit(): void {
    const text = question.value.trim();
    isQueued = (isAnswering || isOpen) && !isBlank();
    isHeldBack = false;
    if (isBlank() || !isConnected || isAnswering || isOpen) return update();
    const isEdited = draft !== undefined;
    const attached = files.take();
    question.value = draft ?? '';
    draft = undefined;
    update();
    onSend(text, attached, isEdited);
  }

  /** Unless its time has not come: then it stays queued. */
  function sendQueued(): void {
    if (isQueued && isConnected && !isAnswering && !isOpen) submit();
    else update();
  }

  function giveUp(): void {
    if (isQueued) isQueued = false;
    else if (draft !== undefined) {
      question.value = draft;
      draft = undefined;
      files.set([]);
    } else if (isAnswering) onStop();
    update();
  }

  form.addEventListener('submit', (event) => {
    event.preventDefault();
    submit();
  });
  question.addEventListener('input', () => {
    onWrite();
    isQueued = false;
    isHeldBack = false;
    update();
  });
  question.addEventListener('keydown', (event) => {
    // While an input method composes, Enter accepts its suggestion.
    if (event.isComposing || event.shiftKey) return;
    if (event.key === 'Enter') submit();
    else if (event.key === 'ArrowUp' && question.value === '') onEditLast();
    else return;
    event.preventDefault();
  });
  document.addEventListener('keydown', ({ key, isComposing }) => {
    if (key === 'Escape' && !isComposing) giveUp();
  });
  stop.addEventListener('click', onStop);

  byId('suggestions').append(
    ...SUGGESTIONS.map((text) => {
      const button = create('button', { type: 'button' }, text);
      button.addEventListener('click', () => {
        question.value = text;
        onWrite();
        update();
        question.focus();
      });
      return create('li', {}, button);
    }),
  );
  question.value = stored(DRAFT_KEY);
  // On touch screens, the focus would open a keyboard that hides the introduction.
  if (HAS_POINTER.matches) question.focus();
  update();

  return {
    setConnected(value, name) {
      isConnected = value;
      link = name;
      sendQueued();
    },
    setAnswering(value) {
      isAnswering = value;
      document.body.toggleAttribute('data-answering', value);
      update();
    },
    settle(end) {
      isOpen = end === 'open';
      if (isQueued && end === 'failed') {
        isQueued = false;
        isHeldBack = true;
      }
      sendQueued();
    },
    edit({ question: text = '', files: attached }) {
      draft ??= question.value;
      isQueued = false;
      isHeldBack = false;
      question.value = text;
      files.set(attached);
      update();
      question.focus();
    },
    focus: () => question.focus(),
  };
}

/** Keeps what is being written while the page is loaded again. */
function store(key: string, text: string): void {
  try {
    sessionStorage.setItem(key, text);
  } catch {
    // The browser blocks storage.
  }
}

function stored(key: string): string {
  try {
    return sessionStorage.getItem(key) ?? '';
  } catch {
    return '';
  }
}
