import { byId } from '../../shared/dom.js';

/** Says what was done, and lets the user undo it for a while. */
export interface Undo {
  offer(text: string, undo: () => Promise<void>): void;
}

const SHOWN_MS = 10_000;

export function createUndo(): Undo {
  const box = byId('undo');
  const said = byId('undo-text');
  const button = byId<HTMLButtonElement>('undo-button');
  let run: (() => Promise<void>) | undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const hide = () => {
    // The user is about to press it.
    if (box.matches(':hover, :focus-within')) return wait();
    box.hidden = true;
    run = undefined;
  };
  const wait = () => {
    clearTimeout(timer);
    timer = setTimeout(hide, SHOWN_MS);
  };
  button.addEventListener('click', () => {
    const undo = run;
    run = undefined;
    box.hidden = true;
    byId('question').focus();
    void undo?.();
  });
  return {
    offer(text, undo) {
      run = undo;
      said.textContent = text;
      box.hidden = false;
      wait();
    },
  };
}
