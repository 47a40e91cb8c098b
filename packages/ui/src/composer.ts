import { byId, create } from './dom.js';

/** The form to write and send a message, and to stop an answer. */
export interface Composer {
  /** Whether there is a session to send to. */
  setConnected(isConnected: boolean): void;
  /** Whether an answer is being received, which can be stopped; the next question can be written meanwhile. */
  setAnswering(isAnswering: boolean): void;
}

const SUGGESTIONS = [
  'What is sent over this socket?',
  'How long is a Donaudampfschifffahrtsgesellschaft?',
  'Say hello in Ελληνικά and in русский.',
] as const;

export interface ComposerEvents {
  onSend(text: string): void;
  onStop(): void;
}

export function createComposer({ onSend, onStop }: ComposerEvents): Composer {
  const form = byId<HTMLFormElement>('composer');
  const question = byId<HTMLTextAreaElement>('question');
  const send = byId<HTMLButtonElement>('send');
  const stop = byId<HTMLButtonElement>('stop');
  let isConnected = false;
  let isAnswering = false;

  function update(): void {
    send.disabled = !isConnected || question.value.trim() === '';
    send.hidden = isAnswering;
    const hadFocus = document.activeElement === stop;
    stop.hidden = !isAnswering;
    // A button that disappears must not take the focus with it.
    if (hadFocus && !isAnswering) question.focus();
    // As tall as its text, up to the limit in the style sheet.
    question.style.height = 'auto';
    question.style.height = `${question.scrollHeight + question.offsetHeight - question.clientHeight}px`;
  }

  function submit(): void {
    const text = question.value.trim();
    if (text === '' || !isConnected || isAnswering) return;
    question.value = '';
    onSend(text);
    update();
  }

  form.addEventListener('submit', (event) => {
    event.preventDefault();
    submit();
  });
  question.addEventListener('input', update);
  question.addEventListener('keydown', (event) => {
    // While an input method composes, Enter accepts its suggestion.
    if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    submit();
  });
  stop.addEventListener('click', onStop);

  byId('suggestions').append(
    ...SUGGESTIONS.map((text) => {
      const button = create('button', { type: 'button' }, text);
      button.addEventListener('click', () => {
        question.value = text;
        update();
        question.focus();
      });
      return create('li', {}, button);
    }),
  );
  // On touch screens, the focus would open a keyboard that hides the introduction.
  if (matchMedia('(pointer: fine)').matches) question.focus();
  update();

  return {
    setConnected(value) {
      isConnected = value;
      update();
    },
    setAnswering(value) {
      isAnswering = value;
      update();
    },
  };
}
