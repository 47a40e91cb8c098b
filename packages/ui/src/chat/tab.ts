import { randomName, renameTab, tabName } from '../shared/profile.js';

/** Whether this page continues one of its tab, or is in a copy of a tab that is still open. */
export interface Arrival {
  /** Browsers copy what a tab has stored when it is duplicated, and when it opens another one. */
  readonly isCopy: boolean;
  /** Milliseconds since the last page of this tab was left; 0 if there was none, or if it ended without a word. */
  readonly awayMs: number;
}

/** When the last page of this tab was left: only while no page of this tab is open. */
const LEFT_KEY = 'parlance-left';
const lockOf = (tab: string) => `parlance-tab ${tab}`;

/**
 * Finds out how this page was reached, and gives a copy a name of its own. Call it before anything else uses the name of the tab. It
 * holds a lock on that name, by which a copy notices that the tab is open.
 */
export async function arrive(): Promise<Arrival> {
  const left = takeLeft();
  const isCopy = left === undefined && (await isHeld(lockOf(tabName())));
  if (isCopy) renameTab(randomName());
  let release = hold(lockOf(tabName()));
  window.addEventListener('pagehide', () => {
    leave();
    // A page that holds a lock is not kept for "back".
    release();
  });
  window.addEventListener('pageshow', ({ persisted }) => {
    if (!persisted) return;
    takeLeft();
    release = hold(lockOf(tabName()));
  });
  return { isCopy, awayMs: left === undefined ? 0 : Math.max(0, Date.now() - left) };
}

/** Whether a page of this browser holds this lock, which is free as soon as that page has ended, however that happened. */
export async function isHeld(name: string): Promise<boolean> {
  const locks = navigator.locks as LockManager | undefined;
  return (await locks?.request(name, { ifAvailable: true }, async (lock) => lock === null)) ?? false;
}

/** Holds a lock until the returned function is called. */
export function hold(name: string): () => void {
  let release = (): void => {};
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  const locks = navigator.locks as LockManager | undefined;
  locks?.request(name, () => released).catch(() => {});
  return release;
}

function leave(): void {
  try {
    sessionStorage.setItem(LEFT_KEY, String(Date.now()));
  } catch {
    // The browser blocks storage: then nothing is copied either.
  }
}

function takeLeft(): number | undefined {
  try {
    const left = Number(sessionStorage.getItem(LEFT_KEY) ?? Number.NaN);
    sessionStorage.removeItem(LEFT_KEY);
    return Number.isFinite(left) ? left : undefined;
  } catch {
    return undefined;
  }
}
