const SHOWN_MS = 1_500;

/** The content of each button while nothing is copied. */
const contents = new WeakMap<HTMLButtonElement, readonly Node[]>();

/** Copies a text, and says on the button whether that worked. */
export async function copy(text: string, button: HTMLButtonElement): Promise<void> {
  const before = contents.get(button) ?? [...button.childNodes];
  contents.set(button, before);
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = 'Copied';
  } catch {
    // The browser asks the user, or the page has no focus.
    button.textContent = 'Not allowed';
  }
  setTimeout(() => button.replaceChildren(...before), SHOWN_MS);
}
