const SHOWN_MS = 1_500;

/** Copies a text, and says on the button whether that worked. */
export async function copy(text: string, button: HTMLButtonElement): Promise<void> {
  const label = button.textContent;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = 'Copied';
  } catch {
    // The browser asks the user, or the page has no focus.
    button.textContent = 'Not allowed';
  }
  setTimeout(() => {
    button.textContent = label;
  }, SHOWN_MS);
}
