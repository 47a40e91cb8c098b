import type { Turn } from './conversation.js';
import { createPack, NOTHING_OMITTED, type Omitted, type Stored, unpack } from './stored.js';

/** The memory of this tab of its conversation when it is loaded again. */
export interface Memory {
  /** The turns of the last page of this tab; `undefined` if there was none. */
  readonly turns: readonly Turn[] | undefined;
  /** The turns that did not fit into the store; reset by {@link forget}. */
  readonly omitted: Omitted;
  /** Stores the conversation now. */
  save(): void;
  /** Stores the conversation soon; for calls with each part of an answer. */
  saveSoon(): void;
  /** Stores that a new conversation has begun. */
  forget(): void;
}

const KEY = 'parlance-chat';
/** UTF-16 units of the stored JSON; browsers store some 5 million for all that a tab has of an origin. */
const MAX_LENGTH = 2_000_000;
/** With less room than that, nothing is stored. */
const MIN_LENGTH = 10_000;
const SOON_MS = 250;

/**
 * An answer is stored together with the position in its reply. So what is stored may be old: the next page gets the
 * parts since then from the server.
 *
 * @param current returns the turns to store.
 */
export function createMemory(current: () => readonly Turn[]): Memory {
  const pack = createPack();
  const stored = read();
  let omitted = stored?.omitted ?? NOTHING_OMITTED;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const save = () => {
    clearTimeout(timer);
    timer = undefined;
    write((maxLength) => pack(current(), omitted, maxLength));
  };
  window.addEventListener('pagehide', save);
  return {
    turns: stored?.turns,
    get omitted() {
      return omitted;
    },
    save,
    saveSoon() {
      timer ??= setTimeout(save, SOON_MS);
    },
    forget() {
      omitted = NOTHING_OMITTED;
      save();
    },
  };
}

/** With less and less, until the browser has room for it. */
function write(packed: (maxLength: number) => string): void {
  let failure: unknown;
  for (let maxLength = MAX_LENGTH; maxLength >= MIN_LENGTH; maxLength /= 2) {
    try {
      sessionStorage.setItem(KEY, packed(maxLength));
      return;
    } catch (error) {
      failure = error;
    }
  }
  console.info('the conversation will not survive a reload:', failure);
}

function read(): Stored | undefined {
  try {
    return unpack(sessionStorage.getItem(KEY) ?? '');
  } catch {
    // Storage is blocked.
    return undefined;
  }
}
