import { byId } from '../../shared/dom.js';

/** The keys of the page, and the list of them behind `?`. */
export function createShortcuts(onNew: () => void, onSearch: () => void): void {
  const dialog = byId<HTMLDialogElement>('shortcuts');
  byId('shortcuts-open').addEventListener('click', () => dialog.showModal());
  byId('shortcuts-close').addEventListener('click', () => dialog.close());
  document.addEventListener('keydown', (event) => {
    const { key, ctrlKey, metaKey, shiftKey } = event;
    const isWriting = (event.target as Element | null)?.closest?.('input, textarea') !== null;
    const isCommand = ctrlKey || metaKey;
    if (isCommand && key.toLowerCase() === 'k') onSearch();
    else if (isCommand && shiftKey && key.toLowerCase() === 'o') onNew();
    else if ((isCommand && key === '/') || (key === '?' && !isWriting)) dialog.showModal();
    else return;
    event.preventDefault();
  });
}
