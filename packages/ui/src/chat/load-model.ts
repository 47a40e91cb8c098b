import { loadMarkdown } from './answer-text.js';

let want = () => {};
/** Resolves when this page is about to ask a model, or to follow an answer. */
export const isModelWanted = new Promise<void>((resolve) => {
  want = resolve;
});

/** Loads what asks a model, and lets the session load its codecs. The page shows itself and connects before that. */
export function loadModel() {
  want();
  void loadMarkdown();
  return import('./model.js');
}
